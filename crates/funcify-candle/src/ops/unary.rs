//! Lowers elementwise ops on one operand to Candle's kernels for floats, and to this crate's kernels for integers and
//! for functions that Candle lacks.

use super::prelude::*;
use crate::cpu::{map_floats, map_in_f64, map_integers, map1};

/// Registers a float kernel and an integer kernel for each op.
macro_rules! numbers {
    ($($op:ident => |$call:ident, $x:ident| $float:expr, |$v:ident| $integer:expr;)*) => {
        $(funcify!(Candle, ops::$op, |call, [$x]| {
            let ($call, $x) = (&call, &$x);
            if $x.dtype().is_float() { Outcome::Ok($float) } else { map_integers($call, $x, |$v| $integer) }
        });)*
    };
}

numbers! {
    Neg => |_call, x| x.neg()?, |v| v.wrapping_neg();
    Abs => |_call, x| x.abs()?, |v| v.wrapping_abs();
    Square => |_call, x| x.sqr()?, |v| v.wrapping_mul(v);
    // Candle's `sign` returns 0 for NaN.
    Sign => |call, x| map_floats!(map1(call, x), |v| if v.is_nan() || v == 0.0 { v } else { v.signum() })?, |v| v.signum();
}

funcify!(Candle, ops::Exp, |_, [x]| x.exp());
funcify!(Candle, ops::Expm1, |call, [x]| map_floats!(map1(&call, &x), |v| v.exp_m1()));
funcify!(Candle, ops::Log, |_, [x]| x.log());
funcify!(Candle, ops::Log1p, |call, [x]| map_floats!(map1(&call, &x), |v| v.ln_1p()));
funcify!(Candle, ops::Tanh, |_, [x]| x.tanh());
funcify!(Candle, ops::Sigmoid, |call, [x]| sigmoid(&call, &x));
funcify!(Candle, ops::Sin, |_, [x]| x.sin());
funcify!(Candle, ops::Cos, |_, [x]| x.cos());
funcify!(Candle, ops::Sqrt, |_, [x]| x.sqrt());
funcify!(Candle, ops::Rsqrt, |call, [x]| rsqrt(&call, &x));
funcify!(Candle, ops::Recip, |_, [x]| x.recip());
funcify!(Candle, ops::Not, |call, [x]| not(&call, &x));
funcify!(Candle, ops::Erf, |_, [x]| x.erf());
funcify!(Candle, ops::Floor, |_, [x]| x.floor());
funcify!(Candle, ops::Ceil, |_, [x]| x.ceil());
funcify!(Candle, ops::StopGradient, |_, [x]| Outcome::Ok(x.detach()));

/// Computes the sigmoid. On the CPU, uses a single kernel; on other devices, composes Candle's kernels.
fn sigmoid(call: &Call<'_, ops::Sigmoid>, x: &Tensor) -> Outcome {
    if !x.device().is_cpu() {
        return Ok(x.neg()?.exp()?.affine(1.0, 1.0)?.recip()?);
    }
    map_floats!(map1(call, x), |v| {
        // `1 / (1 + exp(-v))` would return 0 where `exp(-v)` overflows, although the exact result is a subnormal
        // number.
        let small = (-v.abs()).exp();
        (if v < 0.0 { small } else { 1.0 }) / (1.0 + small)
    })
}

/// Computes `1 / sqrt(x)`. On the CPU, uses a single kernel; on other devices, composes Candle's kernels.
fn rsqrt(call: &Call<'_, ops::Rsqrt>, x: &Tensor) -> Outcome {
    if !x.device().is_cpu() {
        return Ok(x.sqrt()?.recip()?);
    }
    map_floats!(map1(call, x), |v| 1.0 / v.sqrt())
}

fn not(call: &Call<'_, ops::Not>, x: &Tensor) -> Outcome {
    if call.dtype(0) == DType::Bool {
        return map1(call, x, |v: u8| u8::from(v == 0));
    }
    map_integers(call, x, |v| !v)
}

/// Registers, for each op, a kernel that computes in f64.
macro_rules! in_f64 {
    ($($op:ident => $function:expr;)*) => {
        $(funcify!(Candle, ops::$op, |call, [x]| map_in_f64(&call, &x, $function as fn(f64) -> f64));)*
    };
}

in_f64! {
    Tan => f64::tan;
    Asin => f64::asin;
    Acos => f64::acos;
    Atan => f64::atan;
    Sinh => f64::sinh;
    Cosh => f64::cosh;
    Asinh => special::asinh;
    Acosh => special::acosh;
    Atanh => special::atanh;
    Erfc => special::erfc;
    ErfInv => special::erf_inv;
    Lgamma => special::lgamma;
    Digamma => special::digamma;
    Cbrt => f64::cbrt;
    Round => f64::round_ties_even;
    Trunc => f64::trunc;
}
