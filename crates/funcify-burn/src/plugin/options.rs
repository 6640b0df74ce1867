//! How a graph runs as one op of Burn's autodiff.

use funcify_core::CheckpointPolicy;
use funcify_runtime::CompileOptions;

/// How a [`Differentiable`](super::Differentiable) runs.
#[derive(Clone, Debug, Default)]
pub struct DifferentiableOptions {
    /// How its programs are compiled.
    pub compile: CompileOptions,
    /// What its loops save for their backward loops. If nothing is said, what they need, which is less than Burn's tape keeps: all
    /// of it ([`CheckpointPolicy::SaveAll`]), and where loops are compiled what is costly to compute again
    /// ([`CheckpointPolicy::SaveCostly`]).
    pub policy: Option<CheckpointPolicy>,
}
