//! Lowers `cast` to Candle's `to_dtype`, except for booleans and for conversions in which `to_dtype` rounds twice (such
//! as integers to f16).

use funcify_core::types::{nearest_bf16, nearest_f16, round_integer_to_odd};

use super::prelude::*;
use crate::cpu::map1;
use crate::device::storage_dtype;

funcify!(Candle, ops::Cast, |call, [x]| cast(&call, &x, call.dtype(0), call.op.dtype));

/// Converts the elements of a tensor from dtype `from` to dtype `to`.
pub(super) fn cast<O>(call: &Call<'_, O>, x: &Tensor, from: DType, to: DType) -> Outcome {
    if from == to || (from == DType::Bool && to == DType::U8) {
        return Ok(x.clone());
    }
    if x.elem_count() == 0 {
        return call.backend.zeros(x.dims(), to);
    }
    match (from, to) {
        (_, DType::Bool) => Ok(x.ne(0u8)?),
        (DType::U32, DType::F16) => map1(call, x, |v: u32| nearest_f16(f64::from(v))),
        (DType::I32, DType::F16) => map1(call, x, |v: i32| nearest_f16(f64::from(v))),
        (DType::I64, DType::F16) => map1(call, x, |v: i64| nearest_f16(round_integer_to_odd(v))),
        (DType::U32, DType::BF16) => map1(call, x, |v: u32| nearest_bf16(f64::from(v))),
        (DType::I32, DType::BF16) => map1(call, x, |v: i32| nearest_bf16(f64::from(v))),
        (DType::I64, DType::BF16) => map1(call, x, |v: i64| nearest_bf16(round_integer_to_odd(v))),
        // Candle's conversions from f64 to f16 and bf16 round twice or truncate bits.
        (DType::F64, DType::F16) if x.device().is_cpu() => map1(call, x, nearest_f16),
        (DType::F64, DType::BF16) if x.device().is_cpu() => map1(call, x, nearest_bf16),
        _ => Ok(x.to_dtype(storage_dtype(to))?),
    }
}
