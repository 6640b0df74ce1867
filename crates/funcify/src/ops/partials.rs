//! The partial derivatives of the elementwise ops, which both modes use: `t` times the derivative of the result by one
//! operand. As an elementwise op's Jacobian is diagonal, `t` may be a tangent or a cotangent.
//!
//! Where an op has no derivative, one is chosen:
//!
//! | where | answer |
//! |---|---|
//! | `abs` and `copysign` at 0 | 0 |
//! | `floor`, `ceil`, `round`, `trunc`, `sign`, `copysign` by the sign | 0 everywhere |
//! | `max`, `min` of equal operands | half to each, as in JAX |
//! | `max`, `min` if an operand is NaN | 0 |
//! | `sqrt` at 0 | infinite, so `0 * inf` is NaN: guard the operand, not the result, with `select` |
//! | `pow(x, 0)` by `x` | 0, also at `x = 0` |
//! | `pow(0, y)` by `y` | 0 for `y >= 0` |
//! | `rem` where it jumps | that of `x - y * trunc(x / y)` between the jumps |

use super::{Binary, Unary};
use crate::graph::{Value, select};

/// `t` times the derivative of `y = op(x)` by `x`. `None` if none passes.
pub(super) fn unary(op: Unary, x: Value, y: Value, t: Value) -> Option<Value> {
    let product = match op {
        Unary::Neg => -t,
        Unary::Abs => t * x.sign(),
        Unary::Sign => t.zeros_like(),
        Unary::Square => t * (x * 2.0),
        Unary::Exp => t * y,
        Unary::Expm1 => t * (y + 1.0),
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
        Unary::Asin => t * (1.0 - x.square()).rsqrt(),
        Unary::Acos => -(t * (1.0 - x.square()).rsqrt()),
        Unary::Atan => t / (1.0 + x.square()),
        Unary::Sinh => t * x.cosh(),
        Unary::Cosh => t * x.sinh(),
        Unary::Asinh => t * (x.square() + 1.0).rsqrt(),
        // Two roots: the square of a large operand overflows.
        Unary::Acosh => t * (x - 1.0).rsqrt() * (x + 1.0).rsqrt(),
        Unary::Atanh => t / (1.0 - x.square()),
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

/// `t` times the derivative of `z = op(x, y)` by the operand of that number. `None` if none passes.
pub(super) fn binary(op: Binary, operand: usize, [x, y]: [Value; 2], z: Value, t: Value) -> Option<Value> {
    let first = operand == 0;
    let product = match op {
        Binary::Add => t,
        Binary::Sub if first => t,
        Binary::Sub => -t,
        Binary::Mul => t * if first { y } else { x },
        Binary::Div if first => t / y,
        Binary::Div => -(t / y * z),
        Binary::Rem if first => t,
        Binary::Rem => -(t * (x / y).trunc()),
        Binary::Max => of_chosen(if first { x.gt(y) } else { y.gt(x) }, x.eq(y), t),
        Binary::Min => of_chosen(if first { x.lt(y) } else { y.lt(x) }, x.eq(y), t),
        Binary::Pow if first => {
            // The exponent 0 is kept away from `0 * 0^-1`.
            let constant = y.eq(0.0);
            select(constant, 0.0, t * y * x.pow(select(constant, 1.0, y - 1.0)))
        }
        Binary::Pow => t * z * select(x.eq(0.0), 1.0, x).log(),
        Binary::Atan2 => {
            let of_length = if first { y } else { -x };
            t * (of_length / (x.square() + y.square()))
        }
        // As of |x|, with the sign that it gets.
        Binary::Copysign if first => select(y.signbit(), -t, t) * x.sign(),
        Binary::Copysign => t.zeros_like(),
        Binary::And | Binary::Or | Binary::Xor => return None,
    };
    Some(product)
}

/// `t` where this operand is chosen, half of it where both are.
fn of_chosen(chosen: Value, both: Value, t: Value) -> Value {
    select(chosen, t, select(both, t * 0.5, 0.0))
}
