//! Defines the elementwise ops with one operand, and their kernels.

use funcify_core::ops::special as functions;
use funcify_core::types::{nearest_bf16, nearest_f16};

use super::arithmetic::Registers;
use super::map::{Function1, Map1, One, OneVector, Target};
use super::math::{self, MathTable};
use super::source::Source;
use super::special;
use super::table::{self, Elementwise, table};
use super::*;

table! {
    /// An elementwise op with one operand.
    Unary of 1, Function1, Map1;
    registers {
    Copy, light true, "x itself: a copy, or a broadcast.", |_simd, x| x;
    Neg, light true, "-x.", |simd, x| T::neg(simd, x);
    Abs, "|x|.", |simd, x| T::abs(simd, x);
    Sign, "-1, 0 or 1; NaN and signed zeros are returned unchanged.", |simd, x| sign::<T, S>(simd, x);
    Square, light true, "x * x.", |simd, x| T::mul(simd, x, x);
    Recip, "1 / x.", |simd, x| T::div(simd, T::splat(simd, T::ONE), x);
    Sqrt, "The square root; NaN below zero.", |simd, x| T::sqrt(simd, x);
    Rsqrt, "1 / sqrt(x), both rounded.", |simd, x| T::div(simd, T::splat(simd, T::ONE), T::sqrt(simd, x));
    Exp, "e to the power x.", |simd, x| math::exp::<T, _>(Registers(simd), x);
    Expm1, "exp(x) - 1, exact near zero.", |simd, x| math::expm1::<T, _>(Registers(simd), x);
    Log, "The natural logarithm.", |simd, x| math::log::<T, _>(Registers(simd), x);
    Log1p, "log(1 + x), exact near zero.", |simd, x| math::log1p::<T, _>(Registers(simd), x);
    Tanh, "The hyperbolic tangent.", |simd, x| math::tanh::<T, _>(Registers(simd), x);
    Sigmoid, "1 / (1 + exp(-x)).", |simd, x| math::sigmoid::<T, _>(Registers(simd), x);
    Floor, "The largest integer that is at most x.", |simd, x| math::floor::<T, _>(Registers(simd), x);
    Ceil, "The smallest integer that is at least x.", |simd, x| math::ceil::<T, _>(Registers(simd), x);
    Round, "The nearest integer, with ties to even.", |simd, x| math::round::<T, _>(Registers(simd), x);
    Trunc, "x rounded toward zero to an integer.", |simd, x| math::trunc::<T, _>(Registers(simd), x);
    Sin, "The sine of x radians.", |simd, x| near_zero::<T, S>(simd, x, math::sin_of_few_turns::<T, _>(Registers(simd), x, 0.0), f64::sin);
    Cos, "The cosine of x radians.", |simd, x| near_zero::<T, S>(simd, x, math::sin_of_few_turns::<T, _>(Registers(simd), x, 1.0), f64::cos);
    Not, "1 for 0, and 0 for every other number: the negation of a mask.", |simd, x| not::<T, S>(simd, x);
    }
    fused {
    Tan, "The tangent of x radians.",
        |simd, x| near_zero::<T, S>(simd, x, special::tan_of_few_turns::<T, _>(Registers(simd), x), f64::tan), |x| x.tan();
    Asin, "The arc sine.", |simd, x| special::asin::<T, _>(Registers(simd), x), |x| x.asin();
    Acos, "The arc cosine.", |simd, x| special::acos::<T, _>(Registers(simd), x), |x| x.acos();
    Atan, "The arc tangent.", |simd, x| special::atan::<T, _>(Registers(simd), x), |x| x.atan();
    Sinh, "The hyperbolic sine.", |simd, x| special::sinh::<T, _>(Registers(simd), x), |x| x.sinh();
    Cosh, "The hyperbolic cosine.", |simd, x| special::cosh::<T, _>(Registers(simd), x), |x| x.cosh();
    Cbrt, "The cube root.", |simd, x| special::cbrt::<T, _>(Registers(simd), x), |x| x.cbrt();
    Asinh, "The inverse hyperbolic sine.",
        |simd, x| special::asinh::<T, _>(Registers(simd), x), |x| functions::asinh(x);
    Acosh, "The inverse hyperbolic cosine; NaN below 1.",
        |simd, x| special::acosh::<T, _>(Registers(simd), x), |x| functions::acosh(x);
    Atanh, "The inverse hyperbolic tangent; NaN outside [-1, 1].",
        |simd, x| special::atanh::<T, _>(Registers(simd), x), |x| functions::atanh(x);
    Erf, "The error function.", |simd, x| special::erf::<T, _>(Registers(simd), x), |x| functions::erf(x);
    Erfc, "1 - erf(x), exact where it is small.",
        |simd, x| special::erfc::<T, _>(Registers(simd), x), |x| functions::erfc(x);
    ErfInv, "The inverse of the error function; NaN outside [-1, 1].",
        |simd, x| special::erf_inv::<T, _>(Registers(simd), x), |x| functions::erf_inv(x);
    }
    elements {
    Lgamma, "log|gamma(x)|, element by element.", |x| functions::lgamma(x);
    Digamma, "The derivative of lgamma, element by element.", |x| functions::digamma(x);
    ToF16, "The nearest f16 number, with ties to even.", |x| nearest_f16(x).to_f64();
    ToBf16, "The nearest bf16 number, with ties to even.", |x| nearest_bf16(x).to_f64();
    ToF32, "The nearest f32 number, with ties to even.", |x| f64::from(x as f32);
    }
}

#[inline(always)]
fn sign<T: Float, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let zero = T::splat(simd, T::ZERO);
    let one = T::with_sign(simd, T::splat(simd, T::ONE), x);
    let y = T::select(simd, T::equal(simd, x, zero), x, one);
    T::select(simd, T::equal(simd, x, x), y, x)
}

#[inline(always)]
fn not<T: Float, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let (zero, one) = (T::splat(simd, T::ZERO), T::splat(simd, T::ONE));
    T::select(simd, T::equal(simd, x, zero), one, zero)
}

/// Corrects `y`, which is accurate only in lanes where abs(x) is at most [`MAX_FAST_ANGLE`](MathTable::MAX_FAST_ANGLE):
/// in the other lanes, replaces the elements of `y` with the results of `exact`. Each element of the result depends
/// only on the corresponding elements of `x` and `y`.
#[inline(always)]
fn near_zero<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>, y: T::Vector<S>, exact: fn(f64) -> f64) -> T::Vector<S> {
    let few = T::less_equal(simd, T::abs(simd, x), T::splat(simd, T::MAX_FAST_ANGLE));
    let outside = T::select(simd, few, T::splat(simd, T::ZERO), T::splat(simd, T::ONE));
    if T::sum(simd, outside) == T::ZERO { y } else { table::replace_lanes::<T, S>(outside, x, y, exact) }
}
