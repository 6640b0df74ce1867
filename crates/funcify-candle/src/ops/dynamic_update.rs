//! Lowers `dynamic_update`: reads the start index on the host, clamps it, and concatenates the update with the
//! operand's elements on both sides of it.

use super::concat::join;
use super::dynamic_slice::clamped_start;
use super::prelude::*;
use super::slice::narrow;

funcify!(Candle, ops::DynamicUpdate, |call, [x, part, start]| dynamic_update(&call, x, part, &start));

fn dynamic_update(call: &Call<'_, ops::DynamicUpdate>, x: Tensor, part: Tensor, start: &Tensor) -> Outcome {
    let axis = call.op.axis;
    let (size, whole) = (part.dim(axis)?, x.dim(axis)?);
    let start = clamped_start(call, start, size, whole)?;
    let end = start + size;
    let parts = [narrow(&x, axis, 0, start)?, part, narrow(&x, axis, end, whole - end)?];
    Ok(join(&parts, axis)?.unwrap_or(x))
}
