//! Differentiable control flow for tensor programs: one loop, every backend.
//!
//! A program is traced once from a closure ([`Graph::build`]), checked for all sizes, printed as text, and run on any
//! backend that is linked. Its loops are [`scan`], with JAX's meaning, or a [`Recurrence`] with PyTensor's taps.
//!
//! ```
//! use funcify::prelude::*;
//!
//! let leaky = Graph::build("leaky", |g| {
//!     let [xs, decay] = [g.input("xs", "f32[T]"), g.input("decay", "f32[]")];
//!     let (last, _) = scan(decay.zeros_like(), xs, |state, x| (state * decay + x, ()));
//!     last.square()
//! })?;
//! let slope = leaky.grad(["decay"], GradOptions::new())?;
//! let inputs = [HostTensor::from([1f32, 2.0]), HostTensor::scalar(0.5f32)];
//! assert_eq!(evaluate(&slope, &inputs)?[0], HostTensor::scalar(5f32));
//! # Ok::<(), funcify::Error>(())
//! ```
//!
//! On a backend, `Function::compile(&leaky, &Candle::cpu())` or `&Burn::flex()` takes the place of [`evaluate`]: the
//! crates `funcify-candle` and `funcify-burn` are the backends.
//!
//! - [`Value`]: what a program is written with. [`Tree`]: structures of values. [`HostTensor`]: tensors with numbers.
//! - [`vmap()`]: a program on one lane becomes one on many. [`associative_scan`]: running combinations.
//! - [`grad()`], [`vjp()`], [`jvp()`], [`Graph::grad`]: derivatives of any order; [`derivative`]: how they are made.
//! - [`custom_vjp`], [`custom_jvp`]: functions with derivative rules of their own. [`linearize`]: one derivative, many tangents.
//! - [`prelude`]: what most programs need. [`recurrence`]: the handles of loops with taps. [`graph`]: what a graph is made of.
//! - [`ops`]: every op with its type rule and its meaning; [`ops::scan`]: the loop and its invariants.
//! - [`nn`]: layers with loops, with the parameters that PyTorch's have.
//! - [`stepped`]: programs over sequences one step at a time, [`Graph::stepped`], which [`dispatch::Stepper`] serves.
//! - [`rewrite`]: programs arranged anew, [`Graph::rewritten`].
//! - [`dispatch`]: backends, how ops are lowered for them, and [`Function`](dispatch::Function).
//! - [`evaluate`]: the reference evaluation, slow and obvious. [`files`]: tensors in files. [`memory`]: the memory budget.
//! - [`Cancellation`]: stopping what runs, by a handle or a deadline.
//! - [`Error`]: every way in which funcify refuses.

// The derive names this crate by its path, also in the crate's own tests.
#[cfg(test)]
extern crate self as funcify;

#[doc(hidden)]
pub use inventory;

pub mod cancel;
pub mod derivative;
pub mod dispatch;
pub mod error;
mod eval;
pub mod files;
mod fixpoint;
pub mod graph;
mod handle;
mod host;
pub mod memory;
pub mod nn;
pub mod ops;
pub mod random;
pub mod rewrite;
pub mod stepped;
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
pub use host::{Element, HostTensor, Scalar, Storage};
pub use ops::associative::{AssociativeScanOptions, associative_scan, associative_scan_with};
pub use ops::scan::recurrence;
pub use ops::scan::{
    Bound, CheckpointPolicy, MapOptions, Recurrence, ScanOptions, fori_loop, map, map_with, scan, scan_until,
    scan_until_with, scan_with,
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

/// What most programs are written with: `use funcify::prelude::*`.
pub mod prelude {
    pub use crate::dispatch::Function;
    pub use crate::{
        Builder, DType, Dim, Error, GradOptions, Graph, HostTensor, Recurrence, Result, Scalar, ScanOptions,
        TensorType, Tree, Value, associative_scan, bind_size, concat, cond, constant, evaluate, fori_loop, full, grad,
        hvp, iota, jvp, map, scan, scan_until, scan_with, select, size, stack, switch, value_and_grad, vjp, vmap,
        while_loop,
    };
}
