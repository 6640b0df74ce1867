//! `dynamic_update`: an assignment, in place if nothing else holds the operand.

use funcify::dispatch::Call;
use funcify::{funcify, ops};

use super::Outcome;
use super::dynamic_slice::clamped_start;
use crate::device::Burn;
use crate::kinds::{Tensor, along, sizes, slice_assign};

funcify!(Burn, ops::DynamicUpdate, |call, [x, part, start]| dynamic_update(&call, x, part, start));

fn dynamic_update(call: &Call<'_, Burn, ops::DynamicUpdate>, x: Tensor, part: Tensor, start: Tensor) -> Outcome {
    let axis = call.op.axis;
    let (found, changed) = (sizes(&x), sizes(&part));
    let start = clamped_start(call, start, changed[axis], found[axis])?;
    if changed.contains(&0) {
        return Ok(x);
    }
    Ok(slice_assign(x, &along(&found, axis, start, start + changed[axis], 1), part))
}
