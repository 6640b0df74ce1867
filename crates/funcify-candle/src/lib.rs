//! The Candle backend of funcify: every op on Candle's tensors, loops unrolled.
//!
//! ```
//! use funcify::HostTensor;
//! use funcify::dispatch::run_op;
//! use funcify::ops::{Op, Unary};
//! use funcify_candle::Candle;
//!
//! let x = HostTensor::from_vec(vec![1f32, -2.0], [2])?;
//! let y = run_op(&Candle::cpu(), &Op::from(Unary::Neg), &[x]).ok()?;
//! assert_eq!(y[0].as_slice::<f32>()?, [-1.0, 2.0]);
//! # Some(())
//! ```
//!
//! Booleans are stored as `U8` zeros and ones; all other element types are Candle's own. Hot paths (arithmetic,
//! exponentials, products of matrices, sums, selections, views) are Candle's kernels. What Candle lacks, computes
//! otherwise or panics on (integer arithmetic that overflows, division by zero, NaN in max and min, reductions,
//! scatter) are kernels of this crate, which run on the CPU only: on another device they are an error.
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
//! and through the elementwise kernels of one operand; Candle's `backward` through another kernel of this crate is
//! Candle's error `BackwardNotSupported`, never a wrong gradient.

mod backend;
mod cpu;
mod ops;

pub use backend::Candle;
