//! The model in Burn: the likelihood is a graph that Burn's autodiff sees as a single op.

use anyhow::Result;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use funcify::DType;
use funcify_burn::Differentiable;

use super::{CONSTANT, FLOW, LocalLevel, START, likelihood};
use crate::burn::Adam;
use crate::training::{Loop, Training};

pub(super) struct Model {
    likelihood: Differentiable,
    flow: Tensor<1>,
    adam: Adam<Variances>,
    whose: Loop,
}

#[derive(Module, Debug)]
struct Variances {
    logarithms: Param<Tensor<1>>,
}

impl Model {
    pub(super) fn new(whose: Loop, device: &Device) -> Result<Self> {
        let device = device.clone().autodiff();
        let logarithms = Param::from_tensor(Tensor::from_data(START, &device));
        let likelihood = Differentiable::new(&likelihood(DType::F32)?);
        let flow = Tensor::from_data(FLOW, &device);
        Ok(Model { likelihood, flow, adam: Adam::new(Variances { logarithms }), whose })
    }

    /// Computes the negative log-likelihood per year with Burn's ops, by running the Kalman filter year by year.
    fn own_loop(&self, log_variances: Tensor<1>) -> Tensor<1> {
        let variances = log_variances.exp();
        let (noise, walk) = (variances.clone().slice(0..1), variances.slice(1..2));
        let of_year = |year: usize| self.flow.clone().slice(year..year + 1);
        let (mut level, mut variance, mut sum) = (of_year(0), noise.clone(), noise.zeros_like());
        for year in 1..FLOW.len() {
            let predicted = variance + walk.clone();
            let spread = predicted.clone() + noise.clone();
            let gain = predicted.clone() / spread.clone();
            let surprise = of_year(year) - level.clone();
            let cost = (spread.clone().log() + surprise.clone().square() / spread) * 0.5 + CONSTANT;
            level = level + gain.clone() * surprise;
            variance = predicted * (-gain + 1.0);
            sum = sum + cost;
        }
        sum / (FLOW.len() - 1) as f64
    }
}

impl Training for Model {
    type Batch = ();

    fn batch(&mut self) {}

    fn differentiate(&mut self, (): ()) -> Result<f64> {
        let log_variances = self.adam.module.logarithms.val();
        let loss = match self.whose {
            Loop::Plugin => self.likelihood.call((self.flow.clone(), log_variances))?,
            Loop::Own => self.own_loop(log_variances),
        };
        self.adam.differentiate(loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl LocalLevel for Model {
    fn log_variances(&self) -> Result<[f64; 2]> {
        let values: Vec<f64> = self.adam.module.logarithms.val().into_data().iter::<f64>().collect();
        Ok([values[0], values[1]])
    }
}
