//! Elementwise ops with one operand. A table lists the name of each op, its domain, its evaluation on floats and on
//! integers, and a description. Each row also defines a method on values. Tests of all these ops iterate over
//! [`Unary::ALL`].
//!
//! Ops on floats compute in f64 and round the result once to the operand's dtype. Ops on integers wrap.

use crate::ops::rules::*;
use crate::ops::{partials, special};

/// The element types that an elementwise op accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ops) enum Domain {
    /// Floats.
    Float,
    /// Floats and integers.
    Number,
    /// Integers.
    Integer,
    /// Booleans, and integers as bit patterns.
    Logic,
    /// Every type.
    Any,
}

impl Domain {
    pub(in crate::ops) fn check(self, at: &Place, component: &str, ty: &TensorType) -> Result<()> {
        let dtype = ty.dtype;
        let (fits, expected, fix) = match self {
            Domain::Float => (dtype.is_float(), "a float type", "cast the operand to a float type"),
            Domain::Number => (dtype != DType::Bool, "a number type", "cast the operand to a number type"),
            Domain::Integer => (dtype.is_int(), "an integer type", "cast the operand to an integer type"),
            Domain::Logic => (!dtype.is_float(), "bool or an integer type", "compare, or cast to bool"),
            Domain::Any => (true, "", ""),
        };
        if fits { Ok(()) } else { Err(at.mismatch(component, expected, ty, fix)) }
    }
}

