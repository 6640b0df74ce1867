//! The Candle backend of funcify: every op on Candle's tensors, compiled or unrolled loops, and loops for Candle
//! models.
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
//! Booleans are stored as `U8` zeros and ones; all other element types are Candle's own. Hot paths (arithmetic,
//! exponentials, matrix products, sums, selections, views) use Candle's kernels. This crate has its own kernels for
//! ops that Candle lacks, computes differently or panics on: integer arithmetic that overflows, division by zero, NaN
//! in max and min, reductions, running reductions, sorting, scatter. They run only on the CPU; on another device they
//! are errors.
//!
//! # Loops
//!
//! On the CPU, the engine of `funcify-cpu` runs loops of f32 and f64 as a whole, and reads and writes Candle's memory
//! directly. Other loops, and all loops on other devices, are unrolled if their number of steps is static, and
//! otherwise run step by step. [`Function::report`](funcify_runtime::Function::report) tells how each loop runs, and
//! why.
//!
//! # Threads
//!
//! Matrix products use as many threads as Candle's own would: `RAYON_NUM_THREADS` or `CANDLE_CPU_MASK`, as set before
//! the process starts, or else the number of cores. This number is determined once. Candle's own products, in the
//! code around a program or in closures over its tensors, determine it each time, which costs 50 microseconds unless
//! one of the variables is set.
//!
//! # Gradients
//!
//! A [`Differentiable`] is a compiled graph as one op of Candle's autodiff: `loss.backward()` uses funcify's own
//! backward program.
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
//! Code that cannot be traced can be a closure on Candle's tensors. [`scan()`], [`while_loop`], [`map`], [`cond`] and
//! [`checkpoint`] each run a closure as one node, and rerun it in the backward pass. [`RnnExt`] does so for the
//! recurrent cells of candle_nn. The layers in [`nn`] are graphs with parameters from a `VarBuilder`. Models of
//! `candle-transformers` with such loops are in the crate `funcify-candle-models`.
//!
//! All of these support repeated backward passes, from several threads. Candle's `backward` has no second
//! derivatives, and requesting one through such a node is an error: differentiate the graph instead, as often as
//! needed.
//!
//! A plain [`Function`](funcify_runtime::Function) that is called with tensors that Candle tracks is also one op of
//! its autodiff, like a [`Differentiable`]; `detach()` the arguments that need no gradient. A `U8` tensor passed as a
//! boolean is true where it is nonzero, as in Candle's `where_cond`.

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

/// The gaps that the backend declares to the conformance suite.
#[doc(hidden)]
pub const CONFORMANCE: &str = include_str!("../conformance.toml");
