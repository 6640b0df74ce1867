//! Lowers elementwise ops on one operand. Most float kernels call Burn's own ops. Integer kernels run on the host; on a
//! device with its own memory, they use Burn's ops and [`on_device`].

use burn::backend::TensorMetadata;
use burn::backend::ops::ActivationOps;
use burn::tensor::{DType as BurnDType, FloatDType};

use super::prelude::*;

/// Registers float kernels, one per row of a table. A kernel evaluates the expression of its row. If the row also names
/// a function, the kernel uses that function on devices with their own memory, where Burn's op is inaccurate.
macro_rules! floats {
    ($($op:ident => |$x:ident| $float:expr $(, on device $kernel:path)?;)*) => {
        $(funcify!(Burn, ops::$op, |call, [$x]| Outcome::Ok(match call.backend.in_host_memory() {
            $(false => $kernel(call.backend, $x),)?
            _ => $float,
        }));)*
    };
}

/// Registers kernels, each defined by three formulas: for floats, for integers on a device with its own memory,
/// and for integers in host memory.
macro_rules! numbers {
    ($($op:ident => |$burn:ident, $x:ident| $float:expr, $integers:expr, |$i:ident| $integer:expr;)*) => {
        $(funcify!(Burn, ops::$op, |call, [$x]| {
            let $burn = call.backend;
            match kind(&$x) {
                Kind::Float => Ok($float),
                _ if !$burn.in_host_memory() => Ok($integers),
                _ => by_integer!($x, Integer => on_host::map::<Integer, Integer>($burn, $x, |$i| $integer)),
            }
        });)*
    };
}

numbers! {
    Neg => |burn, x| Dispatch::float_neg(x), on_device::negate(x), |i| i.wrapping_neg();
    Abs => |burn, x| Dispatch::float_abs(x), on_device::magnitude(burn, x), |i| magnitude(i) as Integer;
    Sign => |burn, x| sign(burn, x), on_device::sign(burn, x), |i| signum(i) as Integer;
    Square => |burn, x| Dispatch::float_mul(x.clone(), x), Dispatch::int_mul(x.clone(), x), |i| i.wrapping_mul(i);
}

floats! {
    Exp => |x| Dispatch::float_exp(x);
    Expm1 => |x| expm1(x), on device on_device::expm1;
    Log => |x| Dispatch::float_log(x), on device on_device::log;
    Log1p => |x| Dispatch::float_log1p(x), on device on_device::log1p;
    Tanh => |x| Dispatch::float_tanh(x), on device on_device::tanh;
    Sin => |x| Dispatch::float_sin(x);
    Cos => |x| Dispatch::float_cos(x);
    Sqrt => |x| Dispatch::float_sqrt(x);
    Rsqrt => |x| Dispatch::float_recip(Dispatch::float_sqrt(x));
    Recip => |x| Dispatch::float_recip(x);
    Tan => |x| Dispatch::float_tan(x);
    Asin => |x| Dispatch::float_asin(x), on device on_device::asin;
    Acos => |x| Dispatch::float_acos(x), on device on_device::acos;
    Atan => |x| Dispatch::float_atan(x), on device on_device::atan;
    Sinh => |x| Dispatch::float_sinh(x), on device on_device::sinh;
    Cosh => |x| Dispatch::float_cosh(x);
    Erf => |x| Dispatch::float_erf(x), on device on_device::erf;
    Floor => |x| Dispatch::float_floor(x);
    Ceil => |x| Dispatch::float_ceil(x);
    Trunc => |x| Dispatch::float_trunc(x);
    StopGradient => |x| x;
}

// Burn lacks these five functions.
funcify!(Burn, ops::Erfc, |call, [x]| on_host::map_in_f64(call.backend, x, special::erfc));
funcify!(Burn, ops::ErfInv, |call, [x]| match call.backend.in_host_memory() {
    false => Ok(on_device::erf_inv(call.backend, x)),
    true => on_host::map_in_f64(call.backend, x, special::erf_inv),
});
funcify!(Burn, ops::Lgamma, |call, [x]| on_host::map_in_f64(call.backend, x, special::lgamma));
funcify!(Burn, ops::Digamma, |call, [x]| on_host::map_in_f64(call.backend, x, special::digamma));
funcify!(Burn, ops::Cbrt, |call, [x]| on_host::map_in_f64(call.backend, x, f64::cbrt));

