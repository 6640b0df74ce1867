//! Tensor programs with differentiable control flow: their definition, their semantics, and their derivatives.
//!
//! This is the base crate of funcify. To write programs, use the crate `funcify`, which re-exports everything here
//! under the same names. Backends, rewrites and layers are separate crates that depend on this one.
//!
//! - [`graph`]: programs that are traced from closures and checked for all sizes. [`Value`]: a tensor in a program.
//! - [`ops`]: every op with its type rule and its semantics.
//! - [`derivative`]: derivatives of programs. A derivative is again a program. [`vmap()`]: batching over lanes.
//! - [`evaluate`]: the reference evaluator, which defines the result of a program.
//! - [`types`]: element types, symbolic dimensions, shapes. [`HostTensor`]: tensors in host memory.
//! - [`Error`]: the typed errors of all functions. [`Cancellation`]: a handle that stops a running call. [`memory`]:
//!   the limit on the memory of a program.

// The derive macro generates paths that start with `funcify`. This alias makes them resolve inside this crate.
extern crate self as funcify;

#[doc(hidden)]
pub use inventory;

pub mod cancel;
pub mod derivative;
pub mod error;
mod eval;
mod fixpoint;
pub mod graph;
mod handle;
mod host;
pub mod memory;
pub mod ops;
mod place;
mod progress;
pub mod random;
mod straight;
mod text;
pub mod tree;
pub mod types;
mod value;
pub mod vmap;

pub use cancel::Cancellation;
pub use derivative::{
    Disconnected, GradOptions, checkpoint, custom_jvp, custom_vjp, grad, grad_with, hessian, hvp, jacobian, jvp,
    linearize, linearize_with, value_and_grad, vjp, vjp_with,
};
pub use error::{Error, Result};
pub use eval::evaluate;
pub use funcify_derive::Tree;
pub use graph::Graph;
pub use host::{Element, HostTensor, Scalar, Storage, element_count};
pub use ops::associative::{AssociativeScanOptions, associative_scan, associative_scan_with};
pub use ops::scan::{
    Bound, CheckpointPolicy, MapOptions, Recurrence, ScanOptions, fori_loop, map, map_with, recurrence, scan,
    scan_until, scan_until_with, scan_with,
};
pub use ops::switch::{cond, switch};
pub use ops::while_loop::{while_loop, while_loop_bounded};
pub use text::to_dot;
pub use tree::Tree;
pub use types::{DType, Dim, Shape, Sizes, Symbol, TensorType};
pub use value::{
    Axes, Builder, IntoType, Operand, SliceRange, Value, apply, bind_size, concat, constant, einsum, eye, full, iota,
    select, size, stack, tri_mask,
};
pub use vmap::{VmapOptions, vmap, vmap_with};

/// The items that most programs need: `use funcify::prelude::*`.
pub mod prelude {
    pub use crate::{
        Builder, DType, Dim, Error, GradOptions, Graph, HostTensor, Recurrence, Result, Scalar, ScanOptions,
        TensorType, Tree, Value, associative_scan, bind_size, concat, cond, constant, evaluate, fori_loop, full, grad,
        hvp, iota, jvp, map, scan, scan_until, scan_with, select, size, stack, switch, value_and_grad, vjp, vmap,
        while_loop,
    };
}
