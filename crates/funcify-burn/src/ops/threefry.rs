//! Lowers `threefry`. If the tensors are in host memory, the kernel calls the generator of `funcify-core`; on a device
//! with its own memory, it calls [`on_device`].

use super::prelude::*;
use crate::data::{elements, from_elements};

funcify!(Burn, ops::Threefry, |call, [key, counter]| threefry(&call, key, counter));

fn threefry(call: &Call<'_, ops::Threefry>, key: Tensor, counter: Tensor) -> Outcome {
    let shape = check_output(call)?;
    let size: usize = call.shape(&call.op.shape)?.iter().product();
    if shape.contains(&0) {
        return call.backend.zeros(DType::U32, &shape);
    }
    if !call.backend.in_host_memory() && u32::try_from(size).is_ok() {
        return reshape(on_device::threefry(call.backend, key, counter, size, call.op.words)?, &shape);
    }
    let bits = ops::threefry_bits(&elements::<u32>(key)?, &elements::<u32>(counter)?, size, call.op.words);
    Ok(from_elements(call.backend, bits, &shape))
}
