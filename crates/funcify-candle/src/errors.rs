//! Converts between funcify's errors and Candle's errors.
//!
//! If an environment variable enables backtraces, Candle adds a backtrace to the text of an error. This module removes
//! it.

use candle_core::{DType, Error, Tensor};
use funcify_core::error::{BackendError, Place};

/// Wraps the error in Candle's error type, preserving its message.
pub(crate) fn into_candle(error: funcify_core::Error) -> Error {
    Error::Wrapped(Box::new(error))
}

/// Replaces the source location of an error that occurred inside this crate with the line of the user's call.
pub(crate) fn for_caller(at: &Place, error: funcify_core::Error) -> funcify_core::Error {
    error.attribute_to_caller(file!().trim_end_matches("errors.rs"), at.site)
}

/// Converts a Candle error to the execution error of a funcify op.
pub(crate) fn execution_error(at: &Place, error: Error) -> funcify_core::Error {
    funcify_core::Error::Execution { at: at.boxed(), backend: "candle".into(), source: without_backtrace(error).into() }
}

/// Removes the backtrace from an error of a kernel, if it is a Candle error.
pub(crate) fn kernel_without_backtrace(error: BackendError) -> BackendError {
    match error.downcast::<Error>() {
        Ok(error) => without_backtrace(*error).into(),
        Err(error) => error,
    }
}

/// Removes the backtraces from a Candle error.
pub(crate) fn without_backtrace(error: Error) -> Error {
    match error {
        Error::WithBacktrace { inner, .. } => without_backtrace(*inner),
        Error::Context { inner, context } => Error::Context { inner: Box::new(without_backtrace(*inner)), context },
        Error::WithPath { inner, path } => Error::WithPath { inner: Box::new(without_backtrace(*inner)), path },
        error => error,
    }
}

/// Returns from the enclosing function with a Candle error whose message is formatted as with `format!`.
macro_rules! bail {
    ($($text:tt)*) => {
        return Err(::candle_core::Error::Msg(format!($($text)*)))
    };
}

pub(crate) use bail;

/// Formats a type in funcify's notation.
pub(crate) fn type_text(dtype: DType, dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
    format!("{}[{}]", dtype.as_str(), dims.join(","))
}

/// Formats the type of a tensor in funcify's notation.
pub(crate) fn type_of(tensor: &Tensor) -> String {
    type_text(tensor.dtype(), tensor.dims())
}
