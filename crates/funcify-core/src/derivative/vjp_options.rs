//! The options that select reverse rules.

use crate::ops::scan::CheckpointPolicy;

/// The part of [`GradOptions`](crate::GradOptions) that selects reverse rules. Derivatives of bodies use the same
/// options.
#[derive(Clone, Debug, Default)]
pub(crate) struct VjpOptions {
    /// The checkpoint policy of loops that do not specify their own.
    pub(crate) policy: CheckpointPolicy,
    /// `true` if associative scans are differentiated step by step and recomputation is considered cheap. Both choices
    /// are faster if loops are compiled.
    pub(crate) stepwise: bool,
}
