//! `cast`: elementwise conversion to another dtype.
//!
//! A conversion from floats to integers truncates toward zero and saturates at the bounds of the dtype; NaN becomes 0.
//! A conversion from integers to a narrower integer type wraps. A number becomes `true` unless it is zero. `true`
//! becomes 1, and `false` becomes 0. A conversion to a narrower float rounds to nearest, ties to even.

use crate::ops::rules::*;

/// The conversion of each element to `dtype`.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    /// The dtype of the result.
    pub dtype: DType,
}

op_text!("cast" => Cast { dtype });

impl OpRules for Cast {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        Ok(vec![x.with_dtype(self.dtype)])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        Ok(vec![inputs[0].cast(self.dtype)])
    }

    elementwise_batch!();

    linear_jvp!();

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let from = context.operands[0].dtype();
        Ok(vec![from.is_float().then(|| cotangent.cast(from))])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn floats_saturate_and_integers_wrap() {
        let x = HostTensor::from([300.7f32, -1.5, f32::NAN]);
        check_op("cast {dtype=u8}", std::slice::from_ref(&x), [255u8, 0, 0]);
        check_op("cast {dtype=i32}", std::slice::from_ref(&x), [300i32, -1, 0]);
        check_op("cast {dtype=bool}", &[x], [true, true, true]);
        check_op("cast {dtype=u8}", &[HostTensor::scalar(300i64)], 44u8);
        check_op("cast {dtype=f32}", &[HostTensor::scalar(true)], 1f32);
    }
}
