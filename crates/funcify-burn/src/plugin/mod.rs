//! funcify in Burn models: a graph is one op of Burn's autodiff.

mod any;
mod derivative;
mod differentiable;
mod node;
mod options;
mod tensors;

use funcify_core::error::{BackendError, Error, Place};

pub use any::{AnyTensor, TensorKind};
pub use differentiable::Differentiable;
pub use options::DifferentiableOptions;
pub use tensors::{Leaves, Tensors};
pub(crate) use tensors::{leaves_of, structure};

/// The error of what this crate asks of funcify, with the line of its user.
pub(crate) fn for_caller(at: &Place, error: Error) -> Error {
    error.for_caller(file!().trim_end_matches("plugin/mod.rs"), at.site)
}

/// Returns the error of what a device could not do.
pub(crate) fn failed(at: &Place, backend: &str, source: BackendError) -> Error {
    Error::Execution { at: at.boxed(), backend: backend.to_string(), source }
}

/// Returns the error of an argument or a result that is not what the program takes or gives.
pub(crate) fn misfit(
    at: &Place,
    component: impl Into<String>,
    expected: impl Into<String>,
    found: impl Into<String>,
    fix: &str,
) -> Error {
    let (component, expected, found) = (component.into(), expected.into(), found.into());
    Error::Call { at: at.boxed(), component, expected, found, fix: fix.into() }
}
