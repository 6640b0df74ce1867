//! `reverse`: reverses one axis.

use crate::ops::gather_along;
use crate::ops::rules::*;

/// The reversal of the operand along `axis`.
#[derive(Clone, Copy, Debug)]
pub struct Reverse {
    /// The axis to reverse.
    pub axis: usize,
}

op_text!("reverse" => Reverse { axis });

impl OpRules for Reverse {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        check_axis(at, "attribute `axis`", self.axis, x.rank())?;
        Ok(vec![x])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        Ok(gather_along(self.axis, x, x.shape(), |index| x.shape()[self.axis] - 1 - index[self.axis]))
    }

    fn batch(&self, _: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let op = Reverse { axis: self.axis + 1 };
        emit_lanes(op, &[operands[0].value])
    }

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        Ok(vec![Some(cotangent.reverse(self.axis as i64))])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn one_axis_only() {
        let x = HostTensor::from([[1i32, 2], [3, 4]]);
        check_op("reverse {axis=1}", &[x], [[2i32, 1], [4, 3]]);
        rejects("reverse {axis=2}", &["i32[2,2]"], "an axis below 2");
    }
}
