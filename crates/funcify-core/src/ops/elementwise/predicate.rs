//! Elementwise predicates on floats, with a boolean result.

use crate::ops::rules::*;

macro_rules! predicate_table {
    ($($name:ident => $op:ident, |$x:ident| $holds:expr, $doc:literal;)*) => {
        op_table! {
            /// An elementwise predicate on floats.
            Predicate, PREDICATE_NAMES, predicate_of: $(stringify!($name) => $op, $doc;)*
        }

        impl Predicate {
            fn holds(self, value: f64) -> bool {
                match self { $(Predicate::$op => { let $x = value; $holds })* }
            }
        }

        $(value_method!(1 $name: Predicate::$op, $doc);)*
    };
}

predicate_table! {
    is_nan => IsNan, |x| x.is_nan(), "`true` where x is NaN.";
    is_finite => IsFinite, |x| x.is_finite(), "`true` where x is neither infinite nor NaN.";
}

impl OpRules for Predicate {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        Domain::Float.check(at, "the operand", &x)?;
        Ok(vec![x.with_dtype(DType::Bool)])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let scalars = inputs[0].scalars().map(|scalar| Scalar::Bool(self.holds(scalar.as_f64())));
        tensor(DType::Bool, inputs[0].shape(), scalars)
    }

    elementwise_batch!();

    no_derivative_rules!();
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn infinities_and_nan() {
        let x = HostTensor::from([1f32, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
        check_op("is_nan", std::slice::from_ref(&x), [false, false, false, true]);
        check_op("is_finite", &[x], [true, false, false, false]);
    }

    #[test]
    fn floats_only() {
        rejects("is_nan", &["i64[2]"], "a float type");
        rejects("is_finite", &["bool[2]"], "a float type");
    }
}
