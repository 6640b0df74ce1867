//! The model in Candle. The loss is a graph with a `cond`, and Candle's autodiff sees the whole graph as a single op.

use anyhow::Result;
use candle_core::{Device, Result as CandleResult, Tensor, Var};
use funcify_candle::{Candle, Differentiable};

use super::{Curve, Guard, LENGTH, MAX_READING, Readings, START, guarded_loss};
use crate::candle::Adam;
use crate::training::{Loop, Training};

pub(super) struct Model {
    guarded: Differentiable,
    weights: Var,
    adam: Adam,
    readings: Readings,
    clamped: usize,
    guard: Guard,
    whose: Loop,
    device: Device,
}

/// The operands of the loss: the weights `[4]`, the times `[BATCH]` and the readings `[BATCH]`.
type Operands = (Tensor, Tensor, Tensor);

impl Model {
    pub(super) fn new(guard: Guard, whose: Loop, device: &Device) -> Result<Self> {
        let guarded = Differentiable::compile(&guarded_loss()?, &Candle::new(device.clone()))?;
        let weights = Var::new(&START, device)?;
        let (adam, readings) = (Adam::new(vec![weights.clone()])?, Readings::new()?);
        Ok(Model { guarded, weights, adam, readings, clamped: 0, guard, whose, device: device.clone() })
    }
}

/// Computes the residuals, which are the curve minus the readings. Applies `limit` to the exponents and to the
/// residuals.
fn residuals(operands: &Operands, limit: fn(Tensor) -> CandleResult<Tensor>) -> CandleResult<Tensor> {
    let (weights, times, readings) = operands;
    let [s, k, r, g] = [0, 1, 2, 3].map(|index| weights.narrow(0, index, 1));
    let dying = limit(s?.broadcast_sub(&times.broadcast_mul(&k?)?)?)?.exp()?;
    let resistant = limit(r?.broadcast_sub(&(LENGTH - times)?.broadcast_mul(&g?)?)?)?.exp()?;
    limit(((dying + resistant)?.log()? - readings)?)
}

fn identity(values: Tensor) -> CandleResult<Tensor> {
    Ok(values)
}

fn clamp(values: Tensor) -> CandleResult<Tensor> {
    let is_number = values.eq(&values)?;
    is_number.where_cond(&values, &values.zeros_like()?)?.clamp(-MAX_READING, MAX_READING)
}

/// Returns a u8 mask that is 1 where a value is finite.
fn is_finite(values: &Tensor) -> CandleResult<Tensor> {
    values.abs()?.le(f32::MAX)
}

fn loss(residuals: &Tensor) -> CandleResult<Tensor> {
    residuals.sqr()?.mean_all()
}

/// Computes the same results as the graph of `guarded_loss`, but reads the loss on the host and selects the branch
/// there. Clamps values if the loss is not finite. Returns the loss, and `true` if values were clamped.
fn own_guarded_loss(operands: &Operands) -> CandleResult<(Tensor, bool)> {
    let plain = loss(&residuals(operands, identity)?)?;
    match plain.to_scalar::<f32>()?.is_finite() {
        true => Ok((plain, false)),
        false => Ok((loss(&residuals(operands, clamp)?)?, true)),
    }
}

impl Training for Model {
    type Batch = (Vec<f32>, Vec<f32>);

    fn batch(&mut self) -> Self::Batch {
        self.readings.batch()
    }

    fn differentiate(&mut self, (times, readings): Self::Batch) -> Result<f64> {
        let weights = self.weights.as_tensor().clone();
        let operands = (weights, Tensor::new(times, &self.device)?, Tensor::new(readings, &self.device)?);
        let (loss, clamped) = match (self.guard, self.whose) {
            (Guard::Nothing, _) => (loss(&residuals(&operands, identity)?)?, false),
            (Guard::Where, _) => {
                let (plain, clamped) = (residuals(&operands, identity)?, residuals(&operands, clamp)?);
                (loss(&is_finite(&plain)?.where_cond(&plain, &clamped)?)?, false)
            }
            (Guard::Cond, Loop::Plugin) => {
                let (weights, times, readings) = operands;
                let results = self.guarded.call(&[weights, times, readings])?;
                (results[0].clone(), results[1].to_scalar::<u8>()? != 0)
            }
            (Guard::Cond, Loop::Own) => own_guarded_loss(&operands)?,
        };
        self.clamped += usize::from(clamped);
        self.adam.differentiate(&loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl Curve for Model {
    fn fitted(&self) -> Result<Vec<f32>> {
        Ok(self.weights.to_vec1()?)
    }

    fn clamped(&self) -> (usize, usize) {
        (self.clamped, self.readings.invalid)
    }
}
