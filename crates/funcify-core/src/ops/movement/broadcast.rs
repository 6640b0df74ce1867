//! `broadcast`: repeats elements to fill a larger shape, following NumPy's broadcasting rules.

use crate::ops::rules::*;
use crate::value::Axes;

/// A broadcast of the operand to `shape`. The two shapes are aligned at their last axes. Each axis of the operand must
/// have size 1, or the size of the corresponding axis of `shape`.
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// The shape of the result.
    pub shape: Shape,
}

op_text!("broadcast" => Broadcast { shape });

impl Broadcast {
    pub(crate) fn lanes_along(&self, axis: usize, operands: &[&TensorType], results: &[&TensorType]) -> Option<Lanes> {
        let (from, to) = (&operands[0].shape, &results[0].shape);
        let own = axis.checked_sub(to.rank() - from.rank());
        Some(smallvec![own.filter(|own| from[*own] == to[axis])])
    }
}

impl OpRules for Broadcast {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        if !broadcasts(&x.shape, &self.shape) {
            let expected = format!("a shape that broadcasts to {}", self.shape);
            return Err(at.mismatch("the operand", expected, x, "make each axis equal to the target's, or 1"));
        }
        Ok(vec![x.with_shape(&self.shape)])
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        let shape = context.shape(&self.shape)?;
        let added = shape.len() - x.shape().len();
        let result = HostTensor::from_fn(x.dtype(), &shape, |index| {
            let source = index[added..].iter().zip(x.shape()).map(|(i, size)| if *size == 1 { 0 } else { *i });
            x.at(&source.collect::<Vec<_>>())
        });
        Ok(vec![result])
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let (lane, missing) = (operands[0].value.shape(), self.shape.rank() - operands[0].lane_rank());
        let ones = std::iter::repeat_n(Dim::from(1), missing);
        let aligned: Vec<Dim> =
            lane.dims()[..1].iter().cloned().chain(ones).chain(lane.dims()[1..].iter().cloned()).collect();
        let value = operands[0].value.reshape(aligned);
        emit_lanes(Broadcast { shape: self.shape.with_inserted(0, size.clone()) }, &[value])
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let (from, to) = (context.operands[0].shape(), &self.shape);
        let added = to.rank() - from.rank();
        let repeated = |axis: &usize| *axis < added || from[*axis - added] != to[*axis];
        let axes: Vec<i64> = (0..to.rank()).filter(repeated).map(|axis| axis as i64).collect();
        if axes.is_empty() {
            return Ok(vec![Some(cotangent)]);
        }
        let sum = cotangent.sum(Axes::These(axes));
        Ok(vec![Some(if sum.shape() == from { sum } else { sum.reshape(from) })])
    }
}

/// Returns `true` if the shape `from` can be broadcast to the shape `to`.
pub(in crate::ops) fn broadcasts(from: &Shape, to: &Shape) -> bool {
    let mut aligned = from.dims().iter().rev().zip(to.dims().iter().rev());
    from.rank() <= to.rank() && aligned.all(|(from, to)| from == to || from.constant() == Some(1))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn repeats_axes_of_one_and_new_axes() {
        let x = HostTensor::from([[1i32], [2]]);
        let y = HostTensor::from([[[1i32, 1], [2, 2]], [[1, 1], [2, 2]]]);
        check_op("broadcast {shape=[2,2,2]}", &[x], y.clone());
    }

    #[test]
    fn other_axes_do_not_fit() {
        rejects("broadcast {shape=[4]}", &["f32[3]"], "broadcasts to [4]");
        rejects("broadcast {shape=[T]}", &["f32[B]"], "broadcasts to [T]");
    }
}
