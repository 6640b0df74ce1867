//! Lowers comparisons. Burn compares booleans only for equality and inequality, so the ordering comparisons of booleans
//! use logical ops.

use super::prelude::*;

macro_rules! compare {
    ($($op:ident => $float:ident, $integer:ident, $bool:expr;)*) => {
        $(funcify!(Burn, ops::$op, |call, [x, y]| {
            let bool_dtype = call.backend.bool_dtype();
            Outcome::Ok(match kind(&x) {
                Kind::Float => Dispatch::$float(x, y, bool_dtype),
                Kind::Integer => Dispatch::$integer(x, y, bool_dtype),
                Kind::Bool => $bool(x, y),
            })
        });)*
    };
}

compare! {
    Eq => float_equal, int_equal, Dispatch::bool_equal;
    Lt => float_lower, int_lower, less;
    Le => float_lower_equal, int_lower_equal, implies;
    Gt => float_greater, int_greater, |x, y| less(y, x);
    Ge => float_greater_equal, int_greater_equal, |x, y| implies(y, x);
}

funcify!(Burn, ops::Ne, |call, [x, y]| differs(call.backend, x, y));

/// Computes `x != y`. On the wgpu device, negates `x == y`, because Burn's own op is false for NaN there.
fn differs(burn: &Burn, x: Tensor, y: Tensor) -> Outcome {
    let bool_dtype = burn.bool_dtype();
    Ok(match kind(&x) {
        Kind::Float if burn.in_host_memory() => Dispatch::float_not_equal(x, y, bool_dtype),
        Kind::Float => Dispatch::bool_not(Dispatch::float_equal(x, y, bool_dtype)),
        Kind::Integer => Dispatch::int_not_equal(x, y, bool_dtype),
        Kind::Bool => Dispatch::bool_not_equal(x, y),
    })
}

/// Computes `x < y` for booleans, which is true only for `false < true`.
fn less(x: Tensor, y: Tensor) -> Tensor {
    Dispatch::bool_and(Dispatch::bool_not(x), y)
}

/// Computes `x <= y` for booleans, which is false only for `true <= false`.
fn implies(x: Tensor, y: Tensor) -> Tensor {
    Dispatch::bool_or(Dispatch::bool_not(x), y)
}
