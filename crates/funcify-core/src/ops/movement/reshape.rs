//! `reshape`: the same elements, in row-major order, in a different shape.

use crate::ops::rules::*;

/// The operand's elements in a new shape. Both shapes must have the same number of elements for all values of their
/// symbols.
#[derive(Clone, Debug)]
pub struct Reshape {
    /// The shape of the result.
    pub shape: Shape,
}

op_text!("reshape" => Reshape { shape });

impl Reshape {
    pub(crate) fn lanes_along(&self, axis: usize, operands: &[&TensorType], results: &[&TensorType]) -> Option<Lanes> {
        let same = same_axis(&results[0].shape, &operands[0].shape, axis)?;
        Some(smallvec![Some(same)])
    }
}

/// Returns the axis of `to` that corresponds to `axis` of `from`, or `None` if no axis corresponds to it. Corresponding
/// axes have the same size, and the axes before them hold the same number of elements.
fn same_axis(from: &Shape, to: &Shape, axis: usize) -> Option<usize> {
    let elements = |dims: &[Dim]| dims.iter().fold(Dim::from(1), |product, dim| product * dim);
    let before = elements(&from.dims()[..axis]);
    (0..to.rank()).find(|other| to[*other] == from[axis] && elements(&to.dims()[..*other]) == before)
}

impl OpRules for Reshape {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        let (found, needed) = (x.shape.elements(), self.shape.elements());
        if found != needed || needed.is_beyond_range() {
            let expected = format!("{needed} elements, for {}", self.shape);
            let fix = "give a shape with the same number of elements for all sizes";
            return Err(at.mismatch("the operand", expected, format!("{found} elements, in {x}"), fix));
        }
        Ok(vec![x.with_shape(&self.shape)])
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let shape = context.shape(&self.shape)?;
        Ok(inputs[0].clone().reshaped(shape).into_iter().collect())
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let op = Reshape { shape: self.shape.with_inserted(0, size.clone()) };
        emit_lanes(op, &[operands[0].value])
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        Ok(vec![Some(cotangent.reshape(context.operands[0].shape()))])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn keeps_the_row_major_order() {
        let x = HostTensor::from([[1i32, 2, 3], [4, 5, 6]]);
        check_op("reshape {shape=[3,2]}", std::slice::from_ref(&x), x.clone().reshaped([3, 2]).unwrap());
    }

    #[test]
    fn the_number_of_elements_is_the_same_for_all_sizes() {
        rejects("reshape {shape=[5]}", &["f32[2,3]"], "5 elements");
        rejects("reshape {shape=[T,2]}", &["f32[T]"], "2*T elements");
    }
}
