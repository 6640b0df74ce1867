//! The model in Burn: the integrator is a scan whose body is a closure over a module and tensors.

use anyhow::Result;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, TensorData};
use funcify_burn::Scan;

use super::{Batch, Field, START, Segments, Sizes};
use crate::burn::Adam;
use crate::training::{Loop, Training};

pub(super) struct Model {
    adam: Adam<Network>,
    segments: Segments,
    whose: Loop,
    device: Device,
}

/// The network that models the vector field, `[B,2] -> [B,2]`.
#[derive(Module, Debug)]
pub(super) struct Network {
    hidden: Linear,
    slope: Linear,
}

impl Network {
    pub(super) fn new(sizes: Sizes, device: &Device) -> Self {
        let device = device.clone().autodiff();
        device.seed(0);
        let hidden = LinearConfig::new(2, sizes.hidden).init(&device);
        let slope = LinearConfig::new(sizes.hidden, 2).init(&device);
        Network { hidden, slope }.materialize()
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.slope.forward(self.hidden.forward(x).tanh())
    }

    /// Computes one step of the classical Runge-Kutta method.
    fn runge_kutta(&self, x: Tensor<2>, step: f64) -> Tensor<2> {
        let first = self.forward(x.clone());
        let second = self.forward(x.clone() + first.clone() * (step / 2.0));
        let third = self.forward(x.clone() + second.clone() * (step / 2.0));
        let fourth = self.forward(x.clone() + third.clone() * step);
        x + (first + (second + third) * 2.0 + fourth) * (step / 6.0)
    }

    /// Integrates the vector field from `start`. Returns the point after each step, `[T,B,2]`.
    fn integrate(&self, start: Tensor<2>, step: f64, steps: usize) -> Result<Tensor<3>> {
        let (_, trajectory) = Scan::new().length(steps).run(self, start, (), |network, x, ()| {
            let next = network.runge_kutta(x, step);
            (next.clone(), next)
        })?;
        Ok(trajectory)
    }

    fn own_loop(&self, start: Tensor<2>, step: f64, steps: usize) -> Tensor<3> {
        let (mut x, mut trajectory) = (start, Vec::with_capacity(steps));
        for _ in 0..steps {
            x = self.runge_kutta(x, step);
            trajectory.push(x.clone());
        }
        Tensor::stack(trajectory, 0)
    }
}

impl Model {
    pub(super) fn new(whose: Loop, network: Network, sizes: Sizes, device: &Device) -> Self {
        let device = device.clone().autodiff();
        Model { adam: Adam::new(network), segments: Segments::new(sizes), whose, device }
    }
}

impl Training for Model {
    type Batch = Batch;

    fn batch(&mut self) -> Self::Batch {
        self.segments.next()
    }

    fn differentiate(&mut self, batch: Self::Batch) -> Result<f64> {
        let Sizes { step, piece, batch: count, .. } = self.segments.sizes;
        let start = Tensor::from_data(TensorData::new(batch.starts, [count, 2]), &self.device);
        let rest = Tensor::from_data(TensorData::new(batch.rest, [piece, count, 2]), &self.device);
        let network = &self.adam.module;
        let trajectory = match self.whose {
            Loop::Plugin => network.integrate(start, step, piece)?,
            Loop::Own => network.own_loop(start, step, piece),
        };
        let loss = (trajectory - rest).square().mean();
        self.adam.differentiate(loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl Field for Model {
    fn trajectory(&self, step: f64, steps: usize) -> Result<Vec<f32>> {
        let start = Tensor::from_data([START], &self.device.clone().inner());
        let trajectory = self.adam.module.valid().integrate(start, step, steps)?;
        Ok(trajectory.into_data().iter::<f32>().collect())
    }
}
