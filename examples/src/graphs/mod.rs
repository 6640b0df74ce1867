//! Small graphs that run on every backend. Each file shows one use of control flow. The file's function `show` runs the
//! example, and returns an error if a check fails.

pub(crate) mod chunked_loss;
pub(crate) mod clamp_invalid;
pub(crate) mod derivatives;
pub(crate) mod early_stopping;
pub(crate) mod rnn;
pub(crate) mod s5;
pub(crate) mod shape_dependent;

use anyhow::{Result, ensure};
use funcify::dispatch::{CompileOptions, Executable, Executor};
use funcify::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Compiles a graph with the backend's default strategy.
fn compile(backend: &dyn Executor, graph: &Graph) -> Result<Box<dyn Executable>> {
    Ok(backend.compile(graph, CompileOptions::default())?)
}

/// Returns reproducible pseudorandom numbers between `-scale` and `scale`.
fn noise(shape: &[usize], scale: f64, seed: u64) -> HostTensor {
    let mut random = StdRng::seed_from_u64(seed);
    HostTensor::from_fn(DType::F32, shape, |_| Scalar::Float(random.random_range(-scale..scale)))
}

/// Returns the largest difference between two tensors. Returns an error if it exceeds `tolerance`, or if the shapes
/// differ.
fn check_agreement(left: &HostTensor, right: &HostTensor, tolerance: f64) -> Result<f64> {
    ensure!(left.shape() == right.shape(), "{:?} is not {:?}", left.shape(), right.shape());
    let pairs = left.to_f64_vec().into_iter().zip(right.to_f64_vec());
    let largest = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    ensure!(largest <= tolerance, "the results differ by {largest:e}, more than {tolerance:e}");
    Ok(largest)
}
