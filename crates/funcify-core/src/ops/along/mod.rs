//! Ops that combine or sort elements along axes.

pub(in crate::ops) mod argmax;
pub(in crate::ops) mod cumulative;
pub(in crate::ops) mod reduce;
pub(in crate::ops) mod sort;

pub use argmax::ArgMax;
pub use cumulative::Cumulative;
pub use reduce::{Reduce, ReduceKind};
pub use sort::Sort;
