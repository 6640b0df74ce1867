//! The model in Candle: the integrator is a graph that Candle's autodiff sees as a single op.

use anyhow::Result;
use candle_core::{Device, Module, Tensor};
use candle_nn::{Linear, linear};
use funcify::prelude::*;
use funcify_candle::{Candle, Differentiable};

use super::{Batch, Field, START, Segments, Sizes};
use crate::candle::{Adam, seeded};
use crate::training::{Loop, Training};

pub(super) struct Model {
    network: Network,
    /// The integrator, compiled for the number of steps of a segment.
    integrator: Differentiable,
    adam: Adam,
    segments: Segments,
    whose: Loop,
    device: Device,
}

/// The network that models the vector field, `[B,2] -> [B,2]`.
struct Network {
    hidden: Linear,
    slope: Linear,
}

impl Module for Network {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        self.slope.forward(&self.hidden.forward(x)?.tanh()?)
    }
}

impl Network {
    /// Computes one step of the classical Runge-Kutta method.
    fn runge_kutta(&self, x: &Tensor, step: f64) -> candle_core::Result<Tensor> {
        let first = self.forward(x)?;
        let second = self.forward(&(x + (&first * (step / 2.0))?)?)?;
        let third = self.forward(&(x + (&second * (step / 2.0))?)?)?;
        let fourth = self.forward(&(x + (&third * step)?)?)?;
        let middle = ((second + third)? * 2.0)?;
        x + ((first + middle + fourth)? * (step / 6.0))?
    }
}

/// Builds the graph that integrates the vector field from start points `[B,2]`. Its output is the point after each
/// step, `[T,B,2]`. The network's weights are inputs, in Candle's layout.
fn integrator(hidden: usize, step: f64, steps: usize) -> funcify::Result<Graph> {
    Graph::build("integrator", |g| {
        let start = g.input("start", "f32[B,2]");
        let input = |name: &str, sizes: &[usize]| g.input(name, TensorType::new(DType::F32, sizes));
        let (first, first_bias) = (input("hidden_weight", &[hidden, 2]), input("hidden_bias", &[hidden]));
        let (second, second_bias) = (input("slope_weight", &[2, hidden]), input("slope_bias", &[2]));
        let linear = |x: Value, weight: Value, bias: Value| x.matmul(weight.transpose([1, 0])) + bias;
        let field = |x: Value| linear(linear(x, first, first_bias).tanh(), second, second_bias);
        let (_, trajectory) = scan_with(ScanOptions::new().length(steps), start, (), |x, ()| {
            let first = field(x);
            let second = field(x + first * (step / 2.0));
            let third = field(x + second * (step / 2.0));
            let fourth = field(x + third * step);
            let next = x + (first + (second + third) * 2.0 + fourth) * (step / 6.0);
            (next, next)
        });
        trajectory
    })
}

impl Model {
    pub(super) fn new(whose: Loop, sizes: Sizes, device: &Device) -> Result<Self> {
        let (vars, vb) = seeded(0, candle_core::DType::F32, device);
        let hidden = linear(2, sizes.hidden, vb.pp("hidden"))?;
        let slope = linear(sizes.hidden, 2, vb.pp("slope"))?;
        let adam = Adam::new(vars.all_vars())?;
        let integrator = integrator(sizes.hidden, sizes.step, sizes.piece)?;
        let integrator = Differentiable::compile(&integrator, &Candle::new(device.clone()))?;
        let network = Network { hidden, slope };
        Ok(Model { network, integrator, adam, segments: Segments::new(sizes), whose, device: device.clone() })
    }

    /// Runs `integrator` with the current weights from `start`. Returns the point after each step, `[T,B,2]`.
    fn integrate(&self, integrator: &Differentiable, start: &Tensor) -> candle_core::Result<Tensor> {
        let layers = [&self.network.hidden, &self.network.slope];
        let weights = layers.into_iter().flat_map(|layer| [Some(layer.weight()), layer.bias()]).flatten();
        let arguments: Vec<Tensor> = [start].into_iter().chain(weights).cloned().collect();
        Ok(integrator.call(&arguments)?.remove(0))
    }

    fn own_loop(&self, start: &Tensor, step: f64, steps: usize) -> candle_core::Result<Tensor> {
        let (mut x, mut trajectory) = (start.clone(), Vec::with_capacity(steps));
        for _ in 0..steps {
            x = self.network.runge_kutta(&x, step)?;
            trajectory.push(x.clone());
        }
        Tensor::stack(&trajectory, 0)
    }
}

impl Training for Model {
    type Batch = Batch;

    fn batch(&mut self) -> Self::Batch {
        self.segments.next()
    }

    fn differentiate(&mut self, batch: Self::Batch) -> Result<f64> {
        let Sizes { step, piece, batch: count, .. } = self.segments.sizes;
        let start = Tensor::from_vec(batch.starts, (count, 2), &self.device)?;
        let rest = Tensor::from_vec(batch.rest, (piece, count, 2), &self.device)?;
        let trajectory = match self.whose {
            Loop::Plugin => self.integrate(&self.integrator, &start)?,
            Loop::Own => self.own_loop(&start, step, piece)?,
        };
        let loss = (trajectory - rest)?.sqr()?.mean_all()?;
        self.adam.differentiate(&loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl Field for Model {
    fn trajectory(&self, step: f64, steps: usize) -> Result<Vec<f32>> {
        let start = Tensor::new(&[START], &self.device)?.to_dtype(candle_core::DType::F32)?;
        let integrator = integrator(self.segments.sizes.hidden, step, steps)?;
        let integrator = Differentiable::compile(&integrator, &Candle::new(self.device.clone()))?;
        Ok(self.integrate(&integrator, &start)?.flatten_all()?.to_vec1()?)
    }
}
