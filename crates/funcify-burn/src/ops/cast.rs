//! Lowers `cast` to Burn's own op, with two exceptions. Casts to integers use separate kernels, because Burn's ndarray
//! device panics on numbers that the target type cannot represent. Casts to half floats in host memory use separate
//! kernels too, because Burn's own casts round twice or truncate.

use burn::tensor::Element;
use funcify_core::types::{nearest_bf16, nearest_f16, round_integer_to_odd};

use super::prelude::*;
use crate::dtypes;
use crate::on_host::Real;

funcify!(Burn, ops::Cast, |call, [x]| {
    check_output(&call)?;
    cast(call.backend, x, call.op.dtype)
});

fn cast(burn: &Burn, x: Tensor, dtype: DType) -> Outcome {
    let stored = burn.storage_dtype(dtype);
    // Burn's own conversions to half floats round twice, via f32, or truncate.
    let is_half = matches!(dtype, DType::F16 | DType::BF16) && dtypes::of(&x) != Some(stored);
    match kind(&x) {
        Kind::Float if is_half && burn.in_host_memory() => {
            return by_float!(x, Float => cast_to_half(burn, x, dtype, Float::widen));
        }
        Kind::Integer if is_half && burn.in_host_memory() => {
            return by_integer!(x, Integer => cast_to_half(burn, x, dtype, round_to_odd::<Integer>));
        }
        _ => {}
    }
    if dtypes::of(&x) == Some(stored) {
        return Ok(x);
    }
    match (kind(&x), dtype) {
        (Kind::Bool, _) if dtype.is_int() => Ok(Dispatch::bool_into_int(x, burn.integer(dtype)?)),
        (Kind::Bool, _) => Ok(Dispatch::bool_into_float(x, dtypes::float(stored)?)),
        (Kind::Float, DType::Bool) if !burn.in_host_memory() => {
            // Burn's wgpu device treats NaN as equal to 0 in `float_not_equal`.
            Ok(Dispatch::bool_not(Dispatch::float_equal_elem(x, Scalar::from(0f64), burn.bool_dtype())))
        }
        (Kind::Float, DType::Bool) => Ok(Dispatch::float_not_equal_elem(x, Scalar::from(0f64), burn.bool_dtype())),
        (Kind::Integer, DType::Bool) => Ok(Dispatch::int_not_equal_elem(x, Scalar::from(0i64), burn.bool_dtype())),
        (Kind::Float, _) if dtype.is_float() => Ok(Dispatch::float_cast(x, dtypes::float(stored)?)),
        (Kind::Integer, _) if dtype.is_float() => Ok(Dispatch::int_into_float(x, dtypes::float(stored)?)),
        (Kind::Integer, _) if !burn.in_host_memory() => on_device::cast_wrapping(burn, x, dtype),
        (Kind::Float, _) if !burn.in_host_memory() => on_device::cast_saturating(burn, x, dtype),
        (Kind::Integer, _) => by_integer!(x, Integer => cast_wrapping::<Integer>(burn, x, dtype)),
        (Kind::Float, _) => by_float!(x, Float => cast_saturating::<Float>(burn, x, dtype)),
    }
}

/// Casts numbers to f16 or bf16, which some devices store as f32. `wide` converts an element to f64.
fn cast_to_half<E: Element>(burn: &Burn, x: Tensor, dtype: DType, wide: impl Fn(E) -> f64) -> Outcome {
    match (dtype, burn.storage_dtype(dtype)) {
        (DType::F16, DType::F16) => on_host::map(burn, x, |e: E| nearest_f16(wide(e))),
        (DType::F16, _) => on_host::map(burn, x, |e: E| nearest_f16(wide(e)).to_f32()),
        (_, DType::BF16) => on_host::map(burn, x, |e: E| nearest_bf16(wide(e))),
        (_, _) => on_host::map(burn, x, |e: E| nearest_bf16(wide(e)).to_f32()),
    }
}

fn round_to_odd<E: Into<i64>>(integer: E) -> f64 {
    round_integer_to_odd(integer.into())
}

/// Casts integers to a different integer type, with wrapping.
fn cast_wrapping<E: Element + Into<i64>>(burn: &Burn, x: Tensor, dtype: DType) -> Outcome {
    match dtype {
        DType::U8 => on_host::map(burn, x, |i: E| i.into() as u8),
        DType::U32 => on_host::map(burn, x, |i: E| i.into() as u32),
        DType::I32 => on_host::map(burn, x, |i: E| i.into() as i32),
        _ => on_host::map(burn, x, |i: E| i.into()),
    }
}

/// Casts floats to integers. Rounds toward zero, saturates, and maps NaN to 0.
fn cast_saturating<E: Real>(burn: &Burn, x: Tensor, dtype: DType) -> Outcome {
    match dtype {
        DType::U8 => on_host::map(burn, x, |float: E| float.widen() as u8),
        DType::U32 => on_host::map(burn, x, |float: E| float.widen() as u32),
        DType::I32 => on_host::map(burn, x, |float: E| float.widen() as i32),
        _ => on_host::map(burn, x, |float: E| float.widen() as i64),
    }
}
