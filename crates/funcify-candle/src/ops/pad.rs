//! Lowers `pad`: concatenates the operand with blocks of the padding value. Interior padding is concatenated along an
//! additional axis, which is then merged with the padded axis.

use super::concat::join;
use super::prelude::*;
use super::slice::narrow;

funcify!(Candle, ops::Pad, |call, [x, value]| pad(&call, &x, &value));

fn pad(call: &Call<'_, ops::Pad>, x: &Tensor, value: &Tensor) -> Outcome {
    let axis = call.op.axis;
    let (low, high) = (call.dim(&call.op.low)?, call.dim(&call.op.high)?);
    let interleaved = interleave(x, value, axis, call.op.interior)?;
    let parts = [block(x.dims(), axis, low, value)?, interleaved, block(x.dims(), axis, high, value)?];
    match join(&parts, axis)? {
        Some(padded) => Ok(padded),
        None => call.backend.zeros(&output_shape(call)?, call.dtype(0)),
    }
}

/// Returns a tensor filled with `value`. Its shape is `shape`, with the size of axis `axis` replaced by `size`.
fn block(shape: &[usize], axis: usize, size: usize, value: &Tensor) -> candle_core::Result<Tensor> {
    let mut shape = shape.to_vec();
    shape[axis] = size;
    if shape.contains(&0) {
        return Tensor::zeros(shape, value.dtype(), value.device());
    }
    value.broadcast_as(shape)?.contiguous()
}

/// Inserts `interior` copies of `value` between adjacent elements along an axis.
pub(super) fn interleave(x: &Tensor, value: &Tensor, axis: usize, interior: usize) -> candle_core::Result<Tensor> {
    let size = x.dim(axis)?;
    if interior == 0 || size < 2 || x.elem_count() == 0 {
        return Ok(x.clone());
    }
    // Reshape to four axes: the merged axes before `axis`; `axis` itself; a new axis along which each element and its
    // padding are concatenated; the merged axes after `axis`.
    let before: usize = x.dims()[..axis].iter().product();
    let after: usize = x.dims()[axis + 1..].iter().product();
    let elements = x.reshape((before, size, 1, after))?;
    let padding = block(&[before, size, 1, after], 2, interior, value)?;
    let mut shape = x.dims().to_vec();
    shape[axis] = size * (interior + 1);
    let padded = Tensor::cat(&[elements, padding], 2)?.reshape(shape)?;
    narrow(&padded, axis, 0, size + (size - 1) * interior)
}
