//! The partial derivatives of the elementwise ops, used in forward and reverse mode. `unary` and `binary` return `t`
//! times the derivative of the result with respect to one operand. `t` may be a tangent or a cotangent, because the
//! Jacobian of an elementwise op is diagonal.
//!
//! At points where an op is not differentiable, the functions return a conventional value: see the tables of
//! `numerics.md`, in the documentation of [`ops`](crate::ops). Higher-order derivatives differentiate the formulas that
//! the rules add to the graph. A rule must therefore be correct in a neighbourhood of each point: if its formula
//! selects a value that is correct at a single point only, the derivative of the formula is wrong at that point.

use crate::ops::{Binary, Op, Unary};
use crate::value::{Value, magnitude, select};

/// The effect of an elementwise op on a derivative that passes through the op.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) enum Passes {
    /// The op multiplies the derivative by a factor. An infinite derivative times a factor of 0 is NaN.
    Multiplied,
    /// The op selects between its operands, and may multiply the derivative by a factor. The derivative with respect to
    /// an operand that is not selected is 0, even if the incoming derivative is infinite.
    Chosen,
}

/// Returns the effect of an op on derivatives. Returns `None` for ops that are not elementwise, and for elementwise ops
/// without a derivative, such as comparisons.
pub(in crate::ops) fn passes(op: &Op) -> Option<Passes> {
    match op {
        Op::Unary(op) => Some(unary_passes(*op)),
        Op::Binary(op) => Some(binary_passes(*op)),
        Op::Select(_) => Some(Passes::Chosen),
        Op::Cast(_) | Op::Polygamma(_) => Some(Passes::Multiplied),
        _ => None,
    }
}

fn unary_passes(op: Unary) -> Passes {
    use Unary::*;
    match op {
        Sign | Floor | Ceil | Round | Trunc => Passes::Chosen,
        Neg | Abs | Square | Exp | Expm1 | Log | Log1p | Tanh | Sigmoid | Sin | Cos | Sqrt | Rsqrt | Recip | Tan
        | Asin | Acos | Atan | Sinh | Cosh | Asinh | Acosh | Atanh | Erf | Erfc | ErfInv | Lgamma | Digamma | Cbrt
        | Not | StopGradient => Passes::Multiplied,
    }
}

fn binary_passes(op: Binary) -> Passes {
    use Binary::*;
    match op {
        Max | Min | Pow | Copysign => Passes::Chosen,
        Add | Sub | Mul | Div | Rem | Atan2 | And | Or | Xor => Passes::Multiplied,
    }
}

/// Returns `t` times the derivative of `y = op(x)` with respect to `x`, or `None` if no derivative passes through `op`.
pub(in crate::ops) fn unary(op: Unary, x: Value, y: Value, t: Value) -> Option<Value> {
    let product = match op {
        Unary::Neg => -t,
        Unary::Abs => t * x.sign(),
        Unary::Sign => t.zeros_like(),
        Unary::Square => t * x * 2.0,
        Unary::Exp => t * y,
        Unary::Expm1 => t * x.exp(),
        Unary::Log => t / x,
        Unary::Log1p => t / (x + 1.0),
        Unary::Tanh => t * (1.0 - y.square()),
        Unary::Sigmoid => t * (y * (1.0 - y)),
        Unary::Sin => t * x.cos(),
        Unary::Cos => -(t * x.sin()),
        Unary::Sqrt => t * 0.5 / y,
        Unary::Rsqrt => t * -0.5 * y / x,
        Unary::Recip => -(t * y.square()),
        Unary::Tan => t * (1.0 + y.square()),
        Unary::Asin => t * one_minus_square(x).rsqrt(),
        Unary::Acos => -(t * one_minus_square(x).rsqrt()),
        Unary::Atan => {
            let (one, length, sum) = scaled(x.ones_like(), x);
            t * (one / sum / length)
        }
        Unary::Sinh => t * x.cosh(),
        Unary::Cosh => t * x.sinh(),
        Unary::Asinh => {
            let (_, length, sum) = scaled(x.ones_like(), x);
            t * (sum.rsqrt() / length)
        }
        // Use two square roots, because the square of a large `x` would overflow.
        Unary::Acosh => t * (x - 1.0).rsqrt() * (x + 1.0).rsqrt(),
        Unary::Atanh => t / one_minus_square(x),
        Unary::Erf => t * std::f64::consts::FRAC_2_SQRT_PI * (-x.square()).exp(),
        Unary::Erfc => -(t * std::f64::consts::FRAC_2_SQRT_PI * (-x.square()).exp()),
        Unary::ErfInv => t * (1.0 / std::f64::consts::FRAC_2_SQRT_PI) * y.square().exp(),
        Unary::Lgamma => t * x.digamma(),
        Unary::Digamma => t * x.polygamma(1),
        Unary::Cbrt => t / (3.0 * y.square()),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => t.zeros_like(),
        Unary::Not | Unary::StopGradient => return None,
    };
    Some(product)
}

