//! The model in Burn. The loss is a graph with a `cond`, and Burn's autodiff sees the whole graph as a single op.

use anyhow::Result;
use burn::module::{Module, Param};
use burn::tensor::{Bool, Device, Tensor};
use funcify_burn::Differentiable;

use super::{Curve, Guard, LENGTH, MAX_READING, Readings, START, guarded_loss};
use crate::burn::Adam;
use crate::training::{Loop, Training};

pub(super) struct Model {
    guarded: Differentiable,
    adam: Adam<Weights>,
    readings: Readings,
    clamped: usize,
    guard: Guard,
    whose: Loop,
    device: Device,
}

#[derive(Module, Debug)]
struct Weights {
    weights: Param<Tensor<1>>,
}

/// The operands of the loss: the weights `[4]`, the times `[BATCH]` and the readings `[BATCH]`.
type Operands = (Tensor<1>, Tensor<1>, Tensor<1>);

impl Model {
    pub(super) fn new(guard: Guard, whose: Loop, device: &Device) -> Result<Self> {
        let device = device.clone().autodiff();
        let weights = Weights { weights: Param::from_tensor(Tensor::from_data(START, &device)) };
        let (guarded, adam) = (Differentiable::new(&guarded_loss()?), Adam::new(weights));
        Ok(Model { guarded, adam, readings: Readings::new()?, clamped: 0, guard, whose, device })
    }
}

/// Computes the residuals, which are the curve minus the readings. Applies `limit` to the exponents and to the
/// residuals.
fn residuals(operands: &Operands, limit: fn(Tensor<1>) -> Tensor<1>) -> Tensor<1> {
    let (weights, times, readings) = operands.clone();
    let [s, k, r, g] = [0, 1, 2, 3].map(|index| weights.clone().slice(index..index + 1));
    let dying = limit(s - k * times.clone()).exp();
    let resistant = limit(r - g * (times.neg() + LENGTH)).exp();
    limit((dying + resistant).log() - readings)
}

fn identity(values: Tensor<1>) -> Tensor<1> {
    values
}

fn clamp(values: Tensor<1>) -> Tensor<1> {
    let is_nan = values.clone().is_nan();
    values.mask_fill(is_nan, 0.0).clamp(-MAX_READING, MAX_READING)
}

fn loss(residuals: Tensor<1>) -> Tensor<1> {
    residuals.square().mean()
}

/// Computes the same results as the graph of `guarded_loss`, but reads the loss on the host and selects the branch
/// there. Clamps values if the loss is not finite. Returns the loss, and `true` if values were clamped.
fn own_guarded_loss(operands: &Operands) -> (Tensor<1>, bool) {
    let plain = loss(residuals(operands, identity));
    match plain.clone().into_scalar::<f32>().is_finite() {
        true => (plain, false),
        false => (loss(residuals(operands, clamp)), true),
    }
}

impl Training for Model {
    type Batch = (Vec<f32>, Vec<f32>);

    fn batch(&mut self) -> Self::Batch {
        self.readings.batch()
    }

    fn differentiate(&mut self, (times, readings): Self::Batch) -> Result<f64> {
        let tensor = |values: Vec<f32>| Tensor::<1>::from_data(values.as_slice(), &self.device);
        let operands = (self.adam.module.weights.val(), tensor(times), tensor(readings));
        let (loss, clamped) = match (self.guard, self.whose) {
            (Guard::Nothing, _) => (loss(residuals(&operands, identity)), false),
            (Guard::Where, _) => {
                let (plain, clamped) = (residuals(&operands, identity), residuals(&operands, clamp));
                let is_finite = plain.clone().is_finite();
                (loss(clamped.mask_where(is_finite, plain)), false)
            }
            (Guard::Cond, Loop::Plugin) => {
                let (loss, clamped): (Tensor<1>, Tensor<1, Bool>) = self.guarded.call(operands)?;
                (loss, clamped.into_scalar::<bool>())
            }
            (Guard::Cond, Loop::Own) => own_guarded_loss(&operands),
        };
        self.clamped += usize::from(clamped);
        self.adam.differentiate(loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl Curve for Model {
    fn fitted(&self) -> Result<Vec<f32>> {
        Ok(self.adam.module.weights.val().into_data().iter::<f32>().collect())
    }

    fn clamped(&self) -> (usize, usize) {
        (self.clamped, self.readings.invalid)
    }
}
