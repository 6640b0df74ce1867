//! `argmax`: the position of the largest element along an axis.
//!
//! If several elements share the largest value, the result is the position of the first of them. If the axis contains
//! NaN, the result is the position of the first NaN. An empty axis is rejected only at run time, because the op may be
//! in a loop that runs no steps.

use crate::ops::check_not_empty;
use crate::ops::rules::*;

/// The position of the largest element along `axis`, as i64. `axis` is removed from the shape.
#[derive(Clone, Copy, Debug)]
pub struct ArgMax {
    /// The axis to search.
    pub axis: usize,
}

op_text!("argmax" => ArgMax { axis });

impl OpRules for ArgMax {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        check_axis(at, "attribute `axis`", self.axis, x.rank())?;
        if x.dtype == DType::Bool {
            return Err(at.mismatch("the operand", "a number type", x, "cast the booleans to a number type"));
        }
        Ok(vec![TensorType::new(DType::I64, x.shape.without(self.axis))])
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        check_not_empty(&context.at, x, self.axis)?;
        let mut shape = x.shape().to_vec();
        shape.remove(self.axis);
        let result = HostTensor::from_fn(DType::I64, &shape, |outer| {
            let mut index = outer.to_vec();
            index.insert(self.axis, 0);
            let mut best = 0;
            let mut largest = x.at(&index);
            for position in 1..x.shape()[self.axis] {
                index[self.axis] = position;
                let candidate = x.at(&index);
                let larger = match (candidate, largest) {
                    (Scalar::Int(a), Scalar::Int(b)) => a > b,
                    (a, b) => !b.as_f64().is_nan() && (a.as_f64() > b.as_f64() || a.as_f64().is_nan()),
                };
                if larger {
                    (best, largest) = (position, candidate);
                }
            }
            Scalar::Int(best as i64)
        });
        Ok(vec![result])
    }

    fn batch(&self, _: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let op = ArgMax { axis: self.axis + 1 };
        emit_lanes(op, &[operands[0].value])
    }

    no_derivative_rules!();
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn the_first_of_equals_and_the_first_nan() {
        let x = HostTensor::from([[1f32, 3., 3.], [2., f32::NAN, 9.]]);
        check_op("argmax {axis=1}", &[x], [1i64, 1]);
    }

    #[test]
    fn the_axis_is_not_empty() {
        fails("argmax {axis=0}", &[HostTensor::zeros(crate::DType::F32, &[0, 2])], "a non-empty axis");
    }
}
