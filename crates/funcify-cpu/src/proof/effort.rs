//! Limits the work of a proof: a little in a user's debug build, and as much as needed in tests of plans.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::plan::{Instruction, Op};

static IS_THOROUGH: AtomicBool = AtomicBool::new(false);

/// Lets all further proofs in this process take as long as they need.
#[doc(hidden)]
pub fn prove_thoroughly() {
    IS_THOROUGH.store(true, Ordering::Relaxed);
}

/// Returns the budget for evaluating a graph, in operations on elements.
pub(super) fn graph_budget() -> usize {
    if IS_THOROUGH.load(Ordering::Relaxed) { 128_000_000 } else { 1_000_000 }
}

/// Returns the budget for interpreting a plan, in operations on elements. It also limits the number of elements that
/// the plan may hold. Interpreting a plan takes more operations than evaluating its graph.
pub(super) fn plan_budget() -> usize {
    4 * graph_budget()
}

/// The cost of an instruction in addition to its elements, in operations on elements.
const OPERATIONS_PER_INSTRUCTION: usize = 8;

/// Returns the approximate cost of an instruction, in operations on elements.
pub(super) fn instruction_cost(instruction: &Instruction) -> usize {
    let Instruction { op, rows, lanes, .. } = instruction;
    OPERATIONS_PER_INSTRUCTION
        + rows
            * lanes
            * match op {
                Op::Product { inner, .. } => inner.iter().sum::<usize>() + 1,
                Op::Sink { blocks, block_rows, .. } => blocks * block_rows,
                _ => 1,
            }
}
