//! In Candle: the integrator is a closure on Candle's tensors, and its loop one op of Candle's autodiff.

use anyhow::Result;
use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{Linear, linear};
use funcify_candle::{ScanOptions, scan_with};

use super::{Field, Pieces, START, Sizes};
use crate::candle::{Adam, seeded};
use crate::training::{Loop, Training};

pub(super) struct Model {
    network: Network,
    adam: Adam,
    pieces: Pieces,
    whose: Loop,
    device: Device,
}

/// The vector field, `[B,2] -> [B,2]`.
#[derive(Clone)]
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
    /// A step of the classical Runge-Kutta method.
    fn runge_kutta(&self, x: &Tensor, step: f64) -> candle_core::Result<Tensor> {
        let first = self.forward(x)?;
        let second = self.forward(&(x + (&first * (step / 2.0))?)?)?;
        let third = self.forward(&(x + (&second * (step / 2.0))?)?)?;
        let fourth = self.forward(&(x + (&third * step)?)?)?;
        let middle = ((second + third)? * 2.0)?;
        x + ((first + middle + fourth)? * (step / 6.0))?
    }
}

impl Model {
    pub(super) fn new(whose: Loop, sizes: Sizes, device: &Device) -> Result<Self> {
        let (vars, vb) = seeded(0, DType::F32, device);
        let hidden = linear(2, sizes.hidden, vb.pp("hidden"))?;
        let slope = linear(sizes.hidden, 2, vb.pp("slope"))?;
        let adam = Adam::new(vars.all_vars())?;
        let network = Network { hidden, slope };
        Ok(Model { network, adam, pieces: Pieces::new(sizes), whose, device: device.clone() })
    }

    /// The points after each step, `[T,B,2]`.
    fn integrate(&self, start: &Tensor, step: f64, steps: usize) -> candle_core::Result<Tensor> {
        let network = self.network.clone();
        // A piece is short: without `keep_graphs`, a training step takes 1.4 times as long.
        let options = ScanOptions::new().length(steps).keep_graphs();
        let (_, way) = scan_with(options, start, &(), move |x, ()| {
            let next = network.runge_kutta(&x, step)?;
            Ok((next.clone(), next))
        })?;
        Ok(way)
    }

    fn own_loop(&self, start: &Tensor, step: f64, steps: usize) -> candle_core::Result<Tensor> {
        let (mut x, mut way) = (start.clone(), Vec::with_capacity(steps));
        for _ in 0..steps {
            x = self.network.runge_kutta(&x, step)?;
            way.push(x.clone());
        }
        Tensor::stack(&way, 0)
    }
}

impl Training for Model {
    fn step(&mut self, rate: f64) -> Result<f64> {
        let batch = self.pieces.next();
        let Sizes { step, piece, batch: count, .. } = self.pieces.sizes;
        let start = Tensor::from_vec(batch.starts, (count, 2), &self.device)?;
        let rest = Tensor::from_vec(batch.rest, (piece, count, 2), &self.device)?;
        let way = match self.whose {
            Loop::Plugin => self.integrate(&start, step, piece)?,
            Loop::Own => self.own_loop(&start, step, piece)?,
        };
        let loss = (way - rest)?.sqr()?.mean_all()?;
        self.adam.step(rate, &loss)
    }
}

impl Field for Model {
    fn way(&self, step: f64, steps: usize) -> Result<Vec<f32>> {
        let start = Tensor::new(&[START], &self.device)?.to_dtype(DType::F32)?;
        Ok(self.integrate(&start, step, steps)?.flatten_all()?.to_vec1()?)
    }
}
