//! How the loops of a program run, as it is told.

use std::collections::BTreeMap;
use std::fmt;

use super::*;

/// How one loop of a program runs.
#[derive(Clone, PartialEq, Debug)]
pub struct LoopReport {
    /// The op: `scan`, `while`; `associative_scan`, where it is compiled as a loop.
    pub op: &'static str,
    /// The user's line.
    pub site: Site,
    /// Laid out, run from the host, or compiled.
    pub strategy: LoopStrategy,
    /// Why it is not compiled, if it was to be.
    pub declined: Option<Declined>,
    /// How many steps it runs.
    pub steps: Steps,
    /// How many kernels a step runs, those of all loops and branches in it once each. What is compiled in it counts as one; what
    /// no step changes runs before the loop, and does not count. `None` of a loop that is compiled itself, and of one that is laid
    /// out for no step.
    pub kernels: Option<usize>,
    /// How often each rule rewrote the loop, by the rules' names: the patches at its line, which the loops of
    /// its derivatives share. Those at the lines of its body are not among them, nor are those of a program without lines.
    pub rewrites: BTreeMap<&'static str, usize>,
}

/// A loop's number of steps, as far as it is static.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steps {
    /// The number.
    Exactly(usize),
    /// The largest number: the loop ends when a condition says so.
    AtMost(usize),
    /// Nothing: it follows from the sizes of a call, or from values.
    AtRunTime,
}

impl Steps {
    /// Those of a loop at these sizes.
    pub(crate) fn of(count: &StepCount, sizes: &Sizes) -> Self {
        let at = |dim: &Dim| dim.value(sizes).ok().and_then(|steps| usize::try_from(steps).ok());
        match count {
            StepCount::Exactly(dim) => at(dim).map_or(Steps::AtRunTime, Steps::Exactly),
            StepCount::AtMost(dim) => at(dim).map_or(Steps::AtRunTime, Steps::AtMost),
            StepCount::WhileItHolds => Steps::AtRunTime,
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

/// How many kernels instructions run, those of the programs in them once each.
pub(crate) fn count_kernels<B: Backend>(instructions: &[Instruction<B>]) -> usize {
    let of_one = |action: &Action<B>| match action {
        Action::Kernel(_) | Action::Whole(_) => 1,
        action => action.programs().into_iter().map(|program| count_kernels(&program.instructions)).sum(),
    };
    instructions.iter().map(|instruction| of_one(&instruction.action)).sum()
}
