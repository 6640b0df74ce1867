//! `transpose`: permutes the axes of a tensor.

use crate::ops::rules::*;

/// A permutation of axes: axis `i` of the result is axis `axes[i]` of the operand.
#[derive(Clone, Debug)]
pub struct Transpose {
    /// The permutation of the operand's axes.
    pub axes: Vec<usize>,
}

op_text!("transpose" => Transpose { axes });

impl OpRules for Transpose {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        let mut sorted = self.axes.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..x.rank()) {
            let expected = format!("a permutation of the {} axes of {x}", x.rank());
            return Err(at.mismatch("attribute `axes`", expected, format!("{:?}", self.axes), "name each axis once"));
        }
        Ok(vec![x.with_shape(Shape::new(self.axes.iter().map(|axis| &x.shape[*axis])))])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        let shape: Vec<usize> = self.axes.iter().map(|axis| x.shape()[*axis]).collect();
        let result = HostTensor::from_fn(x.dtype(), &shape, |index| {
            let mut source = vec![0; index.len()];
            self.axes.iter().zip(index).for_each(|(axis, i)| source[*axis] = *i);
            x.at(&source)
        });
        Ok(vec![result])
    }

    fn batch(&self, _: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let op = Transpose { axes: std::iter::once(0).chain(self.axes.iter().map(|axis| axis + 1)).collect() };
        emit_lanes(op, &[operands[0].value])
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let mut axes = vec![0; self.axes.len()];
        self.axes.iter().enumerate().for_each(|(to, from)| axes[*from] = to);
        Ok(vec![Some(cotangent.transpose(axes))])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn permutes_axes() {
        let x = HostTensor::from([[[1i32, 2, 3], [4, 5, 6]]]);
        let y = HostTensor::from([[[1i32, 4]], [[2, 5]], [[3, 6]]]);
        check_op("transpose {axes=[2,0,1]}", &[x], y.clone());
    }

    #[test]
    fn each_axis_once() {
        rejects("transpose {axes=[0,0]}", &["f32[2,3]"], "a permutation of the 2 axes");
    }
}
