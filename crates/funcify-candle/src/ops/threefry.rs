//! Lowers `threefry` to the generator of `funcify-core`, which runs on the host.

use super::prelude::*;
use crate::device::elements;

funcify!(Candle, ops::Threefry, |call, [key, counter]| threefry(&call, &key, &counter));

fn threefry(call: &Call<'_, ops::Threefry>, key: &Tensor, counter: &Tensor) -> Outcome {
    let shape = output_shape(call)?;
    let size = call.shape(&call.op.shape)?.iter().product();
    let bits = ops::threefry_bits(&elements(key)?, &elements(counter)?, size, call.op.words);
    Ok(Tensor::from_vec(bits, shape, call.backend.device())?)
}
