//! Runs funcify graphs in Burn models, each as one op of Burn's autodiff.

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

/// Replaces the source location of an error that occurred inside this crate with the location of the user's call.
pub(crate) fn for_caller(at: &Place, error: Error) -> Error {
    error.attribute_to_caller(file!().trim_end_matches("plugin/mod.rs"), at.site)
}

/// Returns the error for a failed device operation.
pub(crate) fn device_error(at: &Place, backend: &str, source: BackendError) -> Error {
    Error::Execution { at: at.boxed(), backend: backend.to_string(), source }
}

/// Returns the error for an argument or a result that does not match the graph.
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
