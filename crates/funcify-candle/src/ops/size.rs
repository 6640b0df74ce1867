//! Lowers `size`: creates a scalar from a size that is known at run time.

use super::cast::cast;
use super::prelude::*;

funcify!(Candle, ops::Size, |call, []| size(&call));

fn size(call: &Call<'_, ops::Size>) -> Outcome {
    let value = call.dim_value(&call.op.dim)?;
    cast(call, &Tensor::new(value, call.backend.device())?, DType::I64, call.op.dtype)
}
