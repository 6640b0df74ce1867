//! Dispatch: from a graph to a program of a backend's kernels, and to a function that is called.

mod backend;
mod eager;
mod registry;
mod sizes;

pub use backend::{Backend, Call, IntoTensors, LoopStrategy, Part, StackType, Tensors};
pub use eager::run_op;
pub use registry::{Conversion, Entry, Kernel, converted_ops, fixed_operands, typed_call};
pub use sizes::bind_sizes;
pub(crate) use sizes::call_error;
