//! `broadcast`: a view, which repeats elements by strides of zero.

use candle_core::Tensor;
use funcify_core::error::BackendError;
use funcify_core::ops::Broadcast;
use funcify_runtime::{KernelCall, funcify};

use crate::device::{Candle, output_shape};

funcify!(Candle, Broadcast, |call, [x]| broadcast(&call, x));

fn broadcast(call: &KernelCall<'_, Candle, Broadcast>, x: Tensor) -> Result<Tensor, BackendError> {
    let shape = output_shape(call)?;
    if shape == x.dims() {
        return Ok(x);
    }
    if shape.contains(&0) {
        return call.backend.zeros(&shape, call.dtype(0));
    }
    Ok(x.broadcast_as(shape)?)
}
