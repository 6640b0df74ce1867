//! The parts of the language model that do not depend on a framework: sizes, weights, and the training trait.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use funcify::nn::{Init, SelectiveScan};
use funcify::{DType, HostTensor, Scalar};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::text::Batch;

/// Weights keyed by name, in PyTorch's layout, where the weight of a linear map is `[outputs, inputs]`. Both frameworks
/// write files in this layout.
pub(crate) type Weights = BTreeMap<String, HostTensor>;

/// The size of the vocabulary. A token is a byte.
pub(crate) const TOKENS: usize = 256;
/// The length of a convolution's filter, in bytes.
pub(crate) const WINDOW: usize = 4;
pub(crate) const EPSILON: f64 = 1e-5;

/// The loop implementation that a model uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loop {
    /// funcify's layer, which the framework's autodiff records as a single op.
    Plugin,
    /// A loop written with the framework's ops. The framework's autodiff records every op of every step.
    Own,
}

/// The sizes of a model and of its batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    pub(crate) layers: usize,
    /// The number of features per byte.
    pub(crate) width: usize,
    pub(crate) batch: usize,
    /// The number of bytes per window.
    pub(crate) bytes: usize,
}

impl Sizes {
    /// The sizes of a model with about a million parameters.
    pub(crate) const MILLION: Sizes = Sizes { layers: 8, width: 128, batch: 8, bytes: 128 };
    pub(crate) const TINY: Sizes = Sizes { layers: 2, width: 16, batch: 4, bytes: 24 };

    /// Returns the number of features inside a block.
    pub(crate) fn inner(self) -> usize {
        2 * self.width
    }

    /// Returns the selective scan layer of a block.
    pub(crate) fn scan(self) -> SelectiveScan {
        SelectiveScan::new(self.inner())
    }

    /// Draws the initial weights, which depend only on the sizes and the seed.
    pub(crate) fn weights(self, seed: u64) -> Result<Weights> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut uniform = |shape: &[usize], bound: f64| {
            HostTensor::from_fn(DType::F32, shape, |_| Scalar::Float(random.random_range(-bound..bound)))
        };
        let ones = |size: usize| HostTensor::from_fn(DType::F32, &[size], |_| Scalar::Float(1.0));
        let (width, inner) = (self.width, self.inner());
        let bound = |from: usize| (from as f64).sqrt().recip();
        let mut weights = Weights::new();
        weights.insert("embedding.weight".into(), uniform(&[TOKENS, width], 0.05));
        weights.insert("norm.weight".into(), ones(width));
        for layer in 0..self.layers {
            let mut add = |name: &str, tensor| _ = weights.insert(format!("layers.{layer}.{name}"), tensor);
            add("norm.weight", ones(width));
            add("in_proj.weight", uniform(&[2 * inner, width], bound(width)));
            add("conv.weight", uniform(&[WINDOW, inner], bound(WINDOW)));
            add("conv.bias", uniform(&[inner], bound(WINDOW)));
            add("out_proj.weight", uniform(&[width, inner], bound(inner) / (2.0 * self.layers as f64).sqrt()));
            for parameter in self.scan().layer()?.parameters {
                let tensor = match parameter.init {
                    Init::Uniform(bound) => uniform(&parameter.shape, bound),
                    Init::Normal(deviation) => uniform(&parameter.shape, 3f64.sqrt() * deviation),
                    Init::Constant(number) => {
                        HostTensor::from_fn(DType::F32, &parameter.shape, |_| Scalar::Float(number))
                    }
                    Init::Values(values) => values.cast(DType::F32),
                };
                add(&format!("scan.{}", parameter.name), tensor);
            }
        }
        Ok(weights)
    }
}

/// A language model with an AdamW optimizer.
pub(crate) trait Learner {
    /// Trains on a batch with this learning rate. Returns the loss before the update, in nats per byte.
    fn step(&mut self, batch: &Batch, rate: f64) -> Result<f64>;

    /// Computes the loss of a batch without training.
    fn loss(&self, batch: &Batch) -> Result<f64>;

    /// Computes the logits `[batch, bytes, 256]` of a batch.
    fn logits(&self, batch: &Batch) -> Result<HostTensor>;

    fn weights(&self) -> Result<Weights>;

    /// Saves the optimizer's state to a file.
    fn save_optimizer(&self, path: &Path) -> Result<()>;

    /// Restores the optimizer's state from a file.
    fn load_optimizer(&mut self, path: &Path) -> Result<()>;
}
