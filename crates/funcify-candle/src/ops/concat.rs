//! Lowers `concat` to Candle's `cat`, applied to the non-empty operands.

use super::prelude::*;

funcify!(Candle, ops::Concat, |call, parts| concat(&call, parts));

fn concat(call: &Call<'_, ops::Concat>, parts: Tensors<Tensor>) -> Outcome {
    match join(&parts, call.op.axis)? {
        Some(joined) => Ok(joined),
        None => call.backend.zeros(&output_shape(call)?, call.dtype(0)),
    }
}

/// Concatenates the non-empty tensors along an axis. Returns `None` if all tensors are empty.
pub(super) fn join(parts: &[Tensor], axis: usize) -> candle_core::Result<Option<Tensor>> {
    let parts: Vec<&Tensor> = parts.iter().filter(|part| part.elem_count() > 0).collect();
    if parts.is_empty() { Ok(None) } else { Tensor::cat(&parts, axis).map(Some) }
}
