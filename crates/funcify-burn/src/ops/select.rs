//! `select`: Burn's masked replacement, which names the branches the other way round.

use funcify_core::ops;
use funcify_runtime::funcify;

use super::Outcome;
use crate::device::Burn;
use crate::kinds::{Tensor, mask_where};

funcify!(Burn, ops::Select, |_call, [predicate, left, right]| select(predicate, left, right));

fn select(predicate: Tensor, left: Tensor, right: Tensor) -> Outcome {
    Ok(mask_where(right, predicate, left))
}
