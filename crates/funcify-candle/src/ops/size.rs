//! Lowers `size`: evaluates the op's dimension with the sizes of the call, and returns its value as a scalar tensor.

use super::cast::cast;
use super::prelude::*;

funcify!(Candle, ops::Size, |call, []| size(&call));

fn size(call: &Call<'_, ops::Size>) -> Outcome {
    let value = call.dim_value(&call.op.dim)?;
    cast(call, &Tensor::new(value, call.backend.device())?, DType::I64, call.op.dtype)
}
