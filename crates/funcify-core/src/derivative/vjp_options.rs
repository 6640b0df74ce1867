//! The options that reverse-mode rules read.

use crate::ops::scan::CheckpointPolicy;

/// The part of [`GradOptions`](crate::GradOptions) that reverse-mode rules read. Derivatives of bodies use the same
/// options.
#[derive(Clone, Debug, Default)]
pub(crate) struct VjpOptions {
    /// The checkpoint policy of loops that do not specify their own.
    pub(crate) policy: CheckpointPolicy,
    /// `true` to differentiate associative scans step by step, and to recompute cheap values of switch branches instead
    /// of saving them. The derivative is faster this way if loops are compiled.
    pub(crate) stepwise: bool,
}
