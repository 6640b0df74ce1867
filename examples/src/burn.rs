//! The Adam optimizer shared by the Burn models.

use anyhow::Result;
use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;

/// A module and its Adam optimizer.
pub(crate) struct Adam<M> {
    pub(crate) module: M,
    adam: ModuleOptimizer,
    gradients: Option<GradientsParams>,
}

impl<M: Module> Adam<M> {
    pub(crate) fn new(module: M) -> Self {
        Adam { module, adam: AdamConfig::new().with_epsilon(1e-8).init(), gradients: None }
    }

    /// Computes the gradients of a loss and stores them. Returns the loss.
    pub(crate) fn differentiate(&mut self, loss: Tensor<1>) -> Result<f64> {
        self.gradients = Some(GradientsParams::from_grads(loss.backward(), &self.module));
        Ok(loss.into_scalar::<f64>())
    }

    /// Updates the parameters with the stored gradients and this learning rate, and discards the gradients.
    pub(crate) fn update(&mut self, rate: f64) -> Result<()> {
        if let Some(gradients) = self.gradients.take() {
            self.module = self.adam.step(rate, self.module.clone(), gradients);
        }
        Ok(())
    }
}
