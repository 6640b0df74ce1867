//! Compiles graphs for backends and runs the resulting programs.
//!
//! A [`Backend`] is a tensor type with a few operations on rows. Its kernels are registered per op with
//! [`funcify!`](macro@crate::funcify). [`Function`] lowers a graph to a program that calls these kernels, with
//! unrolled, native or compiled loops ([`LoopStrategy`]), and runs the program on the backend's own tensors.
//! [`Executor`] does the same on host tensors, for a backend selected by name.

#[doc(hidden)]
pub use funcify_core::{DType, HostTensor, error::BackendError, ops::OpKey};
#[doc(hidden)]
pub use inventory;

mod backend;
mod cache;
mod function;
mod host;
mod lower;
mod prepare;
mod run;
pub mod stepped;

pub use backend::registry::{Entry, Kernel, LoweringRule, check_operands, lowered_ops, operand_array, typed_call};
pub use backend::{
    Backend, CompileOptions, Compiled, Compiles, Declined, IntoTensors, KernelCall, LoopStrategy, Outcome, Part,
    StackType, Tensors, TrackedCall, WholeRequest,
};
pub use cache::Cache;
pub use funcify_core::graph::bind_sizes;
pub use funcify_rewrite::Parallel;
pub use function::report::{CompileCounts, Report};
pub use function::{Function, Specialization};
pub use host::eager::run_op;
pub use host::executor::{BackendEntry, Executable, Executor, backend_names, open_backend, ordered_inputs, run_named};
pub use host::files;
pub use host::needs::{Need, needs};
pub use host::reference::{Reference, evaluate_kernel};
pub use lower::report::{LoopReport, Steps};
pub use run::profile::{Event, Profile, Share};
pub use stepped::stepper::Stepper;
