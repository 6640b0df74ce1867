//! Lowers `gather` to Candle's `gather`, with clamped indices.

use super::prelude::*;
use super::take::{check_not_empty, clamp_indices};

funcify!(Candle, ops::Gather, |call, [x, indices]| gather(&call, &x, &indices));

fn gather(call: &Call<'_, ops::Gather>, x: &Tensor, indices: &Tensor) -> Outcome {
    let axis = call.op.axis;
    let size = check_not_empty(call, x, indices, axis)?;
    if indices.elem_count() == 0 {
        return call.backend.zeros(&output_shape(call)?, call.dtype(0));
    }
    Ok(x.contiguous()?.gather(&clamp_indices(call, indices, size)?, axis)?)
}
