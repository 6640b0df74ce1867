//! `threefry`: the core's generator, in host memory.

use candle_core::Tensor;
use funcify_core::error::BackendError;
use funcify_core::ops::{Threefry, threefry_bits};
use funcify_runtime::{KernelCall, funcify};

use crate::device::{Candle, elements, output_shape};

funcify!(Candle, Threefry, |call, [key, counter]| threefry(&call, &key, &counter));

fn threefry(call: &KernelCall<'_, Candle, Threefry>, key: &Tensor, counter: &Tensor) -> Result<Tensor, BackendError> {
    let shape = output_shape(call)?;
    let size = call.shape(&call.op.shape)?.iter().product();
    let bits = threefry_bits(&elements(key)?, &elements(counter)?, size, call.op.words);
    Ok(Tensor::from_vec(bits, shape, call.backend.device())?)
}
