//! Lowers `iota`: creates the indices as i64, and converts them to the op's dtype.

use super::cast::cast;
use super::prelude::*;

funcify!(Candle, ops::Iota, |call, []| iota(&call));

fn iota(call: &Call<'_, ops::Iota>) -> Outcome {
    let size = call.dim(&call.op.size)?;
    let numbers: Vec<i64> = (0..size as i64).collect();
    cast(call, &Tensor::from_vec(numbers, size, call.backend.device())?, DType::I64, call.op.dtype)
}
