//! The Candle backend of funcify: every op on Candle's tensors, loops compiled or unrolled; and loops for Candle's models.
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
//! exponentials, products of matrices, sums, selections, views) are Candle's kernels. What Candle lacks, computes
//! otherwise or panics on (integer arithmetic that overflows, division by zero, NaN in max and min, reductions, running
//! reductions, sorting, scatter) are kernels of this crate, which run on the CPU only: on another device they are an error.
//!
//! # Loops
//!
//! On the CPU, loops of f32 and f64 run as a whole in the engine of `funcify-cpu`, which reads and writes Candle's memory itself. Other
//! loops, and all on other devices, are unrolled if their number of steps is static, and else run step by step.
//! [`Function::report`](funcify_runtime::Function::report) says which, and why.
//!
//! # Threads
//!
//! Products of matrices take as many threads as Candle's own would, which are counted once: `RAYON_NUM_THREADS` or
//! `CANDLE_CPU_MASK`, as set before the process starts, or else the cores. Candle's own products, in what is around a program or in
//! closures over its tensors, count them each time, which costs 50 microseconds unless one of the variables is set.
//!
//! # Gradients
//!
//! A [`Differentiable`] is a compiled graph as one op of Candle's autodiff: `loss.backward()` goes through it by funcify's
//! own backward program.
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
//! What cannot be traced is a closure on Candle's tensors: [`scan()`], [`while_loop`], [`map`], [`cond`] and [`checkpoint`] run
//! it, each as one node, and run it again in the backward. [`RnnExt`] does so for the recurrent cells of candle_nn. The
//! layers in [`nn`] are graphs with parameters from a `VarBuilder`. Models of `candle-transformers` with such loops are in the crate
//! `funcify-candle-models`.
//!
//! All of these may be passed through backward repeatedly and by several threads. Candle's backward gives no second
//! derivatives; to ask for one through such a node is an error: differentiate the graph, as often as needed.
//!
//! A plain [`Function`](funcify_runtime::Function) that is called with tensors that Candle tracks is one op of its
//! autodiff, too, as if it were a [`Differentiable`]; `detach()` what needs no gradient. A `U8` tensor that is given for a
//! boolean is true where it is not 0, as in Candle's `where_cond`.

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
