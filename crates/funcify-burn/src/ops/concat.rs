//! Lowers `concat` to Burn's own op, applied to the non-empty operands.

use super::prelude::*;

funcify!(Burn, ops::Concat, |call, parts| concat(&call, parts));

fn concat(call: &Call<'_, ops::Concat>, parts: Tensors<Tensor>) -> Outcome {
    let parts: Vec<Tensor> = parts.into_iter().filter(|part| !sizes(part).contains(&0)).collect();
    match parts.is_empty() {
        true => call.backend.zeros(call.dtype(0), &call.output_shape(0)?),
        false => Ok(join(parts, call.op.axis)),
    }
}
