//! Lowers elementwise ops on two operands to Candle's kernels for float arithmetic, and to this crate's kernels
//! otherwise.
//!
//! Candle's integer arithmetic panics on overflow and on division by zero. The result of Candle's `maximum` depends on
//! the order of the operands if one of them is NaN, or if they are zeros of different signs. Candle's `pow` returns NaN
//! for negative bases.

use super::prelude::*;
use crate::cpu::{map_floats, map_integer_pairs, map2};

/// Registers a float kernel and an integer kernel for each op. The integer kernels compute in i64, and their results
/// wrap on overflow.
macro_rules! numbers {
    ($($op:ident => |$call:ident, $x:ident, $y:ident| $float:expr, |$a:ident, $b:ident| $integer:expr;)*) => {
        $(funcify!(Candle, ops::$op, |call, [$x, $y]| {
            let ($call, $x, $y) = (&call, &$x, &$y);
            if $x.dtype().is_float() { Outcome::Ok($float) } else { map_integer_pairs($call, $x, $y, |$a, $b| $integer) }
        });)*
    };
}

numbers! {
    Add => |_call, x, y| x.add(y)?, |a, b| a.wrapping_add(b);
    Sub => |_call, x, y| x.sub(y)?, |a, b| a.wrapping_sub(b);
    Mul => |_call, x, y| x.mul(y)?, |a, b| a.wrapping_mul(b);
    Div => |_call, x, y| x.div(y)?, |a, b| if b == 0 { -1 } else { a.wrapping_div(b) };
    Rem => |call, x, y| map_floats!(map2(call, x, y), |a, b| a % b)?, |a, b| if b == 0 { a } else { a.wrapping_rem(b) };
    Max => |call, x, y| map_floats!(map2(call, x, y), |a, b| a.larger(b))?, |a, b| a.max(b);
    Min => |call, x, y| map_floats!(map2(call, x, y), |a, b| a.smaller(b))?, |a, b| a.min(b);
    Pow => |call, x, y| map_floats!(map2(call, x, y), |a, b| a.powf(b))?, |a, b| ops::integer_power(a, b);
}

funcify!(Candle, ops::Atan2, |call, [x, y]| map_floats!(map2(&call, &x, &y), |a, b| a.atan2(b)));
funcify!(Candle, ops::Copysign, |call, [x, y]| map_floats!(map2(&call, &x, &y), |a, b| a.copysign(b)));

// Booleans are stored as 0 and 1, so the bitwise kernels also implement the logical ops.
funcify!(Candle, ops::And, |call, [x, y]| map_integer_pairs(&call, &x, &y, |a, b| a & b));
funcify!(Candle, ops::Or, |call, [x, y]| map_integer_pairs(&call, &x, &y, |a, b| a | b));
funcify!(Candle, ops::Xor, |call, [x, y]| map_integer_pairs(&call, &x, &y, |a, b| a ^ b));
