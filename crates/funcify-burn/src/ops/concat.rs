//! `concat`: Burn's, of the parts that are not empty.

use funcify_core::ops;
use funcify_runtime::{KernelCall, Tensors, funcify};

use super::Outcome;
use crate::device::Burn;
use crate::kinds::{Tensor, join, sizes};

funcify!(Burn, ops::Concat, |call, parts| concat(&call, parts));

fn concat(call: &KernelCall<'_, Burn, ops::Concat>, parts: Tensors<Tensor>) -> Outcome {
    let parts: Vec<Tensor> = parts.into_iter().filter(|part| !sizes(part).contains(&0)).collect();
    match parts.is_empty() {
        true => call.backend.zeros(call.dtype(0), &call.output_shape(0)?),
        false => Ok(join(parts, call.op.axis)),
    }
}
