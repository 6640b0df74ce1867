//! Elementwise ops of one operand: Candle's for floats, this crate's for integers and for what Candle lacks.

use std::f64::consts::FRAC_2_SQRT_PI;

use candle_core::Tensor;
use funcify::dispatch::Call;
use funcify::error::BackendError;
use funcify::ops::special;
use funcify::ops::{
    Abs, Acos, Acosh, Asin, Asinh, Atan, Atanh, Cbrt, Ceil, Cos, Cosh, Digamma, Erf, ErfInv, Erfc, Exp, Expm1, Floor,
    Lgamma, Log, Log1p, Neg, Not, Recip, Round, Rsqrt, Sigmoid, Sign, Sin, Sinh, Sqrt, Square, StopGradient, Tan, Tanh,
    Trunc,
};
use funcify::{DType, funcify};

use crate::backend::Candle;
use crate::cpu::{Backward, map_floats, map_in_f64, map_integers, map1};

type Result<T> = std::result::Result<T, BackendError>;

funcify!(Candle, Neg, |call, [x]| if x.dtype().is_float() { Ok(x.neg()?) } else { neg_integers(&call, &x) });
funcify!(Candle, Abs, |call, [x]| if x.dtype().is_float() { Ok(x.abs()?) } else { abs_integers(&call, &x) });
funcify!(Candle, Sign, |call, [x]| sign(&call, &x));
funcify!(Candle, Square, |call, [x]| if x.dtype().is_float() { Ok(x.sqr()?) } else { square_integers(&call, &x) });
funcify!(Candle, Exp, |_, [x]| x.exp());
funcify!(Candle, Expm1, |call, [x]| expm1(&call, &x));
funcify!(Candle, Log, |_, [x]| x.log());
funcify!(Candle, Log1p, |call, [x]| log1p(&call, &x));
funcify!(Candle, Tanh, |_, [x]| x.tanh());
funcify!(Candle, Sigmoid, |call, [x]| sigmoid(&call, &x));
funcify!(Candle, Sin, |_, [x]| x.sin());
funcify!(Candle, Cos, |_, [x]| x.cos());
funcify!(Candle, Sqrt, |_, [x]| x.sqrt());
funcify!(Candle, Rsqrt, |call, [x]| rsqrt(&call, &x));
funcify!(Candle, Recip, |_, [x]| x.recip());
funcify!(Candle, Not, |call, [x]| not(&call, &x));
funcify!(Candle, Erf, |_, [x]| x.erf());
funcify!(Candle, Floor, |_, [x]| x.floor());
funcify!(Candle, Ceil, |_, [x]| x.ceil());
funcify!(Candle, StopGradient, |_, [x]| Ok::<_, BackendError>(x.detach()));

fn neg_integers(call: &Call<'_, Candle, Neg>, x: &Tensor) -> Result<Tensor> {
    map_integers!(call, x, |v| v.wrapping_neg())
}

fn abs_integers(call: &Call<'_, Candle, Abs>, x: &Tensor) -> Result<Tensor> {
    map_integers!(call, x, |v| v.wrapping_abs())
}

fn square_integers(call: &Call<'_, Candle, Square>, x: &Tensor) -> Result<Tensor> {
    map_integers!(call, x, |v| v.wrapping_mul(v))
}

/// Candle's own gives 0 for NaN.
fn sign(call: &Call<'_, Candle, Sign>, x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return map_integers!(call, x, |v| v.signum());
    }
    let backward: Backward = |_, _, gradient| gradient.zeros_like();
    map_floats!(call, x, Some(backward), |v| if v.is_nan() || v == 0.0 { v } else { v.signum() })
}

fn expm1(call: &Call<'_, Candle, Expm1>, x: &Tensor) -> Result<Tensor> {
    let backward: Backward = |_, y, gradient| gradient.mul(&y.affine(1.0, 1.0)?);
    map_floats!(call, x, Some(backward), |v| v.exp_m1())
}

