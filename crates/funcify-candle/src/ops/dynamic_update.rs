//! `dynamic_update`: the start is read and clamped, the part is joined with what surrounds it.

use candle_core::Tensor;
use funcify_core::error::BackendError;
use funcify_core::ops::DynamicUpdate;
use funcify_runtime::{KernelCall, funcify};

use super::concat::join;
use super::dynamic_slice::clamped_start;
use super::slice::narrow;
use crate::device::Candle;

funcify!(Candle, DynamicUpdate, |call, [x, part, start]| dynamic_update(&call, x, part, &start));

fn dynamic_update(
    call: &KernelCall<'_, Candle, DynamicUpdate>,
    x: Tensor,
    part: Tensor,
    start: &Tensor,
) -> Result<Tensor, BackendError> {
    let axis = call.op.axis;
    let (size, whole) = (part.dim(axis)?, x.dim(axis)?);
    let start = clamped_start(call, start, size, whole)?;
    let end = start + size;
    let parts = [narrow(&x, axis, 0, start)?, part, narrow(&x, axis, end, whole - end)?];
    Ok(join(&parts, axis)?.unwrap_or(x))
}
