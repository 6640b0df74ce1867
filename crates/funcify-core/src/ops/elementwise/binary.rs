//! Elementwise ops with two operands of the same type. A table lists the text form of each op, its domain, and its
//! evaluation on floats and on integers.
//!
//! Integers wrap. Division and remainder follow StableHLO: the quotient is rounded toward zero, and the remainder has
//! the sign of the dividend. For integers, `x / 0` is -1 (all ones for unsigned types) and `x % 0` is `x`.

use crate::derivative::add;
use crate::ops::rules::*;
use crate::ops::{partials, special};

macro_rules! binary_table {
    ($($name:ident $(($method:ident))? => $op:ident, $domain:ident, |$x:ident, $y:ident| $float:expr, |$i:ident, $j:ident| $int:expr, $doc:literal;)*) => {
        op_table! {
            /// An elementwise op with two operands of the same type.
            Binary, BINARY_NAMES, binary_of: $(stringify!($name) => $op, $doc;)*
        }

        impl Binary {
            fn domain(self) -> Domain {
                match self { $(Binary::$op => Domain::$domain,)* }
            }

            fn eval_scalar(self, left: Scalar, right: Scalar) -> Scalar {
                match (self, left, right) {
                    $((Binary::$op, Scalar::Float($x), Scalar::Float($y)) => Scalar::Float($float),)*
                    $((Binary::$op, Scalar::Int($i), Scalar::Int($j)) => Scalar::Int($int),)*
                    (Binary::And, a, b) => Scalar::Bool(a.as_bool() & b.as_bool()),
                    (Binary::Or, a, b) => Scalar::Bool(a.as_bool() | b.as_bool()),
                    (_, a, b) => Scalar::Bool(a.as_bool() ^ b.as_bool()),
                }
            }
        }

        $(value_method!(2 $name $(($method))?: Binary::$op, $doc);)*
    };
}

binary_table! {
    add (operator) => Add, Number, |x, y| x + y, |i, j| i.wrapping_add(j), "x + y.";
    sub (operator) => Sub, Number, |x, y| x - y, |i, j| i.wrapping_sub(j), "x - y.";
    mul (operator) => Mul, Number, |x, y| x * y, |i, j| i.wrapping_mul(j), "x * y.";
    div (operator) => Div, Number, |x, y| x / y, |i, j| if j == 0 { -1 } else { i.wrapping_div(j) },
        "x / y; integers toward zero, -1 (all ones) for a zero divisor.";
    rem (operator) => Rem, Number, |x, y| x % y, |i, j| if j == 0 { i } else { i.wrapping_rem(j) },
        "The remainder of x / y toward zero, with the sign of x; x itself for a zero integer divisor.";
    max (maximum) => Max, Number, |x, y| special::maximum(x, y), |i, j| i.max(j),
        "The larger of x and y, where -0 is less than +0; NaN if either is NaN. Like IEEE 754's maximum and JAX's.";
    min (minimum) => Min, Number, |x, y| special::minimum(x, y), |i, j| i.min(j),
        "The smaller of x and y, where -0 is less than +0; NaN if either is NaN. Like IEEE 754's minimum and JAX's.";
    pow => Pow, Number, |x, y| x.powf(y), |i, j| integer_power(i, j),
        "x to the power y; 0^0 is 1; an integer to a negative power is 0 unless x is 1 or -1.";
    atan2 => Atan2, Float, |x, y| x.atan2(y), |i, _j| i,
        "The angle of the point (y, x), in [-pi, pi]: the arctangent of x / y with the signs of both.";
    copysign => Copysign, Float, |x, y| x.copysign(y), |i, _j| i,
        "|x| with the sign of y, which may be -0 or NaN. The derivative with respect to x is 1 or -1, and 0 at 0, like \
         that of `abs`; with respect to y it is 0. Like JAX's `jnp.copysign`.";
    and (operator) => And, Logic, |x, _y| x, |i, j| i & j, "Logical and of booleans, bitwise and of integers.";
    or (operator) => Or, Logic, |x, _y| x, |i, j| i | j, "Logical or of booleans, bitwise or of integers.";
    xor (operator) => Xor, Logic, |x, _y| x, |i, j| i ^ j,
        "Exclusive or of booleans, bitwise exclusive or of integers.";
}