macro_rules! unary_table {
    ($($name:ident $(($operator:ident))? => $op:ident, $domain:ident, |$x:ident| $float:expr, |$i:ident| $int:expr, $doc:literal;)*) => {
        op_table! {
            /// An elementwise op with one operand.
            Unary, UNARY_NAMES, unary_of: $(stringify!($name) => $op, $doc;)*
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

        $(value_method!(1 $name $(($operator))?: Unary::$op, $doc);)*
    };
}

unary_table! {
    neg (operator) => Neg, Number, |x| -x, |i| i.wrapping_neg(), "-x; integers wrap.";
    abs => Abs, Number, |x| x.abs(), |i| i.wrapping_abs(), "|x|; the smallest integer is unchanged.";
    sign => Sign, Number, |x| if x.is_nan() || x == 0.0 { x } else { x.signum() }, |i| i.signum(),
        "-1, 0 or 1; NaN and signed zeros are unchanged.";
    square => Square, Number, |x| x * x, |i| i.wrapping_mul(i), "x * x; integers wrap.";
    exp => Exp, Float, |x| x.exp(), |i| i, "e to the power x.";
    expm1 => Expm1, Float, |x| x.exp_m1(), |i| i, "exp(x) - 1, exact near zero.";
    log => Log, Float, |x| x.ln(), |i| i, "The natural logarithm; NaN below zero, -inf at zero.";
    log1p => Log1p, Float, |x| x.ln_1p(), |i| i, "log(1 + x), exact near zero.";
    tanh => Tanh, Float, |x| x.tanh(), |i| i, "The hyperbolic tangent.";
    sigmoid => Sigmoid, Float, |x| special::sigmoid(x), |i| i, "1 / (1 + exp(-x)).";
    sin => Sin, Float, |x| x.sin(), |i| i, "The sine of x radians.";
    cos => Cos, Float, |x| x.cos(), |i| i, "The cosine of x radians.";
    sqrt => Sqrt, Float, |x| x.sqrt(), |i| i, "The square root; NaN below zero.";
    rsqrt => Rsqrt, Float, |x| 1.0 / x.sqrt(), |i| i, "1 / sqrt(x); inf at zero, NaN below.";
    recip => Recip, Float, |x| 1.0 / x, |i| i, "1 / x.";
    tan => Tan, Float, |x| x.tan(), |i| i, "The tangent of x radians; NaN at infinity.";
    asin => Asin, Float, |x| x.asin(), |i| i, "The angle in [-pi/2, pi/2] whose sine is x; NaN outside [-1, 1].";
    acos => Acos, Float, |x| x.acos(), |i| i, "The angle in [0, pi] whose cosine is x; NaN outside [-1, 1].";
    atan => Atan, Float, |x| x.atan(), |i| i, "The angle in [-pi/2, pi/2] whose tangent is x.";
    sinh => Sinh, Float, |x| x.sinh(), |i| i, "The hyperbolic sine.";
    cosh => Cosh, Float, |x| x.cosh(), |i| i, "The hyperbolic cosine.";
    asinh => Asinh, Float, |x| special::asinh(x), |i| i, "The inverse of the hyperbolic sine.";
    acosh => Acosh, Float, |x| special::acosh(x), |i| i,
        "The inverse of the hyperbolic cosine, not negative; NaN below 1.";
    atanh => Atanh, Float, |x| special::atanh(x), |i| i,
        "The inverse of the hyperbolic tangent; infinite at -1 and 1, NaN beyond.";
    erf => Erf, Float, |x| special::erf(x), |i| i, "The error function.";
    erfc => Erfc, Float, |x| special::erfc(x), |i| i, "1 - erf(x), exact where the result is small.";
    erf_inv => ErfInv, Float, |x| special::erf_inv(x), |i| i,
        "The inverse of the error function; infinite at -1 and 1, NaN beyond.";
    lgamma => Lgamma, Float, |x| special::lgamma(x), |i| i,
        "log|gamma(x)|; infinite at zero, the negative integers and both infinities.";
    digamma => Digamma, Float, |x| special::digamma(x), |i| i,
        "The derivative of lgamma; NaN at zero and the negative integers.";
    cbrt => Cbrt, Float, |x| x.cbrt(), |i| i, "The cube root, also of negative numbers.";
    floor => Floor, Float, |x| x.floor(), |i| i, "The largest whole number that is not above x.";
    ceil => Ceil, Float, |x| x.ceil(), |i| i, "The smallest whole number that is not below x.";
    round => Round, Float, |x| x.round_ties_even(), |i| i, "The nearest whole number; ties round to even.";
    trunc => Trunc, Float, |x| x.trunc(), |i| i, "x rounded toward zero to a whole number.";
    not (operator) => Not, Logic, |x| x, |i| !i, "Logical not of booleans, bitwise not of integers.";
    stop_gradient => StopGradient, Any, |x| x, |i| i, "x itself; no derivative passes through it.";
}

impl Unary {
    pub(in crate::ops) fn linearity(&self) -> Linearity {
        match self {
            Unary::Neg | Unary::StopGradient => Linearity::InAll,
            _ => Linearity::None,
        }
    }
}

impl OpRules for Unary {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        self.domain().check(at, "the operand", &x)?;
        Ok(vec![x])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        tensor(x.dtype(), x.shape(), x.scalars().map(|scalar| self.eval_scalar(scalar)))
    }

    elementwise_batch!();

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        jvp_with(*self, operands, |values, results| {
            vec![operands[0].tangent.and_then(|tangent| partials::unary(*self, values[0], results[0], tangent))]
        })
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let (x, y) = (context.operands[0], context.results[0]);
        Ok(vec![cotangents[0].and_then(|cotangent| partials::unary(*self, x, y, cotangent))])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn floats_are_rounded_once() {
        let x = HostTensor::from([0.5f32, -2.0]);
        check_op("tanh", std::slice::from_ref(&x), [0.5f64.tanh() as f32, (-2f64).tanh() as f32]);
        check_op("sign", &[x], [1f32, -1.0]);
    }

    #[test]
    fn halves_are_rounded_to_even() {
        let x = HostTensor::from([0.5f32, 1.5, 2.5, -0.5, -3.5, f32::NAN]);
        let rounded = eval_op("round", std::slice::from_ref(&x)).to_f64_vec();
        assert_eq!(rounded[..5], [0.0, 2.0, 2.0, -0.0, -4.0]);
        assert!(rounded[3].is_sign_negative() && rounded[5].is_nan());
        check_op("trunc", &[HostTensor::from([-1.5f64, 1.5])], [-1f64, 1.0]);
        check_op("floor", &[HostTensor::from([-1.5f64, 1.5])], [-2f64, 1.0]);
        check_op("ceil", &[HostTensor::from([-1.5f64, 1.5])], [-1f64, 2.0]);
    }

    #[test]
    fn integers_wrap_and_not_is_bitwise() {
        let x = HostTensor::from([1u8, 0]);
        check_op("neg", std::slice::from_ref(&x), [255u8, 0]);
        check_op("not", &[x], [254u8, 255]);
        check_op("not", &[HostTensor::scalar(true)], false);
    }

    #[test]
    fn the_domain_is_part_of_the_type_rule() {
        rejects("exp", &["i64[3]"], "a float type");
        rejects("floor", &["i64[3]"], "a float type");
        rejects("erf_inv", &["bool[3]"], "a float type");
        rejects("neg", &["bool[]"], "a number type");
        rejects("not", &["f32[]"], "bool or an integer type");
    }
}
