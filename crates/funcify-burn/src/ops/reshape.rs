//! Lowers `reshape` to Burn's own op.

use super::prelude::*;

funcify!(Burn, ops::Reshape, |call, [x]| reshaped(&call, x));

fn reshaped(call: &Call<'_, ops::Reshape>, x: Tensor) -> Outcome {
    let shape = check_output(call)?;
    let x_sizes = sizes(&x);
    if x_sizes.iter().product::<usize>() != shape.iter().product::<usize>() {
        return Err(format!("a tensor of sizes {x_sizes:?} cannot be reshaped to {shape:?}").into());
    }
    if shape.contains(&0) {
        return call.backend.zeros(call.dtype(0), &shape);
    }
    reshape(x, &shape)
}
