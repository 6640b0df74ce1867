//! The model in Burn. The closure of a `scan` over chunks accumulates Burn's own cross-entropy.
//!
//! A loss that is written as a graph (`funcify_burn::Differentiable`) needs the same amount of memory as this `scan`,
//! and takes less time on ndarray.

use anyhow::Result;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use funcify::CheckpointPolicy;
use funcify_burn::Scan;

use super::{Bigrams, Sizes, Text};
use crate::burn::Adam;
use crate::training::{Loop, Training};

pub(super) struct Model {
    adam: Adam<Network>,
    text: Text,
    whose: Loop,
    device: Device,
}

#[derive(Module, Debug)]
pub(super) struct Network {
    embedding: Embedding,
    output: Linear,
}

impl Network {
    pub(super) fn new(sizes: Sizes, device: &Device) -> Self {
        let device = device.clone().autodiff();
        device.seed(7);
        let embedding = EmbeddingConfig::new(sizes.vocabulary, sizes.width).init(&device);
        let output = LinearConfig::new(sizes.width, sizes.vocabulary).with_bias(false).init(&device);
        Network { embedding, output }.materialize()
    }

    /// Returns the embeddings of the tokens, `[tokens, W]`.
    fn embed(&self, tokens: Tensor<1, Int>) -> Tensor<2> {
        self.embedding.forward(tokens.unsqueeze()).squeeze_dim(0)
    }
}

impl Model {
    pub(super) fn new(network: Network, whose: Loop, sizes: Sizes, device: &Device) -> Result<Self> {
        Ok(Model { adam: Adam::new(network), text: Text::new(sizes)?, whose, device: device.clone().autodiff() })
    }

    /// Computes the loss chunk by chunk. `xs` holds the embeddings of the tokens, `[tokens, W]`, and `next` holds the
    /// successor of each token.
    fn in_chunks(&self, xs: Tensor<2>, next: Tensor<1, Int>) -> funcify::Result<Tensor<1>> {
        let Sizes { tokens, width, chunk, .. } = self.text.sizes;
        let count = tokens / chunk;
        let chunks = (xs.reshape([count, chunk, width]), next.reshape([count, chunk]));
        let zero = Tensor::<1>::zeros([1], &self.device);
        // The backward pass recomputes each chunk, so no residuals are saved.
        let scan = Scan::new().policy(CheckpointPolicy::Recompute);
        let (sum, ()) = scan.run(&self.adam.module.output, zero, chunks, |output, sum, (xs, next)| {
            (sum + cross_entropy(output.forward(xs), next), ())
        })?;
        Ok(sum / count as f64)
    }

    fn ints(&self, tokens: Vec<u32>) -> Tensor<1, Int> {
        let count = tokens.len();
        Tensor::from_data(TensorData::new(tokens, [count]), &self.device)
    }
}

fn cross_entropy(logits: Tensor<2>, next: Tensor<1, Int>) -> Tensor<1> {
    CrossEntropyLossConfig::new().init(&logits.device()).forward(logits, next)
}

impl Training for Model {
    type Batch = (Vec<u32>, Vec<u32>);

    fn batch(&mut self) -> Self::Batch {
        self.text.batch()
    }

    fn differentiate(&mut self, (tokens, next): Self::Batch) -> Result<f64> {
        let (xs, next) = (self.adam.module.embed(self.ints(tokens)), self.ints(next));
        let loss = match self.whose {
            Loop::Plugin => self.in_chunks(xs, next)?,
            Loop::Own => cross_entropy(self.adam.module.output.forward(xs), next),
        };
        self.adam.differentiate(loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl Bigrams for Model {
    fn predict(&self, tokens: &[u32]) -> Result<Vec<u32>> {
        let network = &self.adam.module;
        let logits = network.output.forward(network.embed(self.ints(tokens.to_vec())));
        Ok(logits.argmax(1).into_data().iter::<u32>().collect())
    }
}
