//! `dynamic_slice`: the start is read from the device and clamped.

use funcify::dispatch::Call;
use funcify::error::BackendError;
use funcify::{funcify, ops};

use super::Outcome;
use crate::data::integer_value;
use crate::device::Burn;
use crate::kinds::{Tensor, along, sizes, slice};

funcify!(Burn, ops::DynamicSlice, |call, [x, start]| dynamic_slice(&call, x, start));

fn dynamic_slice(call: &Call<'_, Burn, ops::DynamicSlice>, x: Tensor, start: Tensor) -> Outcome {
    let axis = call.op.axis;
    let size = call.dim(&call.op.size)?;
    let found = sizes(&x);
    let start = clamped_start(call, start, size, found[axis])?;
    if size == 0 || found.contains(&0) {
        return call.backend.zeros(call.dtype(0), &call.output_shape(0)?);
    }
    Ok(slice(x, &along(&found, axis, start, start + size, 1)))
}

/// The start after clamping, so that the part lies within the axis.
pub(super) fn clamped_start<O>(
    call: &Call<'_, Burn, O>,
    start: Tensor,
    part: usize,
    axis: usize,
) -> Result<usize, BackendError> {
    let last = axis.checked_sub(part).ok_or_else(|| {
        let expected = format!("0 to {axis} elements");
        call.place().mismatch("the part", expected, part, "call with sizes that hold the part")
    })?;
    Ok(integer_value(start)?.clamp(0, last as i64) as usize)
}
