//! What came of checking a plan, and how often.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What came of checking a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It computes what the graph means, up to the order of sums.
    Proved,
    /// The same, where rounding to narrower floats is left out.
    ProvedUpToRounding,
    /// It gave the right results where it ran.
    Validated,
    /// Nothing is known, and why.
    Unknown(String),
    /// It computes something else: a fault of the planner.
    Failed(String),
}

/// A plan that does not compute what its graph means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault(pub(crate) String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How many plans of this process were checked, and what came of it.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProofCounts {
    /// Plans that compute what their graphs mean.
    pub proved: u64,
    /// Plans that do, but for rounding to narrower floats.
    pub up_to_rounding: u64,
    /// Plans that gave the right results where they ran.
    pub validated: u64,
    /// Plans of which nothing is known.
    pub neither: u64,
    /// Plans that were found wrong.
    pub failed: u64,
}

static COUNTS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// Why nothing is known of some plans, and of how many.
static REASONS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

impl Verdict {
    /// Counts it.
    pub(super) fn count(&self) {
        let index = match self {
            Verdict::Proved => 0,
            Verdict::ProvedUpToRounding => 1,
            Verdict::Validated => 2,
            Verdict::Unknown(_) => 3,
            Verdict::Failed(_) => 4,
        };
        COUNTS[index].fetch_add(1, Ordering::Relaxed);
        if let Verdict::Unknown(reason) = self {
            *REASONS.lock().unwrap_or_else(PoisonError::into_inner).entry(reason.clone()).or_default() += 1;
        }
    }
}

/// Why nothing is known of some plans of this process, and of how many.
#[doc(hidden)]
pub fn proof_gaps() -> Vec<(String, u64)> {
    REASONS.lock().unwrap_or_else(PoisonError::into_inner).clone().into_iter().collect()
}

/// What came of all plans of this process so far.
pub(crate) fn counts() -> ProofCounts {
    let [proved, up_to_rounding, validated, neither, failed] =
        [0, 1, 2, 3, 4].map(|index: usize| COUNTS[index].load(Ordering::Relaxed));
    ProofCounts { proved, up_to_rounding, validated, neither, failed }
}
