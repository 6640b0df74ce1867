//! Limits the work of a proof: little in a user's debug build, as much as it needs where plans themselves are tested.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::plan::{Instruction, Op};

static IS_THOROUGH: AtomicBool = AtomicBool::new(false);

/// From now on, proofs of plans in this process take as long as they need.
#[doc(hidden)]
pub fn prove_thoroughly() {
    IS_THOROUGH.store(true, Ordering::Relaxed);
}

/// Operations on elements that the evaluation of a graph may take.
pub(super) fn operations() -> usize {
    if IS_THOROUGH.load(Ordering::Relaxed) { 128_000_000 } else { 1_000_000 }
}

/// Operations on elements that the interpretation of a plan may take, and elements that it may hold: a plan takes more than its graph.
pub(super) fn plan_operations() -> usize {
    4 * operations()
}

/// How many operations on elements an instruction takes beside its own.
const NS_PER_INSTRUCTION: usize = 8;

/// About how many operations on elements an instruction takes.
pub(super) fn of_instruction(instruction: &Instruction) -> usize {
    let Instruction { op, rows, lanes, .. } = instruction;
    NS_PER_INSTRUCTION
        + rows
            * lanes
            * match op {
                Op::Product { inner, .. } => inner.iter().sum::<usize>() + 1,
                Op::Sink { blocks, block_rows, .. } => blocks * block_rows,
                _ => 1,
            }
}
