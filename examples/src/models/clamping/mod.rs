//! Fits a curve to batches of readings. In some batches, values overflow. For such a batch, a `cond` runs a branch that
//! clamps the values. For all other batches, it runs the plain computation.
//!
//! The model is a time-kill curve with regrowth: an antibiotic kills most bacteria, but a few resistant ones multiply.
//! The readings are noisy logarithms of the number of bacteria, `ln N(t) = ln(exp(s - k t) + exp(r - g (12 - t)))`,
//! over 12 hours. The fitted parameters are `s, k, r, g` (f32 `[4]`). A few of the times are in milliseconds instead of
//! hours, so `exp` overflows. A few of the readings failed and are NaN.
//!
//! A single such time or reading ruins all weights, because neither the loss nor its gradients are finite. The usual
//! mask, `where(is_finite(f(x)), f(x), clamped)`, makes only the loss finite. The gradient is still zero times the
//! derivative of `f`, which is infinite. The weights therefore become NaN anyway, and the finite loss hides this.
//!
//! With `cond`, the computation is unchanged for a batch whose residuals are all finite. In any other batch, the
//! exponents are clamped so that `exp` cannot overflow. The residuals are clamped too: NaN becomes zero, and infinities
//! become ±[`MAX_READING`]. The branches must contain the whole computation. An `exp` before the `cond` could overflow,
//! and a branch that ignores the result would pass a zero gradient to that `exp`. Zero times infinity is again NaN.

mod burn;
mod candle;

use anyhow::{Result, anyhow, ensure};
use funcify::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Normal};

use crate::training::{Loop, Schedule, Training, train};
use crate::{Framework, Run};

const NAMES: [&str; 4] = ["ln N at first", "killed in an hour", "ln N in the end", "growth in an hour"];
/// The true parameters, which generate the readings.
const TRUE: [f32; 4] = [13.8, 1.5, 10.6, 0.5];
/// The initial parameters of the fit.
const START: [f32; 4] = [10.0, 0.5, 8.0, 0.2];
/// The duration of an experiment, in hours.
const LENGTH: f64 = 12.0;
/// The standard deviation of a reading's noise.
const NOISE: f32 = 0.3;
/// The number of readings in a batch.
const BATCH: usize = 64;
/// The probability that a time is in milliseconds, and also the probability that a reading failed.
const INVALID: f64 = 1.0 / 400.0;
/// The maximum reading: a millilitre holds at most `e^30` bacteria.
const MAX_READING: f64 = 30.0;

/// The method, if any, that protects the fit from invalid values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Guard {
    Nothing,
    /// Uses `where` to replace each non-finite residual with the result of the clamped computation.
    Where,
    /// Uses a `cond` that runs its clamping branch if any residual of the batch is not finite.
    Cond,
}

/// A generator of batches of readings.
struct Readings {
    random: StdRng,
    noise: Normal<f32>,
    /// The number of batches drawn so far that contain an invalid time or reading.
    invalid: usize,
}

impl Readings {
    fn new() -> Result<Self> {
        Ok(Readings { random: StdRng::seed_from_u64(3), noise: Normal::new(0.0, NOISE)?, invalid: 0 })
    }

    /// Draws a batch of times, and of readings at these times: noisy logarithms of the number of bacteria.
    fn batch(&mut self) -> (Vec<f32>, Vec<f32>) {
        let [s, k, r, g] = TRUE;
        let mut is_invalid = false;
        let readings = (0..BATCH).map(|_| {
            let hours: f32 = self.random.random_range(0.5..LENGTH as f32);
            let reading = ((s - k * hours).exp() + (r - g * (LENGTH as f32 - hours)).exp()).ln()
                + self.noise.sample(&mut self.random);
            let (is_in_milliseconds, has_failed) = (self.random.random_bool(INVALID), self.random.random_bool(INVALID));
            is_invalid |= is_in_milliseconds || has_failed;
            (if is_in_milliseconds { 3.6e6 * hours } else { hours }, if has_failed { f32::NAN } else { reading })
        });
        let readings = readings.unzip();
        self.invalid += usize::from(is_invalid);
        readings
    }
}

