//! Lowers `softplus` to a combination of Candle's kernels.

use candle_core::Tensor;
use funcify::funcify;
use funcify_candle::Candle;

use super::Softplus;

funcify!(Candle, Softplus, |call, [x]| softplus(&x, call.op.beta as f64));

fn softplus(x: &Tensor, beta: f64) -> candle_core::Result<Tensor> {
    let smooth = x.abs()?.affine(-beta, 0.0)?.exp()?.affine(1.0, 1.0)?.log()?.affine(1.0 / beta, 0.0)?;
    x.relu()?.add(&smooth)
}
