//! A compiled CPU engine for whole loops of tensor programs. A planner builds plans ahead of time, and SIMD kernels run
//! them tile by tile.
//!
//! A [`Plan`](plan::Plan) describes everything that a call does: regions of memory, loops, and instructions over rows
//! and lanes. [`plan`] documents the instruction set. An [`Executor`] checks a plan, owns its scratch memory, and
//! runs it on the caller's slices. The kernels are in [`kernels`], compiled for each instruction set of [`Machine`].
//!
//! To read the crate, start with `plan` (the computation, and the proof that it stays within its memory), then `run`
//! (loops and threads), `body` (the innermost loops), `views` (the memory that one part sees) and `kernels`
//! (registers).
//!
//! **Invariant:** an instruction allocates nothing. **Invariant:** results do not depend on the number of threads.

#![forbid(unsafe_code)]

mod backend;
mod body;
mod engine;
mod fired;
mod float;
pub mod kernels;
mod machine;
pub mod plan;
mod planner;
mod proof;
mod residuals;
mod run;
mod slices;
mod views;

pub use backend::Cpu;
pub use engine::{Elements, Engine, Number};
pub use fired::{TRANSFORMATIONS, take_fired};
pub use float::Float;
pub use machine::{Machine, Translation};
pub use planner::{Division, GraphPlan, plan_graph};
#[doc(hidden)]
pub use proof::{ProofCounts, proof_gaps, prove_plan, prove_thoroughly};
pub use residuals::{DerivativePrograms, lay_out_residuals};
pub use run::{CallError, Element, Executor};
pub use slices::OnSlices;

/// Returns the results of the plan checks of this process. Plans are checked only with debug assertions.
#[doc(hidden)]
pub fn proof_counts() -> ProofCounts {
    proof::counts()
}
