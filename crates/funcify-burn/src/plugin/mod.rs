//! funcify in Burn models: a graph is one op of Burn's autodiff.

mod any;
mod derivative;
mod function;
mod node;
mod tensors;

pub use any::{AnyTensor, TensorKind};
pub use function::{Function, FunctionOptions};
pub use tensors::{Leaves, Tensors};
pub(crate) use tensors::{leaves_of, structure};
