//! Proves, independently of the planner, that a plan computes the same values as its graph.
//!
//! The graph and the plan are evaluated on random inputs over the prime field with 2^61 - 1 elements, and must agree.
//! Sums and products are computed in the field, so a plan that only reassociates, fuses, defers or divides them agrees
//! exactly with the graph. Every other function is an opaque symbol, and both sides use the same symbols (`model.rs`).
//! By the Schwartz–Zippel lemma (J. T. Schwartz, Fast Probabilistic Algorithms for Verification of Polynomial
//! Identities, J. ACM 27, 1980), two different expressions of degree d agree on random inputs with probability at most
//! d / 2^61. If the results agree, the graph and the plan therefore almost certainly compute the same expressions, for
//! all inputs that take the same branches. The proof uses up to two random seeds, which may take different branches.
//!
//! The graph is evaluated by separate rules (`graph.rs`, `ops.rs`, and `loops.rs` for the invariants of loops). The
//! plan is interpreted cell by cell (`interpret.rs`, `instruction.rs`, `memory.rs`):
//!
//! - **proof-c1** Scratch memory and outputs initially hold distinct elements that no program computes. This exposes
//!   reads of memory that was never written.
//! - **proof-c2** The parts of a plan run in ascending order for one seed, and in descending order for the other. This
//!   exposes reads of another part's results.
//! - **proof-c3** A loop and its register code leave the same memory contents. This covers the code for this machine,
//!   the code for machines without vectors, and the code that is translated to machine code (`registers.rs`).
//!
//! The two sides may round to narrower floats at different points: for example, one of them may round a sum only once.
//! The proof then ignores rounding, and its verdict says so. A plan has no proof if an op has no rule, or if the proof
//! would take too long. The checker then runs the plan on random inputs, and compares the results with those of the
//! reference evaluator (`running.rs`).
//!
//! If a plan fails the check, funcify has a bug. The error names the faulty instruction, whose result is a value that
//! the graph never computes. The error also names the instructions that wrote the operands of the faulty instruction
//! (`history.rs`).

mod effort;
mod field;
mod fused;
mod graph;
mod history;
mod instruction;
mod interpret;
mod known;
mod loops;
mod memory;
mod model;
mod ops;
mod position;
mod registers;
mod running;
mod subject;
mod verdict;

pub use effort::prove_thoroughly;
pub(crate) use running::{RUN_TIME_LIMIT, Runs};
pub(crate) use subject::Subject;
pub use verdict::ProofCounts;
pub use verdict::proof_gaps;
pub(crate) use verdict::{Fault, counts};

use funcify_core::types::Sizes;
use funcify_core::{DType, Graph};
use graph::NoMeaning;
use verdict::Verdict;

use crate::plan::Plan;
use funcify_body::machine::Machine;

/// Checks that a plan computes the same values as its graph, by a proof if possible. If there is no proof, tests the
/// plan using `run`, which must run the plan in the same way as a call. Returns an error if the plan computes wrong
/// results.
pub(crate) fn check(subject: &Subject<'_>, run: &Runs<'_>) -> Result<(), Fault> {
    let verdict = match known::prove_cached(subject) {
        Verdict::Unknown(reason) => running::validate(subject, run, reason),
        verdict => verdict,
    };
    verdict.count(subject.plan.has_whole_ops());
    match verdict {
        Verdict::Failed(reason) => Err(Fault(reason)),
        _ => Ok(()),
    }
}

/// Proves that an f32 plan without constants computes the same values as a graph without symbols. The error describes
/// the fault, or the reason why there is no proof. Tests of hand-written plans use this function.
#[doc(hidden)]
pub fn prove_plan(graph: &Graph, plan: &Plan) -> Result<(), String> {
    let subject = Subject {
        graph,
        sizes: &Sizes::new(),
        plan,
        dtype: DType::F32,
        constants: &[],
        refuses: false,
        machine: Machine::detect(),
    };
    match subject.prove() {
        Verdict::Proved => Ok(()),
        Verdict::Failed(reason) | Verdict::Unknown(reason) => Err(reason),
        Verdict::ProvedUpToRounding | Verdict::Validated => Err("the plan is proved only up to rounding".to_string()),
    }
}

/// Describes why a plan has no proof.
fn reason_of(none: &NoMeaning) -> String {
    match none {
        NoMeaning::Unknown(op) => format!("`{op}` has no rule over the field yet"),
        NoMeaning::Budget => "the proof takes too long".to_string(),
        NoMeaning::Refused(reason) => format!("the call is refused: {reason}"),
    }
}
