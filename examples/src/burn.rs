//! What the models of Burn share: a step of Adam.

use anyhow::Result;
use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;

/// A module in training by Adam.
pub(crate) struct Adam<M> {
    pub(crate) module: M,
    adam: ModuleOptimizer,
}

impl<M: Module> Adam<M> {
    pub(crate) fn new(module: M) -> Self {
        Adam { module, adam: AdamConfig::new().with_epsilon(1e-8).init() }
    }

    /// Updates the parameters by the gradient of a loss; gives the loss.
    pub(crate) fn step(&mut self, rate: f64, loss: Tensor<1>) -> Result<f64> {
        let gradients = GradientsParams::from_grads(loss.backward(), &self.module);
        self.module = self.adam.step(rate, self.module.clone(), gradients);
        Ok(loss.into_scalar::<f64>())
    }
}
