//! `transpose`: a view.

use candle_core::{Result, Tensor};
use funcify_core::ops::Transpose;
use funcify_runtime::funcify;

use crate::device::Candle;

funcify!(Candle, Transpose, |call, [x]| transpose(x, &call.op.axes));

fn transpose(x: Tensor, axes: &[usize]) -> Result<Tensor> {
    if axes.len() < 2 { Ok(x) } else { x.permute(axes) }
}