fn log1p(call: &Call<'_, Candle, Log1p>, x: &Tensor) -> Result<Tensor> {
    let backward: Backward = |x, _, gradient| gradient.div(&x.affine(1.0, 1.0)?);
    map_floats!(call, x, Some(backward), |v| v.ln_1p())
}

/// One pass on the CPU; elsewhere a composition of Candle's kernels.
fn sigmoid(call: &Call<'_, Candle, Sigmoid>, x: &Tensor) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return Ok(x.neg()?.exp()?.affine(1.0, 1.0)?.recip()?);
    }
    let backward: Backward = |_, y, gradient| gradient.mul(y)?.mul(&y.affine(-1.0, 1.0)?);
    map_floats!(call, x, Some(backward), |v| 1.0 / (1.0 + (-v).exp()))
}

/// One pass on the CPU; elsewhere a composition of Candle's kernels.
fn rsqrt(call: &Call<'_, Candle, Rsqrt>, x: &Tensor) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return Ok(x.sqrt()?.recip()?);
    }
    let backward: Backward = |x, y, gradient| gradient.mul(&y.div(x)?.affine(-0.5, 0.0)?);
    map_floats!(call, x, Some(backward), |v| 1.0 / v.sqrt())
}

fn not(call: &Call<'_, Candle, Not>, x: &Tensor) -> Result<Tensor> {
    if call.dtype(0) == DType::Bool {
        return map1(call, x, None, |v: u8| u8::from(v == 0));
    }
    map_integers!(call, x, |v| !v)
}

/// Kernels in f64, each with the gradient that Candle's own `backward` takes: from x, y and the gradient of y.
macro_rules! in_f64 {
    ($($op:ident => $function:expr, $backward:expr;)*) => {
        $(funcify!(Candle, $op, |call, [x]| map_in_f64(&call, &x, $backward, $function as fn(f64) -> f64));)*
    };
}

in_f64! {
    Tan => f64::tan, Some(|_, y, g| g.mul(&y.sqr()?.affine(1.0, 1.0)?));
    Asin => f64::asin, Some(|x, _, g| g.div(&x.sqr()?.affine(-1.0, 1.0)?.sqrt()?));
    Acos => f64::acos, Some(|x, _, g| g.neg()?.div(&x.sqr()?.affine(-1.0, 1.0)?.sqrt()?));
    Atan => f64::atan, Some(|x, _, g| g.div(&x.sqr()?.affine(1.0, 1.0)?));
    Sinh => f64::sinh, Some(|_, y, g| g.mul(&y.sqr()?.affine(1.0, 1.0)?.sqrt()?));
    Cosh => f64::cosh, Some(|x, _, g| g.mul(&x.exp()?.sub(&x.neg()?.exp()?)?.affine(0.5, 0.0)?));
    Asinh => special::asinh, Some(|x, _, g| g.div(&x.sqr()?.affine(1.0, 1.0)?.sqrt()?));
    Acosh => special::acosh, Some(|x, _, g| g.div(&x.sqr()?.affine(1.0, -1.0)?.sqrt()?));
    Atanh => special::atanh, Some(|x, _, g| g.div(&x.sqr()?.affine(-1.0, 1.0)?));
    Erfc => special::erfc, Some(|x, _, g| g.mul(&x.sqr()?.neg()?.exp()?.affine(-FRAC_2_SQRT_PI, 0.0)?));
    ErfInv => special::erf_inv, Some(|_, y, g| g.mul(&y.sqr()?.exp()?.affine(FRAC_2_SQRT_PI.recip(), 0.0)?));
    Lgamma => special::lgamma, None;
    Digamma => special::digamma, None;
    Cbrt => f64::cbrt, Some(|_, y, g| g.div(&y.sqr()?.affine(3.0, 0.0)?));
    Round => f64::round_ties_even, Some(|_, _, g| g.zeros_like());
    Trunc => f64::trunc, Some(|_, _, g| g.zeros_like());
}
