//! Lowers `dynamic_slice`: reads the start index on the host, clamps it, and returns a view.

use candle_core::DType;

use super::prelude::*;
use super::slice::narrow;

funcify!(Candle, ops::DynamicSlice, |call, [x, start]| dynamic_slice(&call, &x, &start));

fn dynamic_slice(call: &Call<'_, ops::DynamicSlice>, x: &Tensor, start: &Tensor) -> Outcome {
    let (axis, size) = (call.op.axis, call.dim(&call.op.size)?);
    let start = clamped_start(call, start, size, x.dim(axis)?)?;
    Ok(narrow(x, axis, start, size)?)
}

/// Returns the value of an integer scalar tensor as an i64.
pub(super) fn read_index(index: &Tensor) -> candle_core::Result<i64> {
    index.to_dtype(DType::I64)?.to_scalar()
}

/// Returns the start index, clamped so that a slice of `part` elements fits into an axis of `axis` elements. Returns an
/// error if the slice is larger than the axis.
pub(super) fn clamped_start<O>(call: &Call<'_, O>, start: &Tensor, part: usize, axis: usize) -> Outcome<usize> {
    let Some(last) = axis.checked_sub(part) else {
        let (expected, fix) = (format!("0 to {axis} elements"), "call with sizes for which the part fits");
        return Err(Box::new(call.place().mismatch("the part", expected, part, fix)));
    };
    Ok(read_index(start)?.clamp(0, last as i64) as usize)
}
