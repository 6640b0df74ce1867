//! Converts errors of funcify to Candle's, and Candle's to funcify's.
//!
//! Candle's own error constructors add a backtrace to the text if the environment requests backtraces. These
//! conversions keep only the text.

use candle_core::{DType, Error, Tensor};
use funcify_core::error::{BackendError, Place};

/// Wraps the error in Candle's error type, with its text.
pub(crate) fn into_candle(error: funcify_core::Error) -> Error {
    Error::Wrapped(Box::new(error))
}

/// Changes the source location of an error that occurs inside this crate to the line of the user's call.
pub(crate) fn for_caller(at: &Place, error: funcify_core::Error) -> funcify_core::Error {
    error.attribute_to_caller(file!().trim_end_matches("errors.rs"), at.site)
}

/// Converts Candle's error to the error of a funcify op.
pub(crate) fn execution_error(at: &Place, error: Error) -> funcify_core::Error {
    funcify_core::Error::Execution { at: at.boxed(), backend: "candle".into(), source: without_backtrace(error).into() }
}

/// Removes backtraces from an error of Candle, or of a kernel of this crate.
pub(crate) fn kernel_without_backtrace(error: BackendError) -> BackendError {
    match error.downcast::<Error>() {
        Ok(error) => without_backtrace(*error).into(),
        Err(error) => error,
    }
}

/// Removes backtraces from Candle's error.
pub(crate) fn without_backtrace(error: Error) -> Error {
    match error {
        Error::WithBacktrace { inner, .. } => without_backtrace(*inner),
        Error::Context { inner, context } => Error::Context { inner: Box::new(without_backtrace(*inner)), context },
        Error::WithPath { inner, path } => Error::WithPath { inner: Box::new(without_backtrace(*inner)), path },
        error => error,
    }
}

/// Returns from the function with a Candle error that has this text.
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
