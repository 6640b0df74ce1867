//! The Candle backend of funcify: every op on Candle's tensors, loops unrolled.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use funcify::dispatch::Function;
//! use funcify::Graph;
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
//! # Threads
//!
//! Set the environment variable `RAYON_NUM_THREADS` (or `CANDLE_CPU_MASK`) before the process starts. Without either,
//! Candle reads `/proc/cpuinfo` in every product of matrices, which costs about 30 microseconds each: more than the
//! whole step of a small recurrent network. This crate does not set it, because changing the environment of a running
//! process is not safe when there are other threads.
//!
//! # Gradients
//!
//! Gradients come from funcify's own transformation. Tensors that Candle tracks stay tracked through Candle's kernels
//! and through the elementwise kernels of one float operand, except `lgamma` and `digamma`; Candle's `backward` through
//! another kernel of this crate is Candle's error `BackwardNotSupported`, never a wrong gradient.

mod autodiff;
mod backend;
mod closures;
mod cpu;
mod differentiable;
mod errors;
mod ops;
mod rnn;
mod tree;

pub use backend::Candle;
pub use closures::cond::{checkpoint, cond};
pub use closures::map::{map, map_with};
pub use closures::scan::{ScanOptions, scan, scan_captured, scan_with};
pub use closures::while_loop::while_loop;
pub use differentiable::{Differentiable, DifferentiableOptions};
pub use rnn::{RnnExt, RnnState};
pub use tree::TensorTree;
