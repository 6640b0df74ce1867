//! Defines the options for running a graph as one op of Burn's autodiff.

use funcify_core::CheckpointPolicy;
use funcify_runtime::CompileOptions;

/// The options of a [`Differentiable`](super::Differentiable).
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Tensor};
/// use funcify::{CheckpointPolicy, Graph, scan};
/// use funcify_burn::{Differentiable, DifferentiableOptions};
///
/// let product = Graph::build("product", |g| {
///     let (xs, start) = (g.input("xs", "f32[T,1]"), g.input("start", "f32[1]"));
///     scan(start, xs, |product, x| (product * x, ())).0
/// })?;
/// let options = DifferentiableOptions { policy: Some(CheckpointPolicy::Recompute), ..Default::default() };
/// let product = Differentiable::with_options(&product, options);
/// let xs = Tensor::<2>::from_data([[3.0], [4.0]], &Device::flex());
/// let result: Tensor<1> = product.call((xs, Tensor::<1>::ones([1], &Device::flex())))?;
/// assert_eq!(result.into_scalar::<f32>(), 12.0);
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DifferentiableOptions {
    /// The options for compiling the graph's programs.
    pub compile: CompileOptions,
    /// The policy that selects which residuals loops save for their backward loops. By default, compiled loops save the
    /// values that are costly to recompute ([`CheckpointPolicy::SaveCostly`]). All other loops save every value that
    /// their backward loop needs ([`CheckpointPolicy::SaveAll`]), which is still less than Burn's tape keeps.
    pub policy: Option<CheckpointPolicy>,
}
