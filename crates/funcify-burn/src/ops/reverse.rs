//! `reverse`: Burn's flip.

use burn::backend::Dispatch;
use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use funcify_core::ops;
use funcify_runtime::funcify;

use super::Outcome;
use crate::device::Burn;
use crate::kinds::{Tensor, sizes};

funcify!(Burn, ops::Reverse, |call, [x]| reverse(x, call.op.axis));

fn reverse(x: Tensor, axis: usize) -> Outcome {
    if sizes(&x).contains(&0) {
        return Ok(x);
    }
    Ok(by_kind!(x, float_flip | int_flip | bool_flip, (x, &[axis])))
}
