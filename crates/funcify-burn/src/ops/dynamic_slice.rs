//! Lowers `dynamic_slice`. If the tensors are in host memory, the kernel reads and clamps the start index. On a device
//! with its own memory, nothing is read back: the device computes the indices of the selected rows from the start
//! index.

use super::prelude::*;
use crate::data::{from_elements, integer_value};

funcify!(Burn, ops::DynamicSlice, |call, [x, start]| dynamic_slice(&call, x, start));

fn dynamic_slice(call: &Call<'_, ops::DynamicSlice>, x: Tensor, start: Tensor) -> Outcome {
    let axis = call.op.axis;
    let size = call.dim(&call.op.size)?;
    let x_sizes = sizes(&x);
    if !call.backend.in_host_memory() && size > 0 && !x_sizes.contains(&0) {
        let positions = positions_from(call, start, size, x_sizes[axis])?;
        return Ok(with_bools_as_bytes(call.backend, x, |x| match kind(&x) {
            Kind::Float => Dispatch::float_select(x, axis, positions),
            _ => Dispatch::int_select(x, axis, positions),
        }));
    }
    let start = clamped_start(call, start, size, x_sizes[axis])?;
    if size == 0 || x_sizes.contains(&0) {
        return call.backend.zeros(call.dtype(0), &call.output_shape(0)?);
    }
    Ok(slice(x, &slices_along(&x_sizes, axis, start, start + size, 1)))
}

/// Computes, on the device, the positions of the `part` selected rows. Clamps `start` so that the rows are within the
/// axis.
pub(super) fn positions_from<O>(call: &Call<'_, O>, start: Tensor, part: usize, axis: usize) -> Outcome {
    let first = on_device::clamp_indices(call.backend, start, last_start(call, part, axis)? + 1);
    let steps = from_elements(call.backend, (0..part as i32).collect(), &[part]);
    Ok(Dispatch::int_add(first, steps))
}

/// Reads `start` on the host, and clamps it so that the `part` selected rows are within the axis.
pub(super) fn clamped_start<O>(call: &Call<'_, O>, start: Tensor, part: usize, axis: usize) -> Outcome<usize> {
    let last = last_start(call, part, axis)?;
    Ok(integer_value(start)?.clamp(0, last as i64) as usize)
}

/// Returns the largest start index for which `part` rows are within the axis, or an error if the axis has fewer rows.
fn last_start<O>(call: &Call<'_, O>, part: usize, axis: usize) -> Outcome<usize> {
    axis.checked_sub(part).ok_or_else(|| {
        let expected = format!("0 to {axis} elements");
        call.place().mismatch("the part", expected, part, "call with sizes for which the part fits").into()
    })
}
