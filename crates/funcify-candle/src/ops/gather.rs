//! `gather`: Candle's, with clamped indices.

use candle_core::Tensor;
use funcify_core::error::BackendError;
use funcify_core::ops::Gather;
use funcify_runtime::{KernelCall, funcify};

use super::take::{clamped, not_empty};
use crate::device::{Candle, output_shape};

funcify!(Candle, Gather, |call, [x, indices]| gather(&call, &x, &indices));

fn gather(call: &KernelCall<'_, Candle, Gather>, x: &Tensor, indices: &Tensor) -> Result<Tensor, BackendError> {
    let axis = call.op.axis;
    let size = not_empty(call, x, indices, axis)?;
    if indices.elem_count() == 0 {
        return call.backend.zeros(&output_shape(call)?, call.dtype(0));
    }
    Ok(x.contiguous()?.gather(&clamped(call, indices, size)?, axis)?)
}
