//! The model in Candle: the likelihood is a graph that Candle's autodiff sees as a single op.

use anyhow::Result;
use candle_core::{Device, Tensor, Var};
use funcify::DType;
use funcify_candle::{Candle, Differentiable};

use super::{CONSTANT, FLOW, LocalLevel, START, likelihood};
use crate::candle::Adam;
use crate::training::{Loop, Training};

pub(super) struct Model {
    likelihood: Differentiable,
    flow: Tensor,
    log_variances: Var,
    adam: Adam,
    whose: Loop,
}

impl Model {
    pub(super) fn new(whose: Loop, device: &Device) -> Result<Self> {
        let likelihood = Differentiable::compile(&likelihood(DType::F64)?, &Candle::new(device.clone()))?;
        let log_variances = Var::new(&START, device)?;
        let adam = Adam::new(vec![log_variances.clone()])?;
        Ok(Model { likelihood, flow: Tensor::new(&FLOW, device)?, log_variances, adam, whose })
    }

    /// Computes the negative log-likelihood per year with Candle's ops, by running the Kalman filter year by year.
    fn own_loop(&self) -> candle_core::Result<Tensor> {
        let variances = self.log_variances.exp()?;
        let (noise, walk) = (variances.get(0)?, variances.get(1)?);
        let (mut level, mut variance, mut sum) = (self.flow.get(0)?, noise.clone(), noise.zeros_like()?);
        for year in 1..FLOW.len() {
            let predicted = (&variance + &walk)?;
            let spread = (&predicted + &noise)?;
            let gain = (&predicted / &spread)?;
            let surprise = (self.flow.get(year)? - &level)?;
            let cost = (((spread.log()? + (surprise.sqr()? / &spread)?)? * 0.5)? + CONSTANT)?;
            level = (level + (&gain * surprise)?)?;
            variance = (predicted * (1.0 - gain)?)?;
            sum = (sum + cost)?;
        }
        sum / (FLOW.len() - 1) as f64
    }
}

impl Training for Model {
    type Batch = ();

    fn batch(&mut self) {}

    fn differentiate(&mut self, (): ()) -> Result<f64> {
        let loss = match self.whose {
            Loop::Plugin => {
                self.likelihood.call(&[self.flow.clone(), self.log_variances.as_tensor().clone()])?.remove(0)
            }
            Loop::Own => self.own_loop()?,
        };
        self.adam.differentiate(&loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl LocalLevel for Model {
    fn log_variances(&self) -> Result<[f64; 2]> {
        let values = self.log_variances.to_vec1()?;
        Ok([values[0], values[1]])
    }
}
