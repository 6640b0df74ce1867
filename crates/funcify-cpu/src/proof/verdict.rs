//! Results of checking plans, and their statistics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The result of checking a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The plan computes the same values as the graph, except that sums may be reassociated.
    Proved,
    /// The plan computes the same values as the graph if rounding to narrower floats is ignored.
    ProvedUpToRounding,
    /// The plan has no proof, but returned the right results in test runs.
    Validated,
    /// The plan could not be checked, for the given reason.
    Unknown(String),
    /// The plan computes different values, which is a bug in the planner.
    Failed(String),
}

/// A description of how the results of a plan differ from those of its graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault(pub(crate) String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The numbers of plans checked in this process, by result.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProofCounts {
    /// The number of plans that were proved to compute the same values as their graphs.
    pub proved: u64,
    /// The number of plans whose proofs ignore rounding to narrower floats.
    pub up_to_rounding: u64,
    /// The number of plans that have no proof, but returned the right results in test runs.
    pub validated: u64,
    /// The number of validated plans in which a kernel or the reference evaluator computes some ops as a whole, which
    /// rules out a proof.
    pub with_evaluated_ops: u64,
    /// The number of plans that could not be checked.
    pub unchecked: u64,
    /// The number of plans whose results differ from those of their graphs.
    pub failed: u64,
}

static COUNTS: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

/// The reasons why plans could not be checked, each with the number of plans to which it applies.
static REASONS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

impl Verdict {
    /// Adds this result to the statistics. `is_evaluated` is `true` if a kernel or the reference evaluator computes
    /// some of the plan's ops as a whole.
    pub(super) fn count(&self, is_evaluated: bool) {
        let index = match self {
            Verdict::Proved => 0,
            Verdict::ProvedUpToRounding => 1,
            Verdict::Validated => 2,
            Verdict::Unknown(_) => 3,
            Verdict::Failed(_) => 4,
        };
        COUNTS[index].fetch_add(1, Ordering::Relaxed);
        if *self == Verdict::Validated && is_evaluated {
            COUNTS[5].fetch_add(1, Ordering::Relaxed);
        }
        if let Verdict::Unknown(reason) = self {
            *REASONS.lock().unwrap_or_else(PoisonError::into_inner).entry(reason.clone()).or_default() += 1;
        }
    }
}

/// Returns the reasons why plans of this process could not be checked, each with the number of plans to which it
/// applies.
#[doc(hidden)]
pub fn proof_gaps() -> Vec<(String, u64)> {
    REASONS.lock().unwrap_or_else(PoisonError::into_inner).clone().into_iter().collect()
}

/// Returns the numbers of plans checked so far in this process, by result.
pub(crate) fn counts() -> ProofCounts {
    let [proved, up_to_rounding, validated, unchecked, failed, with_evaluated_ops] =
        [0, 1, 2, 3, 4, 5].map(|index: usize| COUNTS[index].load(Ordering::Relaxed));
    ProofCounts { proved, up_to_rounding, validated, with_evaluated_ops, unchecked, failed }
}
