//! Trains models with funcify's loop, and compares them with the same models that use the framework's own loop.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{MEMORY, Run};

/// The number of training steps for which the losses of the two loops are compared.
const COMPARED_LOSSES: usize = 20;
/// The maximum allowed difference between the losses of the two loops.
const TOLERANCE: f64 = 1e-3;
/// The minimum number of steps to measure with each loop, and the minimum duration of the whole measurement. The
/// duration is needed because the times of short steps vary.
const ROUNDS: (usize, Duration) = (7, Duration::from_secs(1));

/// The loop implementation that a model uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loop {
    /// funcify's plug-in, which runs the loop as a single op of the framework's autodiff.
    Plugin,
    /// A loop written with the framework's ops. The framework's autodiff records every op of every step.
    Own,
}

/// A model with its optimizer and its data.
pub(crate) trait Training {
    /// The training data of one step.
    type Batch;

    /// Returns the next batch.
    fn batch(&mut self) -> Self::Batch;

    /// Computes the loss of a batch and its gradients, and stores the gradients in the optimizer. Returns the loss.
    fn differentiate(&mut self, batch: Self::Batch) -> Result<f64>;

    /// Updates the parameters with the stored gradients and this learning rate.
    fn update(&mut self, rate: f64) -> Result<()>;

    /// Trains on the next batch, with this learning rate. Returns the loss before the update.
    fn step(&mut self, rate: f64) -> Result<f64> {
        let batch = self.batch();
        let loss = self.differentiate(batch)?;
        self.update(rate)?;
        Ok(loss)
    }
}

/// The number of training steps and the learning rate.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) steps: usize,
    /// The peak learning rate. The schedule is a linear warmup over the first 5 % of the steps, and a cosine decay to
    /// zero.
    pub(crate) rate: f64,
}

impl Schedule {
    fn rate_at(self, step: usize) -> f64 {
        let warm = self.steps as f64 / 20.0;
        let fall = (1.0 + (std::f64::consts::PI * step as f64 / self.steps as f64).cos()) / 2.0;
        self.rate * fall * ((step + 1) as f64 / warm).min(1.0)
    }
}

/// Trains the model that `start` builds, with funcify's loop. Returns the model and the loss of each step.
///
/// First trains with both loops for a few steps, from the same weights, and checks that the losses agree. With
/// `--compare`, measures both loops instead of training, and returns `None`.
pub(crate) fn train<T: Training>(
    run: &Run,
    schedule: Schedule,
    start: impl Fn(Loop) -> Result<T>,
) -> Result<Option<(T, Vec<f64>)>> {
    let steps = schedule.steps;
    let (mut plugin, mut own) = (start(Loop::Plugin)?, start(Loop::Own)?);
    let mut losses = Vec::with_capacity(steps);
    let mut apart = 0f64;
    for step in 0..COMPARED_LOSSES.min(steps) {
        let rate = schedule.rate_at(step);
        let (plugin, own) = (plugin.step(rate)?, own.step(rate)?);
        losses.push(plugin);
        apart = apart.max((plugin - own).abs());
    }
    println!("  the first {} losses of the two loops differ by {apart:.1e} at most", losses.len());
    ensure!(apart <= TOLERANCE, "the training curves differ by {apart:e}: {losses:?}");
    if run.compare {
        run.comparisons.borrow_mut().push(Comparison::measure(&mut plugin, &mut own)?);
        return Ok(None);
    }
    drop(own);

    let bar = ProgressBar::new(steps as u64).with_position(losses.len() as u64);
    bar.set_style(ProgressStyle::with_template("  {bar:32} {pos}/{len} loss {msg} ({eta} to go)")?);
    while losses.len() < steps {
        let loss = plugin.step(schedule.rate_at(losses.len()))?;
        ensure!(loss.is_finite(), "the loss of step {} is {loss}", losses.len());
        losses.push(loss);
        bar.set_message(format!("{loss:.5}"));
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let [first, .., last] = losses[..] {
        println!("  {steps} steps: the loss fell from {first:.5} to {last:.5}");
    }
    Ok(Some((plugin, losses)))
}

/// The median time and median peak memory of computing a loss and its gradients with each of the two loops. The
/// measurement alternates between the loops. It excludes the preparation of batches and the optimizer's updates.
pub(crate) struct Comparison {
    plugin: Cost,
    own: Cost,
}

impl Comparison {
    fn measure(plugin: &mut impl Training, own: &mut impl Training) -> Result<Comparison> {
        let (mut of_plugin, mut of_own) = (Vec::new(), Vec::new());
        let (least, long) = ROUNDS;
        let start = Instant::now();
        while of_own.len() < least || start.elapsed() < long {
            of_plugin.push(Cost::measure(plugin)?);
            of_own.push(Cost::measure(own)?);
        }
        Ok(Comparison { plugin: Cost::median(&of_plugin), own: Cost::median(&of_own) })
    }
}

/// The cost of computing a loss and its gradients.
pub(crate) struct Cost {
    seconds: f64,
    /// The peak host memory, minus the memory in use before the measurement.
    pub(crate) bytes: usize,
}

impl Cost {
    /// Trains on the next batch, and measures the cost of computing the loss and its gradients.
    pub(crate) fn measure(training: &mut impl Training) -> Result<Cost> {
        let batch = training.batch();
        let held = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let start = Instant::now();
        training.differentiate(batch)?;
        let seconds = start.elapsed().as_secs_f64();
        let bytes = MEMORY.peak_usage().saturating_sub(held);
        // The cost of a step does not depend on the learning rate, so any small rate will do.
        training.update(1e-6)?;
        Ok(Cost { seconds, bytes })
    }

    fn median(costs: &[Cost]) -> Cost {
        let mut seconds: Vec<f64> = costs.iter().map(|cost| cost.seconds).collect();
        let mut bytes: Vec<usize> = costs.iter().map(|cost| cost.bytes).collect();
        seconds.sort_by(f64::total_cmp);
        bytes.sort_unstable();
        Cost { seconds: seconds[costs.len() / 2], bytes: bytes[costs.len() / 2] }
    }
}

fn duration(milliseconds: f64) -> String {
    if milliseconds < 0.1 { format!("{:.1} µs", milliseconds * 1e3) } else { format!("{milliseconds:.2} ms") }
}

/// Formats comparisons as a Markdown table of times, and of memory in MB.
pub(crate) fn table(rows: &[(&str, &String, Comparison)]) -> String {
    let mut table = String::from(
        "| example | backend | loss and gradients | the framework's loop | | memory | the framework's loop | |\n",
    );
    table += "|---|---|--:|--:|--:|--:|--:|--:|\n";
    for (example, backend, Comparison { plugin, own }) in rows {
        let [time, of_own] = [plugin, own].map(|cost| cost.seconds * 1e3);
        let time = format!("{} | {} | {:.2}", duration(time), duration(of_own), of_own / time);
        // `MEMORY` counts only host memory, so the memory cells of `burn-wgpu` are empty.
        let [memory, of_own] = [plugin, own].map(|cost| cost.bytes as f64 / 1e6);
        let memory = match backend.as_str() {
            "burn-wgpu" => "| | ".to_string(),
            _ => format!("{memory:.2} MB | {of_own:.2} MB | {:.2}", of_own / memory),
        };
        table += &format!("| `{example}` | {backend} | {time} | {memory} |\n");
    }
    table
}
