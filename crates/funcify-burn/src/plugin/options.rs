//! Options for running a graph as one op of Burn's autodiff.

use funcify_core::CheckpointPolicy;
use funcify_runtime::CompileOptions;

/// Options of a [`Differentiable`](super::Differentiable).
#[derive(Clone, Debug, Default)]
pub struct DifferentiableOptions {
    /// The options for compiling the function's programs.
    pub compile: CompileOptions,
    /// Selects the residuals that the loops save for their backward loops. By default, loops save everything they need
    /// ([`CheckpointPolicy::SaveAll`]), which is less than Burn's tape keeps; compiled loops save the values that are
    /// costly to recompute ([`CheckpointPolicy::SaveCostly`]).
    pub policy: Option<CheckpointPolicy>,
}
