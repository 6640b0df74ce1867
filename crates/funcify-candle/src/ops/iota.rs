//! `iota`: the numbers as i64, converted.

use candle_core::Tensor;
use funcify_core::DType;
use funcify_core::error::BackendError;
use funcify_core::ops::Iota;
use funcify_runtime::{KernelCall, funcify};

use super::cast::cast;
use crate::device::Candle;

funcify!(Candle, Iota, |call, []| iota(&call));

fn iota(call: &KernelCall<'_, Candle, Iota>) -> Result<Tensor, BackendError> {
    let size = call.dim(&call.op.size)?;
    let numbers: Vec<i64> = (0..size as i64).collect();
    cast(call, &Tensor::from_vec(numbers, size, call.backend.device())?, DType::I64, call.op.dtype)
}
