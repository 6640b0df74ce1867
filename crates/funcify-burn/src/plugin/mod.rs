//! funcify in Burn models: a graph is one op of Burn's autodiff.

mod any;
mod derivative;
mod differentiable;
mod node;
mod options;
mod tensors;

pub use any::{AnyTensor, TensorKind};
pub use differentiable::Differentiable;
pub use options::DifferentiableOptions;
pub use tensors::{Leaves, Tensors};
pub(crate) use tensors::{leaves_of, structure};

/// The error of what this crate asks of funcify, with the line of its user.
pub(crate) fn for_caller(at: &funcify_core::error::Place, error: funcify_core::Error) -> funcify_core::Error {
    error.for_caller(file!().trim_end_matches("plugin/mod.rs"), at.site)
}

/// Returns the error of what a device could not do.
pub(crate) fn failed(
    at: &funcify_core::error::Place,
    backend: &str,
    source: funcify_core::error::BackendError,
) -> funcify_core::Error {
    funcify_core::Error::Execution { at: at.boxed(), backend: backend.to_string(), source }
}
