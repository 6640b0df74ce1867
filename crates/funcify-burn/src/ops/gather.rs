//! Lowers `gather` to Burn's own op, with clamped indices.

use super::prelude::*;

funcify!(Burn, ops::Gather, |call, [x, indices]| gather(&call, x, indices));

fn gather(call: &Call<'_, ops::Gather>, x: Tensor, indices: Tensor) -> Outcome {
    let axis = call.op.axis;
    let (size, shape) = (sizes(&x)[axis], sizes(&indices));
    if shape.contains(&0) {
        return call.backend.zeros(call.dtype(0), &shape);
    }
    if size == 0 {
        return Err(empty_axis(call));
    }
    let indices = clamp_indices(call.backend, indices, size);
    Ok(with_bools_as_bytes(call.backend, x, |x| match kind(&x) {
        Kind::Float => Dispatch::float_gather(axis, x, indices),
        _ => Dispatch::int_gather(axis, x, indices),
    }))
}
