//! `matmul`: Burn's, batched over the leading axes. Products over nothing are zeros.

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use funcify::dispatch::Call;
use funcify::{funcify, ops};

use super::Outcome;
use crate::device::Burn;
use crate::kinds::{Tensor, sizes};

funcify!(Burn, ops::MatMul, |call, [left, right]| matmul(&call, left, right));

fn matmul(call: &Call<'_, Burn, ops::MatMul>, left: Tensor, right: Tensor) -> Outcome {
    let (left_sizes, right_sizes) = (sizes(&left), sizes(&right));
    if left_sizes.contains(&0) || right_sizes.contains(&0) {
        return call.backend.zeros(call.dtype(0), &call.output_shape(0)?);
    }
    if left_sizes.len() < 2 || left_sizes.len() != right_sizes.len() {
        return Err(format!("matrices of sizes {left_sizes:?} and {right_sizes:?} have no product").into());
    }
    Ok(Dispatch::float_matmul(left, right))
}
