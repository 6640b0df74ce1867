//! Checkpoint policies, which determine the residuals that loops keep for their backward loops.

use std::fmt;

/// Determines the residuals that a loop of a forward pass keeps for its backward loop. Everything else is recomputed,
/// so the policy does not change values. The only exception is segments, which add sums over steps in a different
/// order.
///
/// [`GradOptions::policy`](crate::GradOptions::policy) applies to every loop without a policy of its own;
/// [`ScanOptions::policy`](crate::ScanOptions::policy) and [`Recurrence::policy`](crate::Recurrence::policy)
/// set it for one loop, in derivatives of every order.
///
/// A *state* is a value that a step reads from earlier steps: the carries, and rows of buffers. A trace that is a
/// result, or the operand of another op, exists anyway and is not stored a second time. Loops inside a body follow the
/// same rules, each on its own, when the backward loop runs the step again. Their results are never kept for all steps.
///
/// A `cond` or `switch` keeps the values of the executed branch that [`SaveDots`](CheckpointPolicy::SaveDots) and
/// [`SaveAll`](CheckpointPolicy::SaveAll) select; `SaveCostly` acts like `SaveAll` there. The other policies run the
/// branch again.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{CheckpointPolicy, GradOptions, Graph, HostTensor, evaluate, scan};
///
/// let product = Graph::build("product", |g| {
///     scan(g.input("x", "f64[]"), g.input("xs", "f64[T]"), |product, x| (product * x, ())).0
/// })?;
/// let options = GradOptions::new().policy(CheckpointPolicy::Segments(2));
/// let gradient = product.grad("xs", options)?;
/// let inputs = [HostTensor::scalar(1f64), HostTensor::from([2f64, 3.0, 5.0])];
/// assert_eq!(evaluate(&gradient, &inputs)?, [[15f64, 10.0, 6.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum CheckpointPolicy {
    /// Keeps the state before each step, from which the step is recomputed.
    #[default]
    Recompute,
    /// Keeps the states, and the results of matrix products and convolutions.
    SaveDots,
    /// Keeps the states before and after each step. Also keeps those values read by the backward loop that depend on
    /// convolutions, or on matrix products with 32 terms or more. Values that follow from the states elementwise are
    /// recomputed: in compiled loops, that is cheaper than writing them to memory and reading them back. The plug-ins
    /// that compile loops request this policy.
    SaveCostly,
    /// Keeps the states, and everything that the backward loop reads. This policy needs the least work.
    SaveAll,
    /// Keeps the state before each segment of this many steps (0 counts as 1). The backward pass goes through the
    /// segments in reverse. For each one, it runs the steps again and keeps their states. Of `n` steps, about `n / k
    /// + k` states exist at a time for segments of `k` steps, which is least if `k` is the square root of `n`. The
    /// remaining steps, fewer than `k`, are kept as in [`Recompute`](CheckpointPolicy::Recompute).
    ///
    /// The number of steps may be a symbol, or a value of the program. `Recompute` is used instead for a loop that
    /// ends early (`until`), that is [truncated](crate::ScanOptions::truncate), or whose types do not show that its
    /// sequences and full buffers have the rows of all steps.
    Segments(usize),
    /// Keeps segments of segments, the longest first. For example, `[256, 32]` keeps the state before every 256
    /// steps; the backward pass runs 256 steps again and keeps a state every 32 steps. Each level costs one more run
    /// of the steps. With `l` levels, the states kept for `n` steps can be as few as `(l + 1)` times the `(l + 1)`-th
    /// root of `n`. With repeated halving, their number is logarithmic in `n`.
    Levels(Vec<usize>),
    /// Chooses the policy with the least work that keeps at most this many bytes for a loop: `SaveAll`, `SaveDots`,
    /// `Recompute`, or up to four levels of segments. If none fits, chooses the policy with the least memory.
    ///
    /// The bytes are computed from the types. The count includes all states and values that the policy may keep, even
    /// those that the backward loop turns out not to read. A size that is a symbol counts as 1024.
    Budget(usize),
}

impl CheckpointPolicy {
    /// Returns the lengths of the segments, in steps, from the outermost level to the innermost.
    pub(crate) fn levels(&self) -> &[usize] {
        match self {
            CheckpointPolicy::Segments(steps) => std::slice::from_ref(steps),
            CheckpointPolicy::Levels(levels) => levels,
            _ => &[],
        }
    }

    /// Returns the policy with segments of these lengths, from the outermost level to the innermost.
    pub(crate) fn of_levels(levels: &[usize]) -> CheckpointPolicy {
        match levels {
            [] => CheckpointPolicy::Recompute,
            [steps] => CheckpointPolicy::Segments(*steps),
            _ => CheckpointPolicy::Levels(levels.to_vec()),
        }
    }
}

/// Formats the policy as `recompute`, `save_dots`, `save_costly`, `save_all`, `segments[256,32]` or `budget[65536]`.
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
