//! The proof that a plan computes what its graph means. It knows nothing of the planner.
//!
//! Graph and plan are evaluated over the prime field of 2^61 - 1 elements, on random inputs, and must give the same. Sums and
//! products are those of the field, so what only reassociates, fuses, defers or divides them agrees exactly; every other function
//! is a symbol that both sides share (`model.rs`). By the lemma of Schwartz and Zippel (J. T. Schwartz, Fast Probabilistic
//! Algorithms for Verification of Polynomial Identities, J. ACM 27, 1980) two expressions of degree d that differ agree on random
//! inputs with probability d / 2^61 at most. So plans that agree compute the same expressions, for all inputs that take
//! the same ways through conditions; several seeds take several ways.
//!
//! The graph is evaluated by rules of its own (`graph.rs`, `ops.rs`, and `loops.rs` for the invariants of loops). The plan is
//! interpreted cell by cell (`interpret.rs`, `instruction.rs`, `memory.rs`):
//!
//! - **proof-c1** scratch memory and outputs begin as elements that no program computes, each another one, so what is read before
//!   it is written shows.
//! - **proof-c2** parts run in both orders, so what one part reads of another shows.
//! - **proof-c3** a loop that can be register code leaves the same memory as register code: that of this machine, that of machines
//!   without vectors, and that which machine code is made of (`registers.rs`).
//! - **proof-c4** words, the random bits, are no numbers: a cell with one is not a cell with the other.
//!
//! Where rounding to narrower floats is not the same on both sides, as in sums that are rounded once, the proof leaves rounding
//! out, and says so. Where there is no proof, because an op has no rule or it would take too long, the plan runs on small numbers,
//! and its results are held against the reference evaluation (`running.rs`).
//!
//! A plan that fails is a fault of funcify. The error names the instruction that computed what the graph does not, and
//! those that wrote what it read (`history.rs`).

mod effort;
mod field;
mod graph;
mod history;
mod instruction;
mod interpret;
mod known;
mod loops;
mod memory;
mod model;
mod ops;
mod place;
mod registers;
mod running;
mod subject;
mod verdict;

pub use effort::prove_thoroughly;
pub(crate) use running::{LONGEST, Runs};
pub(crate) use subject::Subject;
pub use verdict::ProofCounts;
pub use verdict::proof_gaps;
pub(crate) use verdict::{Fault, counts};

use funcify_core::types::Sizes;
use funcify_core::{DType, Graph};
use graph::NoMeaning;
use verdict::Verdict;

use crate::machine::Machine;
use crate::plan::Plan;

/// Checks a plan: proves it, or else runs it. `run` runs it as a call does.
pub(crate) fn check(subject: &Subject<'_>, run: &Runs<'_>) -> Result<(), Fault> {
    let verdict = match known::proved(subject) {
        Verdict::Unknown(reason) => running::validate(subject, run, reason),
        verdict => verdict,
    };
    verdict.count();
    match verdict {
        Verdict::Failed(reason) => Err(Fault(reason)),
        _ => Ok(()),
    }
}

/// Proves a plan of f32 without constants for a graph without symbols; or says what is wrong with it, or why there is no proof.
/// For tests of plans that no planner made.
#[doc(hidden)]
pub fn prove_plan(graph: &Graph, plan: &Plan) -> Result<(), String> {
    let subject = Subject {
        graph,
        sizes: &Sizes::new(),
        plan,
        dtype: DType::F32,
        constants: &[],
        has_words: false,
        refuses: false,
        machine: Machine::detect(),
    };
    match subject.prove() {
        Verdict::Proved => Ok(()),
        Verdict::Failed(reason) | Verdict::Unknown(reason) => Err(reason),
        Verdict::ProvedUpToRounding | Verdict::Validated => Err("it is proved up to rounding".to_string()),
    }
}

/// The reason why there is no proof.
fn reason_of(none: &NoMeaning) -> String {
    match none {
        NoMeaning::Unknown(op) => format!("`{op}` has no meaning over a field yet"),
        NoMeaning::Budget => "it would take too long".to_string(),
        NoMeaning::Refused(reason) => format!("the call is refused: {reason}"),
    }
}
