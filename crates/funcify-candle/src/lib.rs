//! The Candle backend of funcify. It supports every op on Candle's tensors, compiles or unrolls loops, and provides
//! differentiable loops for Candle models.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use funcify::prelude::*;
//! use funcify_candle::Candle;
//!
//! let graph = Graph::build("norm", |builder| {
//!     let x = builder.input("x", "f32[N]");
//!     x.square().sum(0).sqrt()
//! })?;
//! let norm = Function::compile(&graph, &Candle::cpu())?;
//! let y = norm.call(&[Tensor::new(&[3f32, 4.0], &Device::Cpu)?])?;
//! assert_eq!(y[0].to_scalar::<f32>()?, 5.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Booleans are stored as `U8` zeros and ones; all other element types map directly to Candle's. Performance-critical
//! ops (arithmetic, exponentials, matrix products, sums, selections, views) use Candle's kernels. This crate has its
//! own kernels where Candle lacks an op, computes a result that differs from funcify's, or panics. These kernels handle
//! integer overflow, division by zero, NaN in max and min, reductions, running reductions, sorting and scatter. They
//! run only on the CPU; on other devices, the ops return an error.
//!
//! # Loops
//!
//! On the CPU, the engine of `funcify-cpu` compiles f32 and f64 loops, which read and write the memory of Candle's
//! tensors directly. Other loops, and all loops on other devices, are unrolled if their number of steps is static,
//! and otherwise run step by step. [`Function::report`](funcify_runtime::Function::report) returns the strategy of
//! each loop, and the reason for it.
//!
//! # Threads
//!
//! Matrix products use the same number of threads as Candle: the number given by `RAYON_NUM_THREADS` or
//! `CANDLE_CPU_MASK` if one of them is set before the process starts, and the number of cores otherwise. This crate
//! queries that number once. For its own products, outside compiled programs, Candle queries the number in each call.
//! The query takes 50 microseconds unless one of the variables is set.
//!
//! # Gradients
//!
//! A [`Differentiable`] is a compiled graph that acts as a single op of Candle's autodiff: `loss.backward()` runs
//! funcify's own backward program.
//!
//! ```
//! use candle_core::{Device, Tensor, Var};
//! use funcify::{Graph, scan};
//! use funcify_candle::{Candle, Differentiable};
//!
//! let rnn = Graph::build("rnn", |g| {
//!     let (xs, h0) = (g.input("xs", "f32[T,B,N]"), g.input("h0", "f32[B,N]"));
//!     let u = g.input("u", "f32[N,N]");
//!     scan(h0, xs, |h, x| {
//!         let h = (x + h.matmul(u)).tanh();
//!         (h, h)
//!     })
//! })?;
//! let rnn = Differentiable::compile(&rnn, &Candle::cpu())?;
//!
//! let xs = Tensor::randn(0f32, 1.0, (100, 8, 4), &Device::Cpu)?;
//! let h0 = Tensor::zeros((8, 4), xs.dtype(), &Device::Cpu)?;
//! let u = Var::randn(0f32, 0.5, (4, 4), &Device::Cpu)?;
//! let results = rnn.call(&[xs, h0, u.as_tensor().clone()])?; // the last h, and all
//! let gradients = results[1].sqr()?.mean_all()?.backward()?;
//! assert_eq!(gradients.get(&u).unwrap().dims(), [4, 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Code that cannot be traced can be written as a closure on Candle's tensors. [`scan()`], [`while_loop`], [`map`] and
//! [`checkpoint`] run a closure as a single node of Candle's graph, and rerun the closure in the backward pass;
//! [`cond`] runs one of two closures. [`RnnExt`] runs the recurrent cells of candle_nn in this way. The layers in
//! [`nn`] are graphs with parameters from a `VarBuilder`. The crate `funcify-candle-models` contains models of
//! `candle-transformers` that use such loops.
//!
//! All nodes that this crate adds to Candle's graph support repeated and concurrent backward passes. Candle's
//! `backward` does not support second derivatives: requesting one through any of these nodes is an error. To compute
//! derivatives of any order, differentiate the graph instead.
//!
//! A plain [`Function`](funcify_runtime::Function) that is called with tracked tensors acts like a
//! [`Differentiable`]. Call `detach()` on arguments that need no gradient. In a `U8` tensor passed as a boolean, any
//! nonzero byte is true, as in Candle's `where_cond`.

mod autodiff;
mod backend;
mod closures;
mod compiled;
mod cpu;
mod device;
mod differentiable;
mod errors;
pub mod nn;
mod ops;
mod product;
mod rnn;
mod tree;

pub use closures::cond::{checkpoint, cond};
pub use closures::map::{map, map_with};
pub use closures::scan::{ScanOptions, scan, scan_captured, scan_with};
pub use closures::while_loop::while_loop;
pub use device::Candle;
pub use differentiable::{Differentiable, DifferentiableOptions};
pub use rnn::{RnnExt, RnnState};
pub use tree::TensorTree;

/// The declared gaps of this backend in the conformance suite, as TOML.
#[doc(hidden)]
pub const CONFORMANCE: &str = include_str!("../conformance.toml");
