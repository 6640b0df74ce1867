//! Errors of funcify as Candle's, and Candle's in those of funcify.
//!
//! Candle's own ways to make an error put a backtrace into its text where the environment asks for backtraces. What a user
//! reads here is the text alone.

use candle_core::{DType, Error, Tensor};
use funcify_core::error::{BackendError, Place};

/// The error as Candle's, with its text.
pub(crate) fn candle(error: funcify_core::Error) -> Error {
    Error::Wrapped(Box::new(error))
}

/// The error of what this crate asks of funcify, with the line of its user.
pub(crate) fn for_caller(at: &Place, error: funcify_core::Error) -> funcify_core::Error {
    error.for_caller(file!().trim_end_matches("errors.rs"), at.site)
}

/// Candle's error as that of an op of ours.
pub(crate) fn execution(at: &Place, error: Error) -> funcify_core::Error {
    funcify_core::Error::Execution { at: at.boxed(), backend: "candle".into(), source: plain(error).into() }
}

/// Candle's error, or one of a kernel of ours, without backtraces.
pub(crate) fn kernel(error: BackendError) -> BackendError {
    match error.downcast::<Error>() {
        Ok(error) => plain(*error).into(),
        Err(error) => error,
    }
}

/// Candle's error without backtraces.
pub(crate) fn plain(error: Error) -> Error {
    match error {
        Error::WithBacktrace { inner, .. } => plain(*inner),
        Error::Context { inner, context } => Error::Context { inner: Box::new(plain(*inner)), context },
        Error::WithPath { inner, path } => Error::WithPath { inner: Box::new(plain(*inner)), path },
        error => error,
    }
}

/// Returns Candle's error with this text.
macro_rules! bail {
    ($($text:tt)*) => {
        return Err(::candle_core::Error::Msg(format!($($text)*)))
    };
}

pub(crate) use bail;

/// A type as funcify prints it.
pub(crate) fn ty(dtype: DType, dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
    format!("{}[{}]", dtype.as_str(), dims.join(","))
}

/// The type of a tensor as funcify prints it.
pub(crate) fn type_of(tensor: &Tensor) -> String {
    ty(tensor.dtype(), tensor.dims())
}