funcify!(Burn, ops::Asinh, |call, [x]| Outcome::Ok(in_f32_at_least(x, |x| asinh(call.backend, x))));
funcify!(Burn, ops::Acosh, |call, [x]| Outcome::Ok(in_f32_at_least(x, |x| acosh(call.backend, x))));
funcify!(Burn, ops::Atanh, |call, [x]| Outcome::Ok(in_f32_at_least(x, |x| atanh(call.backend, x))));
funcify!(Burn, ops::Round, |call, [x]| Outcome::Ok(round(call.backend, x)));

funcify!(Burn, ops::Sigmoid, |call, [x]| sigmoid(call.backend, x));
funcify!(Burn, ops::Not, |call, [x]| not(call.backend, x));

/// Negates booleans, and computes the bitwise complement of integers. On the CPU devices, this crate's own kernel
/// handles the integers, because Burn's op panics for unsigned integers on the ndarray device.
fn not(burn: &Burn, x: Tensor) -> Outcome {
    match kind(&x) {
        Kind::Bool => Ok(Dispatch::bool_not(x)),
        _ if !burn.in_host_memory() => Ok(Dispatch::bitwise_not(x)),
        _ => by_integer!(x, Integer => on_host::map::<Integer, Integer>(burn, x, |i| !i)),
    }
}

fn magnitude(i: impl Into<i64>) -> i64 {
    i.into().wrapping_abs()
}

fn signum(i: impl Into<i64>) -> i64 {
    i.into().signum()
}

/// Computes the sign of floats. Zeros and NaN are returned unchanged, whereas Burn's op returns 0 for NaN.
fn sign(burn: &Burn, x: Tensor) -> Tensor {
    let zero = Scalar::from(0f64);
    let signed = Dispatch::float_greater_elem(Dispatch::float_abs(x.clone()), zero, burn.bool_dtype());
    let sign = Dispatch::float_sign(x.clone());
    mask_where(x, signed, sign)
}

/// Computes exp(x) - 1 as tanh(x/2) * (exp(x) + 1), which avoids cancellation near zero.
fn expm1(x: Tensor) -> Tensor {
    let half = Dispatch::float_tanh(Dispatch::float_mul_scalar(x.clone(), Scalar::from(0.5f64)));
    let sum = Dispatch::float_add_scalar(Dispatch::float_exp(x), Scalar::from(1f64));
    Dispatch::float_mul(half, sum)
}

/// Computes the sigmoid, 1 / (1 + exp(-x)). Uses Burn's own op if it computes in the dtype of its operand.
fn sigmoid(burn: &Burn, x: Tensor) -> Outcome {
    if burn.has_sigmoid() {
        return Ok(Dispatch::sigmoid(x));
    }
    // Use exp(-|x|), because exp(-x) overflows for some x for which the sigmoid is a subnormal number.
    let is_not_negative = Dispatch::float_greater_equal_elem(x.clone(), Scalar::from(0f64), burn.bool_dtype());
    let small = Dispatch::float_exp(Dispatch::float_neg(Dispatch::float_abs(x)));
    let above = Dispatch::float_mask_fill(small.clone(), is_not_negative, Scalar::from(1f64));
    Ok(Dispatch::float_div(above, Dispatch::float_add_scalar(small, Scalar::from(1f64))))
}

/// Applies `f`, a sequence of ops, to `x`. Half floats are converted to f32 first, because otherwise each op would
/// round its result to half precision.
fn in_f32_at_least(x: Tensor, f: impl FnOnce(Tensor) -> Tensor) -> Tensor {
    let half = match x.dtype() {
        BurnDType::F16 => FloatDType::F16,
        BurnDType::BF16 => FloatDType::BF16,
        _ => return f(x),
    };
    Dispatch::float_cast(f(Dispatch::float_cast(x, FloatDType::F32)), half)
}

