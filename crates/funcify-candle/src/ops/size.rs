//! `size`: a scalar from the sizes of the call.

use candle_core::Tensor;
use funcify::dispatch::KernelCall;
use funcify::error::BackendError;
use funcify::ops::Size;
use funcify::{DType, funcify};

use super::cast::cast;
use crate::device::Candle;

funcify!(Candle, Size, |call, []| size(&call));

fn size(call: &KernelCall<'_, Candle, Size>) -> Result<Tensor, BackendError> {
    let value = call.dim_value(&call.op.dim)?;
    cast(call, &Tensor::new(value, call.backend.device())?, DType::I64, call.op.dtype)
}
