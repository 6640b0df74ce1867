//! Differentiable control flow for tensor programs: one loop, every backend.
//!
//! [`Graph::build`] traces a closure once and records it as a program. The program is checked for all sizes, can be
//! printed as text, and runs on any linked backend. Its loops are written either as a [`scan`], with the semantics of
//! JAX, or as a [`Recurrence`], with the taps of PyTensor.
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
//! To run on a backend, replace [`evaluate`] with `Function::compile(&leaky, &Cpu::default())`. Cargo features enable
//! the backends and other optional parts:
//!
//! | feature | adds |
//! |---|---|
//! | `cpu` (default) | `Cpu`: runs programs on the host, without a tensor library |
//! | `candle` | `candle`: the Candle backend, and loops for existing Candle models |
//! | `burn-flex`, `burn-ndarray`, `burn-wgpu` | `burn`: the Burn backend on that device, and loops for Burn modules |
//! | `nn` | `nn`: recurrent, state space and linear attention layers |
//! | `jit` | machine code for scalar loops, on the backends that compute on the host |
//! | `tracing` | spans of the `tracing` crate |
//!
//! - [`Value`]: the values of a traced program. [`Tree`]: structures of values. [`HostTensor`]: concrete tensors.
//! - [`vmap()`]: turns a program for one lane into a program for many lanes. [`associative_scan`]: prefix scans with an
//!   associative function.
//! - [`grad()`], [`vjp()`], [`jvp()`], [`Graph::grad`]: derivatives of any order. [`derivative`]: describes how
//!   derivatives are computed.
//! - [`custom_vjp`], [`custom_jvp`]: functions with custom derivative rules. [`linearize`]: evaluates a function once
//!   and applies its derivative to many tangents.
//! - [`prelude`]: the imports that most programs need. [`recurrence`]: the handles of loops with taps. [`graph`]:
//!   graphs and their parts.
//! - [`ops`]: every op, with its type rule and its semantics. [`ops::scan`]: the loop and its invariants.
//! - `nn`: recurrent, state space and linear attention layers, with the same parameters as PyTorch's layers.
//! - [`stepped`]: converts a sequence program to a single-step program ([`Steppable`](stepped::Steppable)).
//!   [`dispatch::Stepper`] runs it, one step at a time.
//! - [`rewrite`]: optimizes programs ([`Rewrite`](rewrite::Rewrite)).
//! - [`dispatch`]: backends, their lowering rules, and compiled programs ([`Function`](dispatch::Function)).
//! - [`evaluate`]: the slow and simple reference evaluator. [`files`]: reads and writes safetensors files. [`memory`]:
//!   the memory budget.
//! - [`Cancellation`]: cancels a running call, through a handle or at a deadline.
//! - [`Error`]: every error that funcify returns.

#[doc(hidden)]
pub use funcify_core::inventory;

#[cfg(any(feature = "burn-flex", feature = "burn-ndarray", feature = "burn-wgpu"))]
pub use funcify_burn as burn;
#[cfg(feature = "candle")]
pub use funcify_candle as candle;
pub use funcify_core::{
    AssociativeScanOptions, Axes, Bound, Builder, Cancellation, CheckpointPolicy, DType, Dim, Disconnected, Element,
    Error, GradOptions, Graph, HostTensor, IntoType, MapOptions, Operand, Recurrence, Result, Scalar, ScanOptions,
    Shape, Sizes, SliceRange, Storage, Symbol, TensorType, Tree, Value, VmapOptions, apply, associative_scan,
    associative_scan_with, bind_size, checkpoint, concat, cond, constant, custom_jvp, custom_op, custom_vjp, einsum,
    evaluate, eye, fori_loop, full, grad, grad_with, hessian, hvp, iota, jacobian, jvp, linearize, linearize_with, map,
    map_with, recurrence, scan, scan_until, scan_until_with, scan_with, select, size, stack, switch, to_dot, tri_mask,
    value_and_grad, vjp, vjp_with, vmap_with, while_loop, while_loop_bounded,
};
pub use funcify_core::{cancel, derivative, error, memory, ops, random, tree, types, vmap};
#[cfg(feature = "cpu")]
pub use funcify_cpu::Cpu;
#[cfg(feature = "nn")]
pub use funcify_nn as nn;
pub use funcify_rewrite as rewrite;
pub use funcify_runtime as dispatch;
pub use funcify_runtime::{files, funcify, register_backend, stepped};

/// Graphs, which consist of typed nodes in topological order: each node uses only the results of earlier nodes.
pub mod graph {
    pub use funcify_core::graph::{Failed, Graph, Input, Node, NodeId, Output, Source, ValueId, at_site, bind_sizes};
}

/// The imports that most programs need: `use funcify::prelude::*`.
pub mod prelude {
    #[cfg(feature = "cpu")]
    pub use crate::Cpu;
    pub use crate::dispatch::Function;
    pub use crate::rewrite::Rewrite;
    pub use crate::stepped::Steppable;
    pub use funcify_core::prelude::*;
}
