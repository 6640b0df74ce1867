//! Reports on the loops of a program.

use std::collections::BTreeMap;
use std::fmt;

use super::*;

/// A report on one loop of a program.
///
/// ```
/// use funcify::dispatch::{Function, LoopStrategy, Reference, Steps};
/// use funcify::{Graph, HostTensor, scan};
///
/// let sum = Graph::build("sum", |g| {
///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[3]")];
///     scan(start, xs, |sum, x| (sum + x, ())).0
/// })?;
/// let report = Function::compile(&sum, &Reference)?.report();
/// let of_loop = &report.loops[0];
/// assert_eq!((of_loop.op, of_loop.strategy, of_loop.steps), ("scan", LoopStrategy::Native, Steps::Exactly(3)));
/// assert_eq!(of_loop.kernels, Some(1));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct LoopReport {
    /// The op: `scan`, `while`, or, for an associative scan that is compiled as a loop, `associative_scan`.
    pub op: &'static str,
    /// The user's source line that creates the loop.
    pub site: Site,
    /// The strategy with which the loop runs.
    pub strategy: LoopStrategy,
    /// The reason why the loop is not compiled, if compilation was requested.
    pub declined: Option<Declined>,
    /// The number of steps.
    pub steps: Steps,
    /// The number of kernels per step. `None` for a loop that is itself compiled, and for an unrolled loop of zero
    /// steps.
    ///
    /// The kernels of each nested loop and of each branch count once. A nested loop that is compiled counts as one
    /// kernel. Loop-invariant kernels do not count, because they run before the loop.
    pub kernels: Option<usize>,
    /// The number of patches that each rule applied at the loop's source line, keyed by rule name.
    ///
    /// Patches of the loop's derivatives are included, because they have the same source line. Patches at the lines of
    /// the loop's body are not included. Empty for programs without source lines.
    pub rewrites: BTreeMap<&'static str, usize>,
}

/// The number of steps of a loop, as far as it is known when the program is built.
///
/// ```
/// use funcify::dispatch::Steps;
///
/// assert_eq!(Steps::AtMost(3).to_string(), "at most 3 steps");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steps {
    /// The exact number of steps.
    Exactly(usize),
    /// The maximum number of steps of a loop with early exit.
    AtMost(usize),
    /// A number of steps that is known only at run time.
    AtRunTime,
}

impl Steps {
    /// Evaluates a step count for the given sizes.
    pub(crate) fn of(count: &StepCount, sizes: &Sizes) -> Self {
        let at = |dim: &Dim| dim.value(sizes).ok().and_then(|steps| usize::try_from(steps).ok());
        match count {
            StepCount::Exactly(dim) => at(dim).map_or(Steps::AtRunTime, Steps::Exactly),
            StepCount::AtMost(dim) => at(dim).map_or(Steps::AtRunTime, Steps::AtMost),
            StepCount::Unbounded => Steps::AtRunTime,
        }
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Steps::Exactly(steps) => write!(f, "{steps} steps"),
            Steps::AtMost(steps) => write!(f, "at most {steps} steps"),
            Steps::AtRunTime => f.write_str("steps known at run time"),
        }
    }
}

/// Counts the kernels in a list of instructions, including the kernels of nested programs. Each nested program counts
/// once.
pub(crate) fn count_kernels<B: Backend>(instructions: &[Instruction<B>]) -> usize {
    let of_one = |action: &Action<B>| match action {
        Action::Kernel(_) | Action::Whole(_) | Action::Group(_) => 1,
        action => action.programs().into_iter().map(|program| count_kernels(&program.instructions)).sum(),
    };
    instructions.iter().map(|instruction| of_one(&instruction.action)).sum()
}
