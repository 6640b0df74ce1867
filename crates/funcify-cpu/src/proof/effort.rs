//! Limits the work of a proof. The default budget is small, and tests of plans use a much larger one.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::plan::{Instruction, Op};

static IS_THOROUGH: AtomicBool = AtomicBool::new(false);

/// Raises the budgets of all further proofs in this process, so that tests can also prove large plans.
#[doc(hidden)]
pub fn prove_thoroughly() {
    IS_THOROUGH.store(true, Ordering::Relaxed);
}

/// Returns the budget for evaluating a graph, in elementary operations.
pub(super) fn graph_budget() -> usize {
    if IS_THOROUGH.load(Ordering::Relaxed) { 128_000_000 } else { 1_000_000 }
}

/// Returns the budget for interpreting a plan, in elementary operations. This budget is larger than the budget for
/// evaluating the graph, because interpreting a plan takes more operations. The budget also limits the number of
/// elements in the plan's memory.
pub(super) fn plan_budget() -> usize {
    4 * graph_budget()
}

/// The fixed cost of an instruction, in elementary operations.
const OPERATIONS_PER_INSTRUCTION: usize = 8;

/// Returns the approximate cost of an instruction, in elementary operations.
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
