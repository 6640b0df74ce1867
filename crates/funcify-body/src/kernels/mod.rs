//! Defines SIMD kernels for elementwise functions on floats, each written once for all instruction sets and both
//! element types.

pub mod arithmetic;
pub mod binary;
pub mod map;
pub mod math;
pub mod source;
pub mod special;
pub mod special_tables;
pub mod table;
pub mod unary;

pub use binary::{Binary, Ternary};
pub use unary::Unary;

use std::marker::PhantomData;

use pulp::{Simd, WithSimd};

use crate::float::Float;
