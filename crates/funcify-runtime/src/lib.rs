//! Dispatch: from a graph to a program of a backend's kernels, and to a function that is called.
//!
//! A [`Backend`] is a tensor type with a few operations on rows; its kernels are registered per op with
//! [`funcify!`](macro@crate::funcify). [`Function`] lowers a graph to a program of such kernels, its loops unrolled or
//! native ([`LoopStrategy`]), and calls it on the backend's own tensors. [`Executor`] does so by the backend's name, on
//! host tensors.

#[doc(hidden)]
pub use funcify_core::ops::OpKey;
#[doc(hidden)]
pub use inventory;

mod associative;
mod backend;
mod bind;
mod body;
mod cache;
mod composed;
mod eager;
mod executor;
pub mod files;
mod function;
mod late;
mod ledger;
mod lower;
mod native;
mod needs;
mod profile;
mod program;
mod reference;
mod registry;
mod report;
mod span;
mod statics;
pub mod stepped;
mod stepper;
mod stepwise;
mod switch;
mod unroll;
mod while_loop;
mod whole;

pub use backend::{
    Backend, Compiled, Compiles, Declined, IntoTensors, KernelCall, LoopStrategy, Outcome, Part, StackType, Tensors,
    TrackedCall, Whole,
};
pub use cache::Cache;
pub use eager::run_op;
pub use executor::{BackendEntry, Executable, Executor, backend_names, open_backend, run_named};
pub use funcify_core::graph::bind_sizes;
pub use funcify_rewrite::Parallel;
pub use function::{CompileCounts, CompileOptions, Function, ordered_inputs};
pub use needs::{Need, needs};
pub use profile::{Event, Profile, Share};
pub use reference::Reference;
pub use registry::{Entry, Kernel, LoweringRule, check_operands, lowered_ops, operand_array, typed_call};
pub use report::{LoopReport, Report, Steps};
pub use stepper::Stepper;
