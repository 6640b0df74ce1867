//! SIMD kernels that are not elementwise, each written once for all instruction sets and both element types.

pub(crate) mod fold;
pub(crate) mod movement;
pub(crate) mod product;
pub(crate) mod recurrence;
pub(crate) mod sink;
pub(crate) mod whole;

pub use fold::Fold;
#[cfg(feature = "jit")]
pub(crate) use funcify_body::kernels::arithmetic;
pub use funcify_body::kernels::{Binary, Ternary, Unary};
pub(crate) use funcify_body::kernels::{binary, map, math, source, table, unary};
pub use product::packed_len;
pub use recurrence::Recurrence;

use std::marker::PhantomData;

use pulp::{Simd, WithSimd};

use funcify_body::float::Float;
