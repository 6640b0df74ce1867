//! Errors of funcify as Candle's.

use candle_core::{DType, Tensor};

/// The error as Candle's, with its text.
pub(crate) fn candle(error: funcify::Error) -> candle_core::Error {
    candle_core::Error::wrap(error)
}

/// A type as funcify prints it.
pub(crate) fn ty(dtype: DType, dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
    format!("{}[{}]", dtype.as_str(), dims.join(","))
}

/// The type of a tensor as funcify prints it.
pub(crate) fn type_of(tensor: &Tensor) -> String {
    ty(tensor.dtype(), tensor.dims())
}
