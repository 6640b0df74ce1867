//! Which reverse rule is taken where there is a choice.

use crate::ops::scan::CheckpointPolicy;

/// What [`GradOptions`](crate::GradOptions) says of reverse rules; a derivative hands it to all that are in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    /// What loops keep for their backward loops, if they say nothing themselves.
    pub(crate) policy: CheckpointPolicy,
    /// Whether associative scans are gone back over step by step, and what is computed again costs little: where loops are compiled.
    pub(crate) stepwise: bool,
}
