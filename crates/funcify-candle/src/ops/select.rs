//! `select`: Candle's `where_cond`, which reads views as they are.

use candle_core::{Result, Tensor};
use funcify_core::ops::Select;
use funcify_runtime::funcify;

use crate::device::Candle;

funcify!(Candle, Select, |_, [predicate, left, right]| select(predicate, left, right));

fn select(predicate: Tensor, left: Tensor, right: Tensor) -> Result<Tensor> {
    if left.elem_count() == 0 { Ok(left) } else { predicate.where_cond(&left, &right) }
}