/// Builds the graph of a batch's loss. If a residual is not finite, the graph clamps values and sets its second output
/// to true. The inputs are the weights `[4]`, the times `[BATCH]` and the readings `[BATCH]`.
fn guarded_loss() -> funcify::Result<Graph> {
    Graph::build("guarded", |g| {
        let weights = g.input("weights", TensorType::new(DType::F32, [4]));
        let [times, readings] = ["times", "readings"].map(|name| g.input(name, TensorType::new(DType::F32, [BATCH])));
        let residuals = |limit: fn(Value) -> Value| {
            let [s, k, r, g] = [0, 1, 2, 3].map(|index| weights.index(0, index));
            let (dying, resistant) = (limit(s - k * times).exp(), limit(r - g * (LENGTH - times)).exp());
            limit((dying + resistant).log() - readings)
        };
        let loss = |residuals: Value| residuals.square().mean(0);
        let clamp = |values: Value| select(values.is_nan(), 0.0, values).clamp(-MAX_READING, MAX_READING);
        let as_they_are = || residuals(|values| values);
        let are_finite = as_they_are().is_finite().all(0);
        cond(are_finite, || (loss(as_they_are()), constant(false)), || (loss(residuals(clamp)), constant(true)))
    })
}

/// The interface of the model, which is implemented once for each framework.
trait Curve: Training {
    /// Returns the four fitted parameters.
    fn fitted(&self) -> Result<Vec<f32>>;

    /// Returns the number of batches that took the clamping branch, and the number of batches with invalid times or
    /// readings.
    fn clamped(&self) -> (usize, usize);
}

pub(crate) fn run(run: &Run) -> Result<()> {
    match &run.framework {
        Framework::Candle(device) => fit(run, |guard, whose| candle::Model::new(guard, whose, device)),
        Framework::Burn(device) => fit(run, |guard, whose| burn::Model::new(guard, whose, device)),
    }
}

fn fit<M: Curve>(run: &Run, start: impl Fn(Guard, Loop) -> Result<M>) -> Result<()> {
    let schedule = Schedule { steps: run.quick_or_full(100, 1000), rate: run.quick_or_full(0.3, 0.2) };
    if !run.compare {
        let (step, loss, after) = train_until_nan(start(Guard::Nothing, Loop::Own)?)?;
        println!("  with no guard, the loss of step {step} is {loss}, and then {after}");
        ensure!(!loss.is_finite() && after.is_nan(), "an invalid reading should ruin the loss");
        let (step, loss, after) = train_until_nan(start(Guard::Where, Loop::Own)?)?;
        println!("  with a `where`, the loss of step {step} is {loss:.1} and then {after:.1}, but all weights are NaN");
        ensure!(loss.is_finite() && after.is_finite(), "a mask should hide invalid values");
    }
    let Some((model, losses)) = train(run, schedule, |whose| start(Guard::Cond, whose))? else { return Ok(()) };

    let (clamped, invalid) = model.clamped();
    let (all, as_they_are) = (losses.len(), losses.len() - clamped);
    println!("  of {all} batches, {as_they_are} were computed unchanged and {clamped} clamped");
    ensure!(clamped == invalid && clamped > 0, "{invalid} batches had invalid readings");
    // Use the median of the last losses, because the loss of a single batch is not meaningful if its values were
    // clamped.
    let mut last: Vec<f64> = losses.iter().rev().take(21).copied().collect();
    last.sort_by(f64::total_cmp);
    let noise = f64::from(NOISE * NOISE);
    println!("  the median of the last losses is {:.3}; the variance of the noise is {noise:.3}", last[10]);
    ensure!(last[10] < 1.5 * noise, "the residuals exceed the noise");
    println!("  {:18} {:>9} {:>9}", "", "fitted", "true");
    let fitted = model.fitted()?;
    for ((name, fitted), of_data) in NAMES.into_iter().zip(&fitted).zip(TRUE) {
        println!("  {name:18} {fitted:>9.3} {of_data:>9.3}");
    }
    let tolerance = run.quick_or_full(0.05, 0.01);
    let is_close = |(fitted, of_data): (&f32, f32)| (fitted / of_data - 1.0).abs() < tolerance;
    ensure!(fitted.iter().zip(TRUE).all(is_close), "a parameter is off by more than {:.0}%", 100.0 * tolerance);
    Ok(())
}

/// Trains until all weights are NaN. Returns the number of the step that made them NaN (counted from 1), the loss of
/// that step, and the loss of the next step. Fails if the weights are not NaN after 100 steps.
fn train_until_nan<M: Curve>(mut model: M) -> Result<(usize, f64, f64)> {
    for step in 1..=100 {
        let loss = model.step(0.05)?;
        if model.fitted()?.iter().all(|number| number.is_nan()) {
            return Ok((step, loss, model.step(0.05)?));
        }
    }
    Err(anyhow!("the weights are not NaN after 100 steps"))
}
