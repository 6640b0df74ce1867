//! Defines `map`, which applies a closure to each row of sequences.

use super::scan::{ScanOptions, run};
use super::*;

/// Applies `body` to each row of `xs` along axis 0, and stacks the results along axis 0. This is a
/// [`scan`](crate::scan) without a carry. The backward pass reruns one row at a time, so only the graph of that row is
/// in memory. As with `scan`, a closure that draws random numbers or has side effects needs
/// [`ScanOptions::keep_graphs`].
///
/// ```
/// use candle_core::{Device, Result, Tensor, Var};
///
/// # fn main() -> Result<()> {
/// let xs = Var::new(&[[3f32, 4.0], [6.0, 8.0]], &Device::Cpu)?;
/// let norms = funcify_candle::map(xs.as_tensor(), |x| x.sqr()?.sum_all()?.sqrt())?;
/// assert_eq!(norms.to_vec1::<f32>()?, [5.0, 10.0]);
/// let gradients = norms.sum_all()?.backward()?;
/// assert_eq!(gradients.get(&xs).unwrap().to_vec2::<f32>()?, [[0.6, 0.8], [0.6, 0.8]]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn map<X: TensorTree, Y: TensorTree>(xs: &X, body: impl Fn(X) -> Result<Y> + Send + Sync + 'static) -> Result<Y> {
    map_at(place("map"), ScanOptions::new(), xs, body)
}

/// Works like [`map`], but with options, such as the axis of the rows and results, and the number of segments in the
/// backward pass.
///
/// ```
/// use candle_core::{Device, Result, Tensor};
/// use funcify_candle::{ScanOptions, map_with};
///
/// # fn main() -> candle_core::Result<()> {
/// let xs = Tensor::new(&[[3f32, 6.0], [4.0, 8.0]], &Device::Cpu)?;
/// let normalize = |column: Tensor| column.broadcast_div(&column.sqr()?.sum_all()?.sqrt()?);
/// let columns = map_with(ScanOptions::new().axis(1), &xs, normalize)?;
/// assert_eq!(columns.to_vec2::<f32>()?, [[0.6, 0.6], [0.8, 0.8]]);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn map_with<X: TensorTree, Y: TensorTree>(
    options: ScanOptions,
    xs: &X,
    body: impl Fn(X) -> Result<Y> + Send + Sync + 'static,
) -> Result<Y> {
    map_at(place("map"), options, xs, body)
}

fn map_at<X: TensorTree, Y: TensorTree>(
    at: funcify_core::error::Place,
    options: ScanOptions,
    xs: &X,
    body: impl Fn(X) -> Result<Y> + Send + Sync + 'static,
) -> Result<Y> {
    // Each step can be a separate segment, because there is no carry to save between segments.
    let options = options.segments_unless_given(usize::MAX);
    Ok(run(at, &options, &(), xs, &(), move |(), x, ()| Ok(((), body(x)?)))?.1)
}
