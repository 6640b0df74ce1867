//! Reports how the loops of a program run.

use std::collections::BTreeMap;
use std::fmt;

use super::*;

/// A report about one loop of a program.
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
    /// The op: `scan`, `while`, or `associative_scan` where it is compiled as a loop.
    pub op: &'static str,
    /// The user's line.
    pub site: Site,
    /// The strategy: unrolled, run from the host, or compiled.
    pub strategy: LoopStrategy,
    /// The reason why it is not compiled, if that was requested.
    pub declined: Option<Declined>,
    /// The number of steps that it runs.
    pub steps: Steps,
    /// The number of kernels that a step runs, counting those of each nested loop and branch once. A compiled part
    /// counts as one; loop-invariant kernels run before the loop and do not count. `None` for a loop that is itself
    /// compiled, and for an unrolled loop of zero steps.
    pub kernels: Option<usize>,
    /// The number of times that each rule rewrote the loop, keyed by rule name. Counts the patches at the loop's
    /// source line, which the loops of its derivatives share. Patches at the lines of its body are not included, and
    /// programs without source lines have none.
    pub rewrites: BTreeMap<&'static str, usize>,
}

/// The number of steps of a loop, as far as it is static.
///
/// ```
/// use funcify::dispatch::Steps;
///
/// assert_eq!(Steps::AtMost(3).to_string(), "at most 3 steps");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steps {
    /// A static number of steps.
    Exactly(usize),
    /// A largest number of steps: the loop ends when a condition says so.
    AtMost(usize),
    /// A number that depends on the sizes of a call or on data.
    AtRunTime,
}

impl Steps {
    /// Returns the number of steps at these sizes.
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

/// Counts the kernels of instructions. Those of a nested program count once.
pub(crate) fn count_kernels<B: Backend>(instructions: &[Instruction<B>]) -> usize {
    let of_one = |action: &Action<B>| match action {
        Action::Kernel(_) | Action::Whole(_) => 1,
        action => action.programs().into_iter().map(|program| count_kernels(&program.instructions)).sum(),
    };
    instructions.iter().map(|instruction| of_one(&instruction.action)).sum()
}
