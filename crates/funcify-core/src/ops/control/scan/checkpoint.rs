//! What loops keep for their backward loops.

use std::fmt;

/// What a loop of a forward pass keeps for its backward loop. What is not kept is computed again, so no value changes with
/// it; only sums over steps are added up in another order where there are segments.
///
/// [`GradOptions::policy`](crate::GradOptions::policy) is for every loop that says nothing itself;
/// [`ScanOptions::policy`](crate::ScanOptions::policy) and [`Recurrence::policy`](crate::Recurrence::policy)
/// say it for one loop, in derivatives of every order.
///
/// A *state* is what a step reads of the steps before: the carries, and rows of buffers. A trace that is a result, or
/// the operand of another op, is there anyway and is not kept twice. The loops in a body follow the same rules, each by
/// itself, when the backward loop runs the step again; their results are never kept for all steps.
///
/// A `cond` or `switch` keeps of the branch that ran what [`SaveDots`](CheckpointPolicy::SaveDots) and
/// [`SaveAll`](CheckpointPolicy::SaveAll) say; `SaveCostly` is `SaveAll` there. The other policies run the branch again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum CheckpointPolicy {
    /// The state before each step, from which the step is computed again.
    #[default]
    Recompute,
    /// The states, and the results of products of matrices and of convolutions.
    SaveDots,
    /// The states, before and after each step, and of what the backward loop reads that which products of matrices over 32 terms
    /// or more, or convolutions, lead to. What follows from the states element by element is computed again: that is less work
    /// than to write it to memory and read it back where loops are compiled, where
    /// the plug-ins ask for it.
    SaveCostly,
    /// The states, and all that the backward loop reads. The least work.
    SaveAll,
    /// The state before each segment of so many steps (0 counts as 1). In the backward pass a segment runs again, and keeps
    /// the states of its steps while it is gone back over: of `n` steps about `n / k + k` states are there at a time, the
    /// fewest for the root of `n`. The steps that are left over, fewer than `k`, are kept as of
    /// [`Recompute`](CheckpointPolicy::Recompute).
    ///
    /// The number of steps may be a symbol, or a value of the program. A loop is differentiated as of `Recompute` if it
    /// ends early (`until`), is [truncated](crate::ScanOptions::truncate), or if its types do not show that its
    /// sequences and full buffers have the rows of all steps.
    Segments(usize),
    /// Segments of segments, the longest first: `[256, 32]` keeps the state before each 256 steps; in the backward pass
    /// 256 steps run again, which keep a state each 32 steps. Each level is one more run of the steps. Of `n` steps, `l`
    /// levels can do with `(l + 1)` times the root of order `l + 1` of `n` states, and halves of halves with the
    /// logarithm.
    Levels(Vec<usize>),
    /// The least work of which no more than so many bytes are kept of a loop: `SaveAll`, `SaveDots`, `Recompute`, or up to
    /// four levels of segments; the least memory if that does not do.
    ///
    /// The bytes are counted from the types: all states and values that the policy may keep are counted, also those that
    /// the backward loop turns out not to read. A size that is a symbol counts as 1024.
    Budget(usize),
}

impl CheckpointPolicy {
    /// The numbers of steps of segments, and of the segments in them.
    pub(crate) fn levels(&self) -> &[usize] {
        match self {
            CheckpointPolicy::Segments(steps) => std::slice::from_ref(steps),
            CheckpointPolicy::Levels(levels) => levels,
            _ => &[],
        }
    }

    /// Segments of so many steps, and segments in them.
    pub(crate) fn of_levels(levels: &[usize]) -> CheckpointPolicy {
        match levels {
            [] => CheckpointPolicy::Recompute,
            [steps] => CheckpointPolicy::Segments(*steps),
            _ => CheckpointPolicy::Levels(levels.to_vec()),
        }
    }
}

/// `recompute`, `save_dots`, `save_costly`, `save_all`, `segments[256,32]`, `budget[65536]`.
impl fmt::Display for CheckpointPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckpointPolicy::Recompute => f.write_str("recompute"),
            CheckpointPolicy::SaveDots => f.write_str("save_dots"),
            CheckpointPolicy::SaveCostly => f.write_str("save_costly"),
            CheckpointPolicy::SaveAll => f.write_str("save_all"),
            CheckpointPolicy::Segments(_) | CheckpointPolicy::Levels(_) => {
                let steps: Vec<String> = self.levels().iter().map(ToString::to_string).collect();
                write!(f, "segments[{}]", steps.join(","))
            }
            CheckpointPolicy::Budget(bytes) => write!(f, "budget[{bytes}]"),
        }
    }
}
