//! What the examples share: the backend that the command line names, inputs, and comparisons.
//!
//! Each example is one file with a function `show`, which runs on a backend, prints what is to be seen, and fails if
//! what it claims is not so. `cargo run --example rnn -- --backend burn-flex` runs one; the tests run all on every
//! backend.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use funcify::dispatch::{CompileOptions, Executable, Executor, open_backend};
use funcify::{DType, Graph, HostTensor, Scalar};

// Linked for the backends that they register.
use funcify_burn as _;
use funcify_candle as _;

#[derive(Parser)]
struct Arguments {
    /// The backend: reference, candle, burn-flex, burn-ndarray or burn-wgpu.
    #[arg(long, default_value = "candle")]
    backend: String,
}

/// The backend that the command line names.
pub fn backend() -> Result<Arc<dyn Executor>> {
    let name = Arguments::parse().backend;
    open_backend(&name).with_context(|| format!("the backend `{name}`"))
}

/// A graph compiled with the backend's own strategy.
pub fn compile(backend: &dyn Executor, graph: &Graph) -> Result<Box<dyn Executable>> {
    Ok(backend.compile(graph, CompileOptions::default())?)
}

/// Numbers between `-scale` and `scale` that look random and are the same in each run.
pub fn noise(shape: &[usize], scale: f64, seed: u64) -> HostTensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    HostTensor::from_fn(DType::F32, shape, |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Scalar::Float(((state >> 40) as f64 / (1u64 << 23) as f64 - 1.0) * scale)
    })
}

/// Fails if two tensors differ by more than `tolerance` anywhere; gives the largest difference.
pub fn agree(left: &HostTensor, right: &HostTensor, tolerance: f64) -> Result<f64> {
    ensure!(left.shape() == right.shape(), "{:?} is not {:?}", left.shape(), right.shape());
    let pairs = left.to_f64_vec().into_iter().zip(right.to_f64_vec());
    let largest = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    ensure!(largest <= tolerance, "the results differ by {largest:e}, more than {tolerance:e}");
    Ok(largest)
}
