//! Lowers `reverse` to Candle's `index_select` with the indices in descending order.

use candle_core::Result;

use super::prelude::*;
use super::slice::select_indices;

funcify!(Candle, ops::Reverse, |call, [x]| reverse(x, call.op.axis));

fn reverse(x: Tensor, axis: usize) -> Result<Tensor> {
    let size = x.dim(axis)?;
    if size <= 1 { Ok(x) } else { select_indices(&x, axis, (0..size as i64).rev().collect()) }
}
