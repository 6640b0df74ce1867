//! `iota`: the vector 0, 1, 2, ...

use crate::ops::rules::*;

/// The vector of the integers from 0 to `size - 1`, of any numeric dtype. The op has no operands.
#[derive(Clone, Debug)]
pub struct Iota {
    /// The number of elements.
    pub size: Dim,
    /// The dtype of the result.
    pub dtype: DType,
}

op_text!("iota" => Iota { size, dtype });

impl OpRules for Iota {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [] = arity(at, inputs)?;
        if self.dtype == DType::Bool {
            let fix = "compare the numbers to get booleans";
            return Err(at.mismatch("attribute `dtype`", "a number type", self.dtype, fix));
        }
        if self.size.is_at_least(&Dim::from(0)) == Some(false) {
            return Err(at.mismatch("attribute `size`", "0 or more", &self.size, "give a size that is not negative"));
        }
        Ok(vec![TensorType::new(self.dtype, [self.size.clone()])])
    }

    fn eval(&self, context: &mut EvalContext<'_>, _: &[HostTensor], outputs: &[TensorType]) -> Result<Vec<HostTensor>> {
        let shape = context.shape(&outputs[0].shape)?;
        let number = |i: usize| if self.dtype.is_float() { Scalar::Float(i as f64) } else { Scalar::Int(i as i64) };
        Ok(vec![HostTensor::from_fn(self.dtype, &shape, |index| number(index[0]))])
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
    fn counts_from_zero() {
        check_op("iota {size=3, dtype=i64}", &[], [0i64, 1, 2]);
        rejects("iota {size=3, dtype=bool}", &[], "a number type");
        rejects("iota {size=-1, dtype=i64}", &[], "0 or more");
    }
}
