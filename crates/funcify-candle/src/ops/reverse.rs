//! `reverse`: Candle's `index_select` of the indices in descending order.

use candle_core::{Result, Tensor};
use funcify_core::ops::Reverse;
use funcify_runtime::funcify;

use super::slice::pick;
use crate::device::Candle;

funcify!(Candle, Reverse, |call, [x]| reverse(x, call.op.axis));

fn reverse(x: Tensor, axis: usize) -> Result<Tensor> {
    let size = x.dim(axis)?;
    if size <= 1 { Ok(x) } else { pick(&x, axis, (0..size as i64).rev().collect()) }
}
