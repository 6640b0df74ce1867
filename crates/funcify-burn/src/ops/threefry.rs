//! `threefry`: the core's generator, in host memory.

use funcify::dispatch::Call;
use funcify::{funcify, ops};

use super::{Outcome, check_output};
use crate::data::{elements, from_elements};
use crate::device::Burn;
use crate::kinds::Tensor;

funcify!(Burn, ops::Threefry, |call, [key, counter]| threefry(&call, key, counter));

fn threefry(call: &Call<'_, Burn, ops::Threefry>, key: Tensor, counter: Tensor) -> Outcome {
    let shape = check_output(call)?;
    let size = call.shape(&call.op.shape)?.iter().product();
    let bits = ops::threefry_bits(&elements::<u32>(key)?, &elements::<u32>(counter)?, size, call.op.words);
    Ok(from_elements(call.backend, bits, &shape))
}
