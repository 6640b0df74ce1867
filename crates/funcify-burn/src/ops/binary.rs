//! Lowers elementwise ops on two operands of the same type. Floats use Burn's own ops. Integers are computed on the
//! host, or with [`on_device`] on a device with its own memory.

use super::prelude::*;

/// Registers kernels, each defined by three formulas: for floats, for integers on a device with its own memory,
/// and for integers in host memory.
macro_rules! arithmetic {
    ($($op:ident => |$burn:ident, $x:ident, $y:ident| $float:expr, $integers:expr, |$i:ident, $j:ident| $integer:expr;)*) => {
        $(funcify!(Burn, ops::$op, |call, [$x, $y]| {
            let $burn = call.backend;
            match kind(&$x) {
                Kind::Float => Ok($float),
                _ if !$burn.in_host_memory() => Ok($integers),
                _ => by_integer!($x, Integer => on_host::zip::<Integer>($burn, $x, $y, |$i, $j| $integer)),
            }
        });)*
    };
}

arithmetic! {
    Add => |burn, x, y| Dispatch::float_add(x, y), Dispatch::int_add(x, y), |i, j| i.wrapping_add(j);
    Sub => |burn, x, y| Dispatch::float_sub(x, y), Dispatch::int_sub(x, y), |i, j| i.wrapping_sub(j);
    Mul => |burn, x, y| Dispatch::float_mul(x, y), Dispatch::int_mul(x, y), |i, j| i.wrapping_mul(j);
    Div => |burn, x, y| Dispatch::float_div(x, y), on_device::quotient(burn, x, y),
        |i, j| if j == 0 { !0 } else { i.wrapping_div(j) };
    // Burn's float remainder has the sign of the divisor, but funcify's has the sign of the dividend.
    Rem => |burn, x, y| by_float!(x, Float => on_host::zip::<Float>(burn, x, y, |a, b| a % b))?,
        on_device::remainder(burn, x, y), |i, j| if j == 0 { i } else { i.wrapping_rem(j) };
}

funcify!(Burn, ops::Pow, |call, [x, y]| match kind(&x) {
    Kind::Float if call.backend.in_host_memory() => Ok(Dispatch::float_powf(x, y)),
    Kind::Float => Ok(on_device::power(call.backend, x, y)),
    _ => by_integer!(x, Integer => {
        on_host::zip::<Integer>(call.backend, x, y, |i, j| ops::integer_power(i, j) as Integer)
    }),
});
funcify!(Burn, ops::Max, |call, [x, y]| extremum(call.backend, Order::Largest, x, y));
funcify!(Burn, ops::Min, |call, [x, y]| extremum(call.backend, Order::Smallest, x, y));
funcify!(Burn, ops::And, |_call, [x, y]| logic(x, y, Dispatch::bool_and, Dispatch::bitwise_and));
funcify!(Burn, ops::Or, |_call, [x, y]| logic(x, y, Dispatch::bool_or, Dispatch::bitwise_or));
funcify!(Burn, ops::Xor, |_call, [x, y]| logic(x, y, Dispatch::bool_not_equal, Dispatch::bitwise_xor));

funcify!(Burn, ops::Atan2, |call, [x, y]| Outcome::Ok(match call.backend.in_host_memory() {
    true => Dispatch::float_atan2(x, y),
    false => on_device::atan2(call.backend, x, y),
}));
funcify!(Burn, ops::Copysign, |call, [x, y]| copysign(call.backend, x, y));

/// Returns `x` with the sign of `y`. Burn has no op for this.
fn copysign(burn: &Burn, x: Tensor, y: Tensor) -> Outcome {
    match on_device::copysign(burn, &x, &y) {
        Some(signed) => Ok(signed),
        None => by_float!(x, Float => on_host::zip::<Float>(burn, x, y, |a, b| a.copysign(b))),
    }
}

enum Order {
    Largest,
    Smallest,
}

/// Computes the elementwise maximum or minimum, which is NaN if either element is NaN. Orders -0 before +0. Floats in
/// host memory are handled in a single pass.
fn extremum(burn: &Burn, order: Order, x: Tensor, y: Tensor) -> Outcome {
    let bool_dtype = burn.bool_dtype();
    if kind(&x) == Kind::Float && burn.in_host_memory() {
        return by_float!(x, Float => match order {
            Order::Largest => on_host::zip::<Float>(burn, x, y, Float::larger),
            Order::Smallest => on_host::zip::<Float>(burn, x, y, Float::smaller),
        });
    }
    let is_largest = matches!(order, Order::Largest);
    let takes_right = match (kind(&x), order) {
        (Kind::Float, order) => {
            let better = match order {
                Order::Largest => Dispatch::float_lower(x.clone(), y.clone(), bool_dtype),
                Order::Smallest => Dispatch::float_greater(x.clone(), y.clone(), bool_dtype),
            };
            Dispatch::bool_or(better, Dispatch::float_is_nan(y.clone(), bool_dtype))
        }
        (_, Order::Largest) => Dispatch::int_lower(x.clone(), y.clone(), bool_dtype),
        (_, Order::Smallest) => Dispatch::int_greater(x.clone(), y.clone(), bool_dtype),
    };
    if kind(&x) != Kind::Float {
        return Ok(mask_where(x, takes_right, y));
    }
    // If both operands are zero, x + y has the sign of the larger one, and -(-x + -y) has the sign of the smaller one.
    let is_zero = |x: &Tensor| Dispatch::float_equal_elem(x.clone(), Scalar::from(0f64), bool_dtype);
    let are_zeros = Dispatch::bool_and(is_zero(&x), is_zero(&y));
    let of_zeros = match is_largest {
        true => Dispatch::float_add(x.clone(), y.clone()),
        false => {
            let negative = |x: &Tensor| Dispatch::float_neg(x.clone());
            Dispatch::float_neg(Dispatch::float_add(negative(&x), negative(&y)))
        }
    };
    Ok(mask_where(mask_where(x, takes_right, y), are_zeros, of_zeros))
}

type BinaryOp = fn(Tensor, Tensor) -> Tensor;

fn logic(x: Tensor, y: Tensor, bools: BinaryOp, bits: BinaryOp) -> Outcome {
    Ok(match kind(&x) {
        Kind::Bool => bools(x, y),
        _ => bits(x, y),
    })
}
