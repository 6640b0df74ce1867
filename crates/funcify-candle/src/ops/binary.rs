//! Elementwise ops of two operands: Candle's for float arithmetic, this crate's elsewhere.
//!
//! Candle's integers panic where they overflow or divide by zero, its `maximum` depends on the order of a NaN and of zeros, and
//! its `pow` is NaN for negative bases.

use candle_core::Tensor;
use funcify_core::error::BackendError;
use funcify_core::ops::special::Extrema;
use funcify_core::ops::{Add, And, Atan2, Copysign, Div, Max, Min, Mul, Or, Pow, Rem, Sub, Xor, integer_power};
use funcify_runtime::KernelCall;
use funcify_runtime::funcify;

use crate::cpu::{map_float_pairs, map_integer_pairs};
use crate::device::Candle;

type Result<T> = std::result::Result<T, BackendError>;

funcify!(Candle, Add, |call, [x, y]| add(&call, &x, &y));
funcify!(Candle, Sub, |call, [x, y]| sub(&call, &x, &y));
funcify!(Candle, Mul, |call, [x, y]| mul(&call, &x, &y));
funcify!(Candle, Div, |call, [x, y]| div(&call, &x, &y));
funcify!(Candle, Rem, |call, [x, y]| rem(&call, &x, &y));
funcify!(Candle, Max, |call, [x, y]| max(&call, &x, &y));
funcify!(Candle, Min, |call, [x, y]| min(&call, &x, &y));
funcify!(Candle, Pow, |call, [x, y]| pow(&call, &x, &y));
funcify!(Candle, Atan2, |call, [x, y]| map_float_pairs!(&call, &x, &y, |a, b| a.atan2(b)));
funcify!(Candle, Copysign, |call, [x, y]| map_float_pairs!(&call, &x, &y, |a, b| a.copysign(b)));
funcify!(Candle, And, |call, [x, y]| and(&call, &x, &y));
funcify!(Candle, Or, |call, [x, y]| or(&call, &x, &y));
funcify!(Candle, Xor, |call, [x, y]| xor(&call, &x, &y));

fn add(call: &KernelCall<'_, Candle, Add>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() {
        return Ok(x.add(y)?);
    }
    map_integer_pairs!(call, x, y, |a, b| a.wrapping_add(b))
}

fn sub(call: &KernelCall<'_, Candle, Sub>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() {
        return Ok(x.sub(y)?);
    }
    map_integer_pairs!(call, x, y, |a, b| a.wrapping_sub(b))
}

fn mul(call: &KernelCall<'_, Candle, Mul>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() {
        return Ok(x.mul(y)?);
    }
    map_integer_pairs!(call, x, y, |a, b| a.wrapping_mul(b))
}

fn div(call: &KernelCall<'_, Candle, Div>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() {
        return Ok(x.div(y)?);
    }
    map_integer_pairs!(call, x, y, |a, b| if b == 0 { -1 } else { a.wrapping_div(b) })
}

fn rem(call: &KernelCall<'_, Candle, Rem>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() {
        return map_float_pairs!(call, x, y, |a, b| a % b);
    }
    map_integer_pairs!(call, x, y, |a, b| if b == 0 { a } else { a.wrapping_rem(b) })
}

fn max(call: &KernelCall<'_, Candle, Max>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() {
        return map_float_pairs!(call, x, y, |a, b| a.larger(b));
    }
    map_integer_pairs!(call, x, y, |a, b| a.max(b))
}

fn min(call: &KernelCall<'_, Candle, Min>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() {
        return map_float_pairs!(call, x, y, |a, b| a.smaller(b));
    }
    map_integer_pairs!(call, x, y, |a, b| a.min(b))
}

fn pow(call: &KernelCall<'_, Candle, Pow>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() {
        return map_float_pairs!(call, x, y, |a, b| a.powf(b));
    }
    map_integer_pairs!(call, x, y, |a, b| integer_power(a, b))
}

// Booleans are stored as 0 and 1, for which the bitwise ops are the logical ones.

fn and(call: &KernelCall<'_, Candle, And>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    map_integer_pairs!(call, x, y, |a, b| a & b)
}

fn or(call: &KernelCall<'_, Candle, Or>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    map_integer_pairs!(call, x, y, |a, b| a | b)
}

fn xor(call: &KernelCall<'_, Candle, Xor>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    map_integer_pairs!(call, x, y, |a, b| a ^ b)
}
