//! SIMD kernels, each written once for all instruction sets and both element types.

pub(crate) mod arithmetic;
pub(crate) mod binary;
pub(crate) mod fold;
pub(crate) mod map;
pub(crate) mod math;
pub(crate) mod movement;
pub(crate) mod product;
pub(crate) mod recurrence;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod table;
pub(crate) mod unary;
pub(crate) mod words;

pub use binary::{Binary, Ternary};
pub use fold::Fold;
pub use product::packed_len;
pub use recurrence::Recurrence;
pub use unary::Unary;
pub use words::WordOp;

use std::marker::PhantomData;

use pulp::{Simd, WithSimd};

use crate::float::Float;
