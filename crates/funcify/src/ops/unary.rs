//! Elementwise ops of one operand: a table of text, domain, evaluation on floats, evaluation on integers.
//!
//! Floats are computed in f64 and rounded once to the operand's dtype; integers wrap.

use super::{Attributes, EvalContext, Op, OpKey, OpRules, arity, batch_elementwise};
use crate::error::{Place, Result};
use crate::host::{HostTensor, Scalar, Storage};
use crate::types::{DType, Dim, TensorType};
use crate::vmap::Batched;

/// Which element types an elementwise op takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Domain {
    /// Floats.
    Float,
    /// Floats and integers.
    Number,
    /// Booleans, and integers bit by bit.
    Logic,
    /// Every type.
    Any,
}

impl Domain {
    pub(super) fn check(self, at: &Place, component: &str, ty: &TensorType) -> Result<()> {
        let dtype = ty.dtype;
        let (fits, expected, fix) = match self {
            Domain::Float => (dtype.is_float(), "a float type", "cast the operand to a float type"),
            Domain::Number => (dtype != DType::Bool, "a number type", "cast the operand to a number type"),
            Domain::Logic => (!dtype.is_float(), "bool or an integer type", "compare, or cast to bool"),
            Domain::Any => (true, "", ""),
        };
        if fits { Ok(()) } else { Err(at.mismatch(component, expected, ty, fix)) }
    }
}

macro_rules! unary_table {
    ($($name:literal => $op:ident, $domain:ident, |$x:ident| $float:expr, |$i:ident| $int:expr, $doc:literal;)*) => {
        /// An elementwise op of one operand.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Unary {
            $(#[doc = $doc] $op,)*
        }

        pub(super) const UNARY_NAMES: &[&str] = &[$($name),*];

        pub(super) fn unary_of(name: &str) -> Option<Unary> {
            match name { $($name => Some(Unary::$op),)* _ => None }
        }

        impl Unary {
            fn domain(self) -> Domain {
                match self { $(Unary::$op => Domain::$domain,)* }
            }

            fn eval_scalar(self, scalar: Scalar) -> Scalar {
                match (self, scalar) {
                    $((Unary::$op, Scalar::Float($x)) => Scalar::Float($float),)*
                    $((Unary::$op, Scalar::Int($i)) => Scalar::Int($int),)*
                    (Unary::Not, Scalar::Bool(b)) => Scalar::Bool(!b),
                    (_, Scalar::Bool(b)) => Scalar::Bool(b),
                }
            }
        }

        impl OpRules for Unary {
            fn name(&self) -> &'static str {
                match self { $(Unary::$op => $name,)* }
            }

            fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
                let [x] = arity(at, inputs)?;
                self.domain().check(at, "the operand", &x)?;
                Ok(vec![x])
            }

            fn eval(
                &self,
                _: &mut EvalContext<'_>,
                inputs: &[HostTensor],
                _: &[TensorType],
            ) -> Result<Vec<HostTensor>> {
                let x = &inputs[0];
                let scalars = x.scalars().map(|scalar| self.eval_scalar(scalar));
                let storage = Storage::from_scalars(x.dtype(), scalars);
                Ok(HostTensor::new(x.shape(), storage).into_iter().collect())
            }

            fn attributes(&self) -> Attributes {
                Attributes::new()
            }

            fn batch(&self, size: &Dim, operands: &[Batched]) -> Vec<Batched> {
                batch_elementwise(*self, size, operands)
            }
        }

        $(
            #[doc = $doc]
            #[derive(Clone, Copy, Debug)]
            pub struct $op;

            impl OpKey for $op {
                const NAME: &'static str = $name;
                fn of(op: &Op) -> Option<&Self> {
                    matches!(op, Op::Unary(Unary::$op)).then_some(&$op)
                }
            }
        )*
    };
}

unary_table! {
    "neg" => Neg, Number, |x| -x, |i| i.wrapping_neg(), "-x; integers wrap.";
    "abs" => Abs, Number, |x| x.abs(), |i| i.wrapping_abs(), "|x|; the smallest integer stays itself.";
    "sign" => Sign, Number, |x| if x.is_nan() || x == 0.0 { x } else { x.signum() }, |i| i.signum(),
        "-1, 0 or 1; NaN and signed zeros stay themselves.";
    "square" => Square, Number, |x| x * x, |i| i.wrapping_mul(i), "x * x; integers wrap.";
    "exp" => Exp, Float, |x| x.exp(), |i| i, "e to the power x.";
    "expm1" => Expm1, Float, |x| x.exp_m1(), |i| i, "exp(x) - 1, exact near zero.";
    "log" => Log, Float, |x| x.ln(), |i| i, "The natural logarithm; NaN below zero, -inf at zero.";
    "log1p" => Log1p, Float, |x| x.ln_1p(), |i| i, "log(1 + x), exact near zero.";
    "tanh" => Tanh, Float, |x| x.tanh(), |i| i, "The hyperbolic tangent.";
    "sigmoid" => Sigmoid, Float, |x| 1.0 / (1.0 + (-x).exp()), |i| i, "1 / (1 + exp(-x)).";
    "sin" => Sin, Float, |x| x.sin(), |i| i, "The sine of x radians.";
    "cos" => Cos, Float, |x| x.cos(), |i| i, "The cosine of x radians.";
    "sqrt" => Sqrt, Float, |x| x.sqrt(), |i| i, "The square root; NaN below zero.";
    "rsqrt" => Rsqrt, Float, |x| 1.0 / x.sqrt(), |i| i, "1 / sqrt(x); inf at zero, NaN below.";
    "recip" => Recip, Float, |x| 1.0 / x, |i| i, "1 / x.";
    "not" => Not, Logic, |x| x, |i| !i, "Logical not of booleans, bitwise not of integers.";
    "stop_gradient" => StopGradient, Any, |x| x, |i| i, "x itself; no derivative passes through it.";
}

#[cfg(test)]
mod tests {
    use crate::HostTensor;
    use crate::ops::testing::{check_op, rejects};

    #[test]
    fn floats_are_rounded_once() {
        let x = HostTensor::from_vec(vec![0.5f32, -2.0], [2]).unwrap();
        check_op(
            "tanh",
            std::slice::from_ref(&x),
            &HostTensor::from_vec(vec![0.5f64.tanh() as f32, (-2f64).tanh() as f32], [2]).unwrap(),
        );
        check_op("sign", &[x], &HostTensor::from_vec(vec![1f32, -1.0], [2]).unwrap());
    }

    #[test]
    fn integers_wrap_and_not_is_bitwise() {
        let x = HostTensor::from_vec(vec![1u8, 0], [2]).unwrap();
        check_op("neg", std::slice::from_ref(&x), &HostTensor::from_vec(vec![255u8, 0], [2]).unwrap());
        check_op("not", &[x], &HostTensor::from_vec(vec![254u8, 255], [2]).unwrap());
        check_op("not", &[HostTensor::scalar(true)], &HostTensor::scalar(false));
    }

    #[test]
    fn the_domain_is_part_of_the_type_rule() {
        rejects("exp", &["i64[3]"], "a float type");
        rejects("neg", &["bool[]"], "a number type");
        rejects("not", &["f32[]"], "bool or an integer type");
    }
}
