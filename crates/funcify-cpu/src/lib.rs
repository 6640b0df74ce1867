//! A compiled CPU engine for whole loops of tensor programs. A planner compiles loops to plans, and SIMD kernels
//! run the plans tile by tile.
//!
//! Most users need only two types: the backend [`Cpu`], and [`OnSlices`] for calls without allocation.
//!
//! ```
//! use funcify::dispatch::Function;
//! use funcify::{Graph, HostTensor, scan};
//! use funcify_cpu::Cpu;
//!
//! let sums = Graph::build("sums", |g| {
//!     let (start, xs) = (g.input("start", "f32[]"), g.input("xs", "f32[T]"));
//!     scan(start, xs, |sum, x| (sum + x, sum + x)).1
//! })?;
//! let sums = Function::compile(&sums, &Cpu::default())?;
//! assert_eq!(sums.call_host(&[0f32.into(), [1f32, 2.0, 3.0].into()])?, [HostTensor::from([1f32, 3.0, 6.0])]);
//! # Ok::<(), funcify::Error>(())
//! ```
//!
//! # Implementation
//!
//! A `Plan` describes everything that a call does: regions of memory, loops, and instructions over rows and lanes. The
//! instruction set is documented in `plan`. An `Executor` checks a plan, owns the scratch memory, and runs the plan on
//! the caller's slices. The kernels, in `kernels`, are compiled for each instruction set of `Machine`.
//!
//! To read the code, start with `plan` (the plan, and the check that its instructions stay within their regions).
//! Continue with `run` (loops and threads), `body` (innermost loops), `views` (the memory that is visible to one
//! thread) and `kernels`.
//!
//! **Invariant:** no instruction allocates memory, except that kernels of whole ops may enlarge the scratch memory of
//! their thread. **Invariant:** results do not depend on the number of threads.

#![forbid(unsafe_code)]

mod backend;
mod body;
mod engine;
mod fired;
#[doc(hidden)]
pub mod kernels;
#[doc(hidden)]
pub mod plan;
mod planner;
mod proof;
mod residuals;
mod run;
mod slices;
mod threads;
mod views;

pub use backend::Cpu;
pub use slices::OnSlices;

// These items are exported for the other crates of the workspace, for tests and for benchmarks.
#[doc(hidden)]
pub use engine::{Elements, Engine, Number};
#[doc(hidden)]
pub use fired::{TRANSFORMATIONS, take_fired};
#[doc(hidden)]
pub use funcify_body::{Float, Machine, Translation};
#[doc(hidden)]
pub use planner::{Division, GraphPlan, plan_graph};
#[doc(hidden)]
pub use proof::{ProofCounts, proof_gaps, prove_plan, prove_thoroughly};
#[doc(hidden)]
pub use residuals::{DerivativePrograms, lay_out_residuals};
#[doc(hidden)]
pub use run::{CallError, Element, Executor, Slice, SliceMut};

/// Returns statistics about the plans that this process has checked against their graphs. A check verifies that a plan
/// computes the same values as its graph. The checks run only if debug assertions are enabled.
#[doc(hidden)]
pub fn proof_counts() -> ProofCounts {
    proof::counts()
}
