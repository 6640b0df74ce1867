//! `size`: a scalar from the sizes of the call.

use candle_core::Tensor;
use funcify_core::DType;
use funcify_core::error::BackendError;
use funcify_core::ops::Size;
use funcify_runtime::{KernelCall, funcify};

use super::cast::cast;
use crate::device::Candle;

funcify!(Candle, Size, |call, []| size(&call));

fn size(call: &KernelCall<'_, Candle, Size>) -> Result<Tensor, BackendError> {
    let value = call.dim_value(&call.op.dim)?;
    cast(call, &Tensor::new(value, call.backend.device())?, DType::I64, call.op.dtype)
}
