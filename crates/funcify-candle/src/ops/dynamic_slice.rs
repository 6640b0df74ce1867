//! `dynamic_slice`: the start is read and clamped, the part is a view.

use candle_core::{DType, Tensor};
use funcify_core::error::BackendError;
use funcify_core::ops::DynamicSlice;
use funcify_runtime::{KernelCall, funcify};

use super::slice::narrow;
use crate::device::Candle;

funcify!(Candle, DynamicSlice, |call, [x, start]| dynamic_slice(&call, &x, &start));

fn dynamic_slice(
    call: &KernelCall<'_, Candle, DynamicSlice>,
    x: &Tensor,
    start: &Tensor,
) -> Result<Tensor, BackendError> {
    let (axis, size) = (call.op.axis, call.dim(&call.op.size)?);
    let start = clamped_start(call, start, size, x.dim(axis)?)?;
    Ok(narrow(x, axis, start, size)?)
}

/// The value of an integer scalar.
pub(super) fn read_index(index: &Tensor) -> candle_core::Result<i64> {
    index.to_dtype(DType::I64)?.to_scalar()
}

/// The start after clamping; an error if the part is larger than the axis in this call.
pub(super) fn clamped_start<O>(
    call: &KernelCall<'_, Candle, O>,
    start: &Tensor,
    part: usize,
    axis: usize,
) -> Result<usize, BackendError> {
    let Some(last) = axis.checked_sub(part) else {
        let (expected, fix) = (format!("0 to {axis} elements"), "call with sizes that hold the part");
        return Err(Box::new(call.place().mismatch("the part", expected, part, fix)));
    };
    Ok(read_index(start)?.clamp(0, last as i64) as usize)
}