/// The magnitude above which x^2 + 1 and x^2 - 1 round to x^2, so that arsinh(x) and arcosh(x) equal log(2x).
const LARGE: f64 = (1u64 << 28) as f64;

/// Computes log(1 + x).
fn log1p(burn: &Burn, x: Tensor) -> Tensor {
    if burn.in_host_memory() { Dispatch::float_log1p(x) } else { on_device::log1p(burn, x) }
}

/// Computes log(x) + log(2).
fn log_of_twice(x: Tensor) -> Tensor {
    Dispatch::float_add_scalar(Dispatch::float_log(x), Scalar::from(std::f64::consts::LN_2))
}

/// Computes arsinh(x) as log1p(a + a * a / (1 + sqrt(a * a + 1))) with a = |x|, and restores the sign of x. Burn's own
/// function overflows for the largest numbers.
fn asinh(burn: &Burn, x: Tensor) -> Tensor {
    let one = Scalar::from(1f64);
    let a = Dispatch::float_abs(x.clone());
    let square = Dispatch::float_mul(a.clone(), a.clone());
    let root = Dispatch::float_sqrt(Dispatch::float_add_scalar(square.clone(), one));
    let small = Dispatch::float_div(square, Dispatch::float_add_scalar(root, one));
    let small = log1p(burn, Dispatch::float_add(a.clone(), small));
    let is_large = Dispatch::float_greater_elem(a.clone(), Scalar::from(LARGE), burn.bool_dtype());
    let magnitude = mask_where(small, is_large, log_of_twice(a));
    let negative = Dispatch::float_lower_elem(x.clone(), Scalar::from(0f64), burn.bool_dtype());
    let signed = mask_where(magnitude.clone(), negative, Dispatch::float_neg(magnitude));
    keep_zeros(burn, x, signed)
}

/// Computes arcosh(x) as log1p(t + sqrt(t) * sqrt(t + 2)) with t = x - 1. Burn's own function loses half of the digits
/// near 1, and overflows for large numbers.
fn acosh(burn: &Burn, x: Tensor) -> Tensor {
    let t = Dispatch::float_add_scalar(x.clone(), Scalar::from(-1f64));
    let root = Dispatch::float_sqrt(Dispatch::float_add_scalar(t.clone(), Scalar::from(2f64)));
    let root = Dispatch::float_mul(Dispatch::float_sqrt(t.clone()), root);
    let small = log1p(burn, Dispatch::float_add(t, root));
    let is_large = Dispatch::float_greater_elem(x.clone(), Scalar::from(LARGE), burn.bool_dtype());
    mask_where(small, is_large, log_of_twice(x))
}

/// Computes artanh(x) as (log1p(x) - log1p(-x)) / 2. Burn's own function loses half of the digits near -1.
fn atanh(burn: &Burn, x: Tensor) -> Tensor {
    let difference = Dispatch::float_sub(log1p(burn, x.clone()), log1p(burn, Dispatch::float_neg(x)));
    Dispatch::float_mul_scalar(difference, Scalar::from(0.5f64))
}

/// Rounds to the nearest integer. Restores the sign of zero, because Burn's flex device rounds to +0 instead of -0.
fn round(burn: &Burn, x: Tensor) -> Tensor {
    let rounded = Dispatch::float_round(x.clone());
    let is_zero = Dispatch::float_equal_elem(rounded.clone(), Scalar::from(0f64), burn.bool_dtype());
    mask_where(rounded, is_zero, Dispatch::float_mul_scalar(x, Scalar::from(0f64)))
}

/// Returns `x` where it is zero, and `y` elsewhere. Odd functions use this to preserve the sign of zero.
fn keep_zeros(burn: &Burn, x: Tensor, y: Tensor) -> Tensor {
    let is_zero = Dispatch::float_equal_elem(x.clone(), Scalar::from(0f64), burn.bool_dtype());
    mask_where(y, is_zero, x)
}
