//! `size`: the value of a dimension, for use in computations.

use crate::ops::rules::*;

/// The value of `dim` at run time, as a scalar of a numeric dtype. The op has no operands.
#[derive(Clone, Debug)]
pub struct Size {
    /// The dimension.
    pub dim: Dim,
    /// The dtype of the result.
    pub dtype: DType,
}

op_text!("size" => Size { dim, dtype });

impl OpRules for Size {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [] = arity(at, inputs)?;
        if self.dtype == DType::Bool {
            let fix = "compare the size to get a boolean";
            return Err(at.mismatch("attribute `dtype`", "a number type", self.dtype, fix));
        }
        Ok(vec![TensorType::scalar(self.dtype)])
    }

    fn eval(&self, context: &mut EvalContext<'_>, _: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let value = context.dim(&self.dim)?;
        Ok(vec![HostTensor::scalar(value).cast(self.dtype)])
    }

    fn batch(&self, _: &Dim, _: &[Batched]) -> Result<Vec<Batched>, Failed> {
        emit_shared(self.clone())
    }

    no_derivative_rules!();
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{check_op, rejects};

    #[test]
    fn is_a_scalar_of_the_dtype() {
        check_op("size {dim=7, dtype=f32}", &[], 7f32);
        rejects("size {dim=7, dtype=bool}", &[], "a number type");
    }
}