/// Returns `t` times the derivative of `z = op(x, y)` with respect to the given operand, or `None` if no derivative
/// passes through `op`.
pub(in crate::ops) fn binary(op: Binary, operand: usize, [x, y]: [Value; 2], z: Value, t: Value) -> Option<Value> {
    let first = operand == 0;
    let product = match op {
        Binary::Add => t,
        Binary::Sub if first => t,
        Binary::Sub => -t,
        Binary::Mul => t * if first { y } else { x },
        Binary::Div if first => t / y,
        Binary::Div => -(t * z / y),
        Binary::Rem if first => t,
        // Compute the truncated quotient from the remainder, because `x / y` may round up to the next integer.
        Binary::Rem => -(t * ((x - z) / y).round()),
        Binary::Max => derivative_of_chosen(if first { x.lt(y) } else { y.lt(x) }, x.eq(y), z, t),
        Binary::Min => derivative_of_chosen(if first { x.gt(y) } else { y.gt(x) }, x.eq(y), z, t),
        Binary::Pow if first => {
            // At x = 0 and y >= 1, treat `y` as a constant, because the derivative of this product with respect to `y`
            // is 0 or infinite there. The selections with `is_one` avoid `0 * 0^-1` at (0, 0).
            let is_zero = x.eq(0.0);
            let is_one = is_zero & y.eq(0.0);
            let y = select(is_zero & y.ge(1.0), y.stop_gradient(), y);
            select(is_one, 0.0, t * y * select(is_one, 1.0, x).pow(y - 1.0))
        }
        Binary::Pow => {
            // At x = 0, the derivative is 0 for every y except NaN.
            let is_zero = x.eq(0.0);
            let base = select(is_zero, 1.0, x);
            t * select(is_zero, y.stop_gradient() * 0.0, base.pow(y) * base.log())
        }
        Binary::Atan2 => {
            let (side, length, sum) = if first { scaled(y, x) } else { scaled(-x, y) };
            t * (side / sum / length)
        }
        Binary::Copysign if first => select(y.signbit(), -t, t) * x.sign(),
        Binary::Copysign => t.zeros_like(),
        Binary::And | Binary::Or | Binary::Xor => return None,
    };
    Some(product)
}

/// Returns `t` where this operand is chosen, 0 where the other operand is chosen (`other`), half of `t` where both
/// operands are equal (`both`), and NaN where the result is NaN.
fn derivative_of_chosen(other: Value, both: Value, result: Value, t: Value) -> Value {
    let chosen = select(result.is_nan(), f64::NAN, t);
    select(other, 0.0, select(both, t * 0.5, chosen))
}

/// Computes 1 - x * x, accurately near -1 and 1. The derivative of the returned value is a single product, so
/// multiplying it by an infinite factor gives infinity. The derivative of `(1 - x) * (1 + x)` would be a sum of two
/// terms of opposite signs, and an infinite factor would make this sum NaN.
fn one_minus_square(x: Value) -> Value {
    let difference = 1.0 - x.square();
    difference + ((1.0 - x) * (1.0 + x) - difference).stop_gradient()
}

/// Divides both numbers by the larger of their magnitudes, which avoids overflow and underflow. Returns the scaled `a`,
/// the larger magnitude, and the sum of the squares of the scaled numbers.
fn scaled(a: Value, b: Value) -> (Value, Value, Value) {
    let length = magnitude(a, b);
    let (a, b) = (a / length, b / length);
    (a, length, a.square() + b.square())
}
