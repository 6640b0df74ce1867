//! Differentiable control flow for tensor programs: one loop, every backend.

// The derive names this crate by its path, also in the crate's own tests.
#[cfg(test)]
extern crate self as funcify;

#[doc(hidden)]
pub use inventory;

pub mod dispatch;
pub mod error;
mod eval;
mod files;
mod graph;
mod host;
pub mod ops;
mod text;
pub mod tree;
pub mod types;

pub use error::{Error, Place, Result, Site};
pub use eval::evaluate;
pub use files::{parse_safetensors, read_safetensors, write_safetensors};
pub use funcify_derive::Tree;
pub use graph::{
    Axes, Builder, Graph, Input, IntoType, Node, NodeId, Operand, Output, SliceRange, Source, Value, ValueId, apply,
    concat, constant, full, iota, select, size, stack,
};
pub use host::{Element, HostTensor, Scalar, Storage};
pub use ops::scan::{Carry, MitMot, Outcome, Recurrence, ScanOptions, SequenceHandle, State, Step, scan, scan_with};
pub use text::to_dot;
pub use tree::Tree;
pub use types::{DType, Dim, Shape, Sizes, Symbol, TensorType};
