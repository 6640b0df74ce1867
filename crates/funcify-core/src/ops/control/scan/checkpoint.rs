//! Checkpoint policies, which select the residuals that loops save for the backward pass.

use std::fmt;

/// A policy that selects the residuals that a loop saves for the backward pass.
///
/// The backward pass recomputes everything else, so a policy does not change values. The only exceptions are policies
/// with segments, which change the order of summation over the steps.
///
/// [`GradOptions::policy`](crate::GradOptions::policy) sets the policy of all loops that have no policy of their own.
/// [`ScanOptions::policy`](crate::ScanOptions::policy) and [`Recurrence::policy`](crate::Recurrence::policy) set the
/// policy of one loop, for derivatives of every order.
///
/// A *state* is a value that a step reads from earlier steps: a carry, or a row of a buffer. A trace that is a result
/// of the loop, or that another op reads, exists anyway and is not stored a second time. Inner loops save their own
/// residuals, by the same rules, when the backward pass runs the outer step again. Results of inner loops are never
/// saved for all outer steps.
///
/// [`SaveDots`](CheckpointPolicy::SaveDots) and [`SaveAll`](CheckpointPolicy::SaveAll) also save values of the executed
/// branch of a `cond` or `switch`, by the same criteria as in a loop's body. For these branches, `SaveCostly` acts like
/// `SaveAll` unless the gradient is computed [step by step](crate::GradOptions::stepwise). With the other policies, the
/// backward pass recomputes the branch from its captured values.
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
    /// Saves the state before each step. The backward pass recomputes the step from this state.
    #[default]
    Recompute,
    /// Saves the states, and the results of matrix products and convolutions.
    SaveDots,
    /// Saves the states before and after each step, and values that are expensive to recompute. A value that the
    /// backward pass reads counts as expensive if it depends on a convolution, or on a matrix product whose number of
    /// terms per element is symbolic or at least 32. Other values are recomputed, because in compiled loops recomputing
    /// them is cheaper than writing them to memory and reading them back. The plug-ins that compile loops request this
    /// policy.
    SaveCostly,
    /// Saves the states, and all values that the backward pass reads. The backward pass then recomputes as little as
    /// possible.
    SaveAll,
    /// Saves the state before each segment of this many steps (0 counts as 1). The backward pass goes through the
    /// segments in reverse order. It runs the steps of each segment again, and saves their states. With `n` steps in
    /// segments of `k`, about `n / k + k` states are in memory at a time. This number is smallest when `k` is the
    /// square root of `n`. Leftover steps that do not fill a segment are treated as in
    /// [`Recompute`](CheckpointPolicy::Recompute).
    ///
    /// The number of steps may be a symbol, or a value that the program computes. `Recompute` replaces this policy in
    /// three cases: the loop has an early exit (`until`), its gradient is [truncated](crate::ScanOptions::truncate), or
    /// its types do not prove that its sequences and full buffers have rows for all steps.
    Segments(usize),
    /// Saves states at several levels of nested segments, the longest segments first. For example, `[256, 32]` saves
    /// the state every 256 steps. For each of these segments, the backward pass runs the 256 steps again, and saves a
    /// state every 32 steps. Each additional level runs every step one more time. With `l` levels, the number of saved
    /// states for `n` steps can be as low as `(l + 1)` times the `(l + 1)`-th root of `n`. With repeated halving, this
    /// number is logarithmic in `n`.
    Levels(Vec<usize>),
    /// Chooses the policy for each loop: `SaveAll`, `SaveDots`, `Recompute`, or up to four levels of segments. Among
    /// the policies that save at most this many bytes for the loop, chooses the one that recomputes the least. If none
    /// fits, chooses the policy that uses the least memory.
    ///
    /// The byte count is an upper bound computed from the types: it covers all states and values that the policy may
    /// save, even those that the backward pass does not read. A symbolic size counts as 1024.
    Budget(usize),
}

impl CheckpointPolicy {
    /// Returns the segment lengths, in steps, from the outermost level to the innermost, or an empty slice if the
    /// policy has no segments.
    pub(crate) fn levels(&self) -> &[usize] {
        match self {
            CheckpointPolicy::Segments(steps) => std::slice::from_ref(steps),
            CheckpointPolicy::Levels(levels) => levels,
            _ => &[],
        }
    }

    /// Returns the policy for these segment lengths, from the outermost level to the innermost.
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
