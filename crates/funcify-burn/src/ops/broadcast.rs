//! Lowers `broadcast`: inserts leading axes of size 1, and then expands the operand with Burn's own op.

use super::prelude::*;

funcify!(Burn, ops::Broadcast, |call, [x]| broadcast(&call, x));

fn broadcast(call: &Call<'_, ops::Broadcast>, x: Tensor) -> Outcome {
    let shape = check_output(call)?;
    let x_sizes = sizes(&x);
    let added = shape.len().saturating_sub(x_sizes.len());
    let aligned = [vec![1; added], x_sizes].concat();
    if shape.contains(&0) {
        return call.backend.zeros(call.dtype(0), &shape);
    }
    if aligned.iter().zip(&shape).any(|(from, to)| from != to && *from != 1) {
        return Err(format!("a tensor of sizes {aligned:?} does not broadcast to {shape:?}").into());
    }
    Ok(expand(reshape(x, &aligned)?, &shape))
}
