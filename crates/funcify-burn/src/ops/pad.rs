//! Lowers `pad`: creates a tensor filled with the padding value, and assigns the operand to a strided slice of it.

use super::prelude::*;

funcify!(Burn, ops::Pad, |call, [x, value]| pad(&call, x, value));

fn pad(call: &Call<'_, ops::Pad>, x: Tensor, value: Tensor) -> Outcome {
    let (axis, step) = (call.op.axis, call.op.interior + 1);
    let low = call.dim(&call.op.low)?;
    let shape = call.output_shape(0)?;
    let x_sizes = sizes(&x);
    if shape.contains(&0) {
        return call.backend.zeros(call.dtype(0), &shape);
    }
    let padding = expand(reshape(value, &vec![1; shape.len()])?, &shape);
    if x_sizes.contains(&0) {
        return Ok(padding);
    }
    let limit = low + (x_sizes[axis] - 1) * step + 1;
    if limit > shape[axis] {
        return Err(format!("sizes {x_sizes:?}, padded by {low} at the start, do not fit into {shape:?}").into());
    }
    Ok(slice_assign(padding, &slices_along(&shape, axis, low, limit, step), x))
}
