//! Lowers `matmul` to Burn's own op, batched over the leading axes. If the contracted axis is empty, the result is
//! filled with zeros. On the CPU devices, integer products are computed by `funcify-core`, because Burn's flex device
//! supports only two integer types and its ndarray device panics on overflow.

use super::prelude::*;
use crate::data::{elements, from_elements};

funcify!(Burn, ops::MatMul, |call, [left, right]| matmul(&call, left, right));

fn matmul(call: &Call<'_, ops::MatMul>, left: Tensor, right: Tensor) -> Outcome {
    let (left_sizes, right_sizes) = (sizes(&left), sizes(&right));
    if left_sizes.contains(&0) || right_sizes.contains(&0) {
        return call.backend.zeros(call.dtype(0), &call.output_shape(0)?);
    }
    if left_sizes.len() < 2 || left_sizes.len() != right_sizes.len() {
        return Err(format!("matrices of sizes {left_sizes:?} and {right_sizes:?} have no product").into());
    }
    let rank = left_sizes.len();
    let (burn, matrices) = (call.backend, [left_sizes[rank - 2], left_sizes[rank - 1], right_sizes[rank - 1]]);
    match kind(&left) {
        Kind::Float => Ok(Dispatch::float_matmul(left, right)),
        _ if !burn.in_host_memory() => Ok(Dispatch::int_matmul(left, right)),
        _ => by_integer!(left, Integer => {
            let (left, right) = (elements::<Integer>(left)?, elements::<Integer>(right)?);
            Ok(from_elements(burn, ops::integer_products(&left, &right, matrices), &call.output_shape(0)?))
        }),
    }
}
