//! Ops that sum products of elements of two operands.

pub(in crate::ops) mod conv;
pub(in crate::ops) mod matmul;

pub use conv::{Conv, ConvOptions, Padding};
pub use matmul::{MatMul, integer_products};
