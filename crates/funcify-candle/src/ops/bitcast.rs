//! Lowers `bitcast` to this crate's kernels, because Candle has none.

use super::prelude::*;
use crate::cpu::{map1, outside_domain_error};

funcify!(Candle, ops::Bitcast, |call, [x]| bitcast(&call, &x));

/// Reinterprets the bits of a tensor. Detaches the result unless the dtype stays the same, because a bitcast to a
/// different dtype has no gradient.
fn bitcast(call: &Call<'_, ops::Bitcast>, x: &Tensor) -> Outcome {
    let bits = x.detach();
    match (call.dtype(0), call.op.dtype) {
        (from, to) if from == to => Ok(x.clone()),
        (DType::F32, DType::U32) => map1(call, &bits, f32::to_bits),
        (DType::F32, DType::I32) => map1(call, &bits, |v: f32| v.to_bits() as i32),
        (DType::U32, DType::F32) => map1(call, &bits, f32::from_bits),
        (DType::I32, DType::F32) => map1(call, &bits, |v: i32| f32::from_bits(v as u32)),
        (DType::U32, DType::I32) => map1(call, &bits, |v: u32| v as i32),
        (DType::I32, DType::U32) => map1(call, &bits, |v: i32| v as u32),
        (DType::F64, DType::I64) => map1(call, &bits, |v: f64| v.to_bits() as i64),
        (DType::I64, DType::F64) => map1(call, &bits, |v: i64| f64::from_bits(v as u64)),
        _ => Err(outside_domain_error(call, x)),
    }
}
