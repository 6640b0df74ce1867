//! Whole loops of tensor programs in host memory: an interpreter of tiles, planned ahead, over SIMD kernels.
//!
//! A [`Plan`](plan::Plan) says everything that a call does: regions of memory, loops, and instructions over rows and
//! lanes. [`plan`] documents the instruction set. An [`Executor`] checks a plan, holds its scratch memory, and runs it
//! on slices of the caller. The kernels are in [`kernels`], compiled for each instruction set of [`Machine`].
//!
//! The way through it: `plan` (what is computed, and the proof that it stays within its memory), `run` (loops, threads), `body`
//! (the innermost loops), `views` (what a part sees of memory), `kernels` (registers). **Invariant:** an instruction allocates nothing. **Invariant:** results do
//! not depend on the number of threads.

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
pub use residuals::{DerivativePrograms, with_residuals_as_planned};
pub use run::{CallError, Element, Executor};
pub use slices::OnSlices;

/// What came of checking the plans of this process. Nothing is checked without debug assertions.
#[doc(hidden)]
pub fn proof_counts() -> ProofCounts {
    proof::counts()
}
