//! Elementwise ops of one operand: Burn's on floats; on integers in host memory, or where that is not the device's, by
//! [`on_device`].

use burn::backend::Dispatch;
use burn::backend::ops::{ActivationOps, BoolTensorOps, FloatTensorOps};
use burn::tensor::Scalar;
use funcify::error::BackendError;
use funcify::{funcify, ops};

use super::Outcome;
use crate::device::Burn;
use crate::kinds::{Kind, Tensor, kind, mask_where};
use crate::{on_device, on_host};

macro_rules! floats {
    ($($op:ident => |$x:ident| $float:expr;)*) => {
        $(funcify!(Burn, ops::$op, |call, [$x]| match on_device::float_unary(call.backend, ops::Unary::$op) {
            Some(kernel) => Ok::<Tensor, BackendError>(kernel(call.backend, $x)),
            None => Ok($float),
        });)*
    };
}

macro_rules! numbers {
    ($($op:ident => |$burn:ident, $x:ident| $float:expr, |$i:ident| $integer:expr;)*) => {
        $(funcify!(Burn, ops::$op, |call, [$x]| {
            let $burn = call.backend;
            match kind(&$x) {
                Kind::Float => Ok($float),
                _ => match on_device::unary($burn, ops::Unary::$op) {
                    Some(kernel) => Ok(kernel($burn, $x)),
                    None => by_integer!($x, Integer => on_host::map::<Integer, Integer>($burn, $x, |$i| $integer)),
                },
            }
        });)*
    };
}

numbers! {
    Neg => |_burn, x| Dispatch::float_neg(x), |i| i.wrapping_neg();
    Abs => |_burn, x| Dispatch::float_abs(x), |i| magnitude(i) as Integer;
    Sign => |burn, x| sign(burn, x), |i| signum(i) as Integer;
    Square => |_burn, x| Dispatch::float_mul(x.clone(), x), |i| i.wrapping_mul(i);
}

floats! {
    Exp => |x| Dispatch::float_exp(x);
    Expm1 => |x| expm1(x);
    Log => |x| Dispatch::float_log(x);
    Log1p => |x| Dispatch::float_log1p(x);
    Tanh => |x| Dispatch::float_tanh(x);
    Sin => |x| Dispatch::float_sin(x);
    Cos => |x| Dispatch::float_cos(x);
    Sqrt => |x| Dispatch::float_sqrt(x);
    Rsqrt => |x| Dispatch::float_recip(Dispatch::float_sqrt(x));
    Recip => |x| Dispatch::float_recip(x);
    StopGradient => |x| x;
}

funcify!(Burn, ops::Sigmoid, |call, [x]| sigmoid(call.backend, x));
funcify!(Burn, ops::Not, |call, [x]| not(call.backend, x));

/// Burn's bitwise complement panics for unsigned integers on ndarray.
fn not(burn: &Burn, x: Tensor) -> Outcome {
    match kind(&x) {
        Kind::Bool => Ok(Dispatch::bool_not(x)),
        _ => match on_device::unary(burn, ops::Unary::Not) {
            Some(kernel) => Ok(kernel(burn, x)),
            None => by_integer!(x, Integer => on_host::map::<Integer, Integer>(burn, x, |i| !i)),
        },
    }
}

fn magnitude(i: impl Into<i64>) -> i64 {
    i.into().wrapping_abs()
}

fn signum(i: impl Into<i64>) -> i64 {
    i.into().signum()
}

/// Burn's sign of NaN is 0: only elements that are less or greater than 0 take it.
fn sign(burn: &Burn, x: Tensor) -> Tensor {
    let zero = Scalar::from(0f64);
    let signed = Dispatch::float_greater_elem(Dispatch::float_abs(x.clone()), zero, burn.bool_dtype());
    let sign = Dispatch::float_sign(x.clone());
    mask_where(x, signed, sign)
}

/// exp(x) - 1 = tanh(x/2) * (exp(x) + 1), which cancels nothing near zero.
fn expm1(x: Tensor) -> Tensor {
    let half = Dispatch::float_tanh(Dispatch::float_mul_scalar(x.clone(), Scalar::from(0.5f64)));
    let sum = Dispatch::float_add_scalar(Dispatch::float_exp(x), Scalar::from(1f64));
    Dispatch::float_mul(half, sum)
}

/// 1 / (1 + exp(-x)).
fn sigmoid(burn: &Burn, x: Tensor) -> Outcome {
    if burn.has_sigmoid() {
        return Ok(Dispatch::sigmoid(x));
    }
    let power = Dispatch::float_exp(Dispatch::float_neg(x));
    Ok(Dispatch::float_recip(Dispatch::float_add_scalar(power, Scalar::from(1f64))))
}