impl Binary {
    pub(in crate::ops) fn linearity(&self) -> Linearity {
        match self {
            Binary::Add | Binary::Sub => Linearity::InAll,
            Binary::Mul => Linearity::Each(&[0, 1]),
            // Integer division is not linear in the dividend, because the quotient is truncated.
            Binary::Div => Linearity::Each(&[0]),
            Binary::Rem | Binary::Pow | Binary::Atan2 | Binary::Copysign => Linearity::None,
            Binary::Max | Binary::Min | Binary::And | Binary::Or | Binary::Xor => Linearity::None,
        }
    }
}

impl OpRules for Binary {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [left, right] = arity(at, inputs)?;
        self.domain().check(at, "the left operand", &left)?;
        check_same(at, &left, &right)?;
        Ok(vec![left])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let [left, right] = [&inputs[0], &inputs[1]];
        let pairs = left.scalars().zip(right.scalars());
        tensor(left.dtype(), left.shape(), pairs.map(|(a, b)| self.eval_scalar(a, b)))
    }

    elementwise_batch!();

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        jvp_with(*self, operands, |values, results| {
            let of = |operand: usize| {
                let tangent = operands[operand].tangent?;
                partials::binary(*self, operand, [values[0], values[1]], results[0], tangent)
            };
            vec![add(of(0), of(1))]
        })
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let Some(cotangent) = cotangents[0] else { return Ok(context.no_cotangents()) };
        let (operands, result) = ([context.operands[0], context.operands[1]], context.results[0]);
        let of = |operand| partials::binary(*self, operand, operands, result, cotangent);
        Ok(context.cotangents([&|| of(0), &|| of(1)]))
    }
}

/// Checks that two operands have the same type.
pub(in crate::ops) fn check_same(at: &Place, left: &TensorType, right: &TensorType) -> Result<()> {
    if left.dtype != right.dtype {
        let fix = format!("cast one of them, say `.cast(DType::{:?})`: nothing is promoted silently", left.dtype);
        return Err(at.mismatch("the right operand", format!("{left}, like the left operand"), right, fix));
    }
    if left.shape != right.shape {
        let fix = "make the shapes equal, or broadcastable (each dimension equal, or 1)";
        return Err(at.mismatch("the right operand", format!("{left}, like the left operand"), right, fix));
    }
    Ok(())
}

/// Computes an integer power modulo 2^64 by repeated squaring. With a negative exponent, the result is 0 unless the
/// base is 1 or -1. Backends call this function too.
#[doc(hidden)]
pub fn integer_power(base: impl Into<i64>, exponent: impl Into<i64>) -> i64 {
    let (base, exponent): (i64, i64) = (base.into(), exponent.into());
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i64, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn ints(elements: [i64; 4]) -> HostTensor {
        HostTensor::from_vec(elements.to_vec(), [4]).unwrap()
    }

    #[test]
    fn integer_division_is_toward_zero_and_total() {
        let (x, y) = (ints([7, -7, 7, i64::MIN]), ints([2, 2, 0, -1]));
        check_op("div", &[x.clone(), y.clone()], ints([3, -3, -1, i64::MIN]));
        check_op("rem", &[x, y], ints([1, -1, 7, 0]));
    }

    #[test]
    fn nan_wins_and_powers_of_integers_wrap() {
        let nan = HostTensor::scalar(f32::NAN);
        let one = HostTensor::scalar(1f32);
        for operands in [[nan.clone(), one.clone()], [one, nan]] {
            let max = crate::ops::testing::eval_op("max", &operands);
            assert!(max.to_f64_vec()[0].is_nan());
        }
        check_op("pow", &[ints([2, 0, -1, 3]), ints([10, 0, -3, -1])], ints([1024, 1, -1, 0]));
    }

    #[test]
    fn operands_must_have_one_type() {
        rejects("add", &["f32[3]", "f64[3]"], "f32[3], like the left operand");
        rejects("add", &["f32[3]", "f32[2]"], "f32[3], like the left operand");
        rejects("and", &["f32[3]", "f32[3]"], "bool or an integer type");
        rejects("atan2", &["i32[3]", "i32[3]"], "a float type");
    }
}
