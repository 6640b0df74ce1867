//! Trains the model: schedule, progress bar, validation losses, checkpoints and a plot.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use funcify::HostTensor;
use funcify::files::{read_safetensors, write_safetensors};
use indicatif::{ProgressBar, ProgressStyle};
use plotters::prelude::*;

use crate::Model;
use crate::learner::{Loop, Weights};
use crate::text::Text;

/// The name of the checkpoint file that contains the weights.
pub(crate) const WEIGHTS: &str = "weights.safetensors";
const OPTIMIZER: &str = "optimizer";
const PROGRESS: &str = "progress.safetensors";
const PLOT: &str = "losses.svg";

#[derive(clap::Args, Clone)]
pub(crate) struct Options {
    /// The total number of steps in the schedule.
    #[arg(long, default_value_t = 400)]
    steps: usize,
    /// Interrupt training after this many steps.
    #[arg(long)]
    until: Option<usize>,
    /// The peak learning rate. The schedule is a linear warmup over the first 5 % of the steps, and a cosine decay to a
    /// tenth of the peak.
    #[arg(long, default_value_t = 3e-3)]
    rate: f64,
    /// The number of steps between checkpoints.
    #[arg(long, default_value_t = 100)]
    every: usize,
    /// Start from scratch even if there is a checkpoint.
    #[arg(long = "afresh")]
    start_over: bool,
}

impl Options {
    /// Returns the options of a short training run, for users without a trained model.
    pub(crate) fn short() -> Self {
        Options { steps: 60, until: None, rate: 5e-3, every: 60, start_over: false }
    }

    fn rate_at(&self, step: usize) -> f64 {
        let warm = self.steps as f64 / 20.0;
        let fall = 0.55 + 0.45 * (std::f64::consts::PI * step as f64 / self.steps as f64).cos();
        self.rate * fall * ((step + 1) as f64 / warm).min(1.0)
    }
}

/// The loss history that a checkpoint saves.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Progress {
    /// The training loss of each step.
    losses: Vec<f64>,
    /// The validation losses, each with the number of training steps before it.
    validation: Vec<(usize, f64)>,
}

impl Progress {
    fn save(&self, path: &Path) -> Result<()> {
        let list = |numbers: Vec<f64>| {
            let count = numbers.len();
            HostTensor::from_vec(numbers, [count]).context("a list")
        };
        let (steps, losses) = self.validation.iter().map(|(step, loss)| (*step as f64, *loss)).unzip();
        let tensors = [("losses", self.losses.clone()), ("validated_at", steps), ("validation", losses)];
        let tensors = tensors.into_iter().map(|(name, numbers)| Ok((name.to_string(), list(numbers)?)));
        Ok(write_safetensors(path, &tensors.collect::<Result<BTreeMap<_, _>>>()?)?)
    }

    fn load(path: &Path) -> Result<Self> {
        let tensors = read_safetensors(path)?;
        let list = |name: &str| Ok(tensors.get(name).with_context(|| format!("no `{name}`"))?.to_f64_vec());
        let steps: Result<Vec<f64>> = list("validated_at");
        let steps = steps?.into_iter().map(|step| step as usize);
        let losses: Result<Vec<f64>> = list("losses");
        let validation: Result<Vec<f64>> = list("validation");
        Ok(Progress { losses: losses?, validation: steps.zip(validation?).collect() })
    }
}

/// Trains a model, starting from the last checkpoint if there is one. Returns the weights.
pub(crate) fn run(model: &Model, options: &Options, text: &Text) -> Result<Weights> {
    let (sizes, folder) = (model.sizes(), &model.folder);
    std::fs::create_dir_all(folder)?;
    let file = |name: &str| folder.join(name);
    let resumes = !options.start_over && file(PROGRESS).exists();
    let (mut learner, mut progress) = if resumes {
        let mut learner = model.learner(&read_safetensors(file(WEIGHTS))?, Loop::Plugin)?;
        learner.load_optimizer(&file(&optimizer(model)))?;
        (learner, Progress::load(&file(PROGRESS))?)
    } else {
        (model.learner(&sizes.weights(1)?, Loop::Plugin)?, Progress::default())
    };
    let parameters: usize = learner.weights()?.values().map(|tensor| tensor.shape().iter().product::<usize>()).sum();
    let last = options.until.unwrap_or(options.steps).min(options.steps);
    println!("{parameters} parameters in {:?}, steps {} to {last}", model.framework, progress.losses.len());

    let bar = ProgressBar::new(options.steps as u64).with_position(progress.losses.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:32} {pos}/{len} loss {msg} ({eta} to go)")?);
    for (step, batch) in (progress.losses.len()..last).zip(text.prepare_batches(sizes, progress.losses.len()..last)) {
        let loss = learner.step(&batch, options.rate_at(step))?;
        ensure!(loss.is_finite(), "the loss of step {step} is {loss}");
        progress.losses.push(loss);
        bar.set_message(format!("{loss:.4}"));
        bar.inc(1);
        let done = step + 1;
        if done % options.every == 0 || done == last {
            let held_out = text.validation(sizes);
            let losses = held_out.iter().map(|batch| learner.loss(batch)).collect::<Result<Vec<f64>>>()?;
            let loss = losses.iter().sum::<f64>() / losses.len() as f64;
            bar.suspend(|| println!("after {done} steps: {loss:.4} nats per held-out byte"));
            progress.validation.push((done, loss));
            write_safetensors(file(WEIGHTS), &learner.weights()?)?;
            learner.save_optimizer(&file(&optimizer(model)))?;
            progress.save(&file(PROGRESS))?;
            plot(&progress, &file(PLOT))?;
        }
    }
    bar.finish_and_clear();
    learner.weights()
}

/// Returns the name of the optimizer's file, which depends on the framework.
fn optimizer(model: &Model) -> String {
    format!("{OPTIMIZER}.{:?}", model.framework).to_lowercase()
}

/// Trains once without interruption and once in two halves. Checks that weights and losses agree bit for bit.
pub(crate) fn resumes_exactly(model: &Model, options: &Options, text: &Text) -> Result<()> {
    let of = |name: &str| Model { folder: model.folder.join(name), ..model.clone() };
    let (at_once, in_halves) = (of("at_once"), of("in_halves"));
    let half = options.steps / 2;
    // Set `every` to half of the steps, so that both runs validate at the same steps and record the same losses.
    let options = Options { every: half, ..options.clone() };
    let expected = run(&at_once, &Options { start_over: true, ..options.clone() }, text)?;
    run(&in_halves, &Options { until: Some(half), start_over: true, ..options.clone() }, text)?;
    let found = run(&in_halves, &Options { start_over: false, ..options.clone() }, text)?;
    for (name, tensor) in &expected {
        ensure!(found.get(name) == Some(tensor), "`{name}` differs after a checkpoint");
    }
    let [expected, found] = [&at_once, &in_halves].map(|model| Progress::load(&model.folder.join(PROGRESS)));
    ensure!(expected? == found?, "the losses differ after a checkpoint");
    println!("{} steps equal {half}, a checkpoint, and the rest: all weights and losses, bit for bit", options.steps);
    Ok(())
}

/// Plots the losses to an SVG file.
fn plot(progress: &Progress, path: &Path) -> Result<()> {
    let area = SVGBackend::new(path, (800, 450)).into_drawing_area();
    area.fill(&WHITE)?;
    let highest = progress.losses.iter().copied().fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(44)
        .build_cartesian_2d(0..progress.losses.len().max(1), 0.0..highest)?;
    chart.configure_mesh().x_desc("steps").y_desc("nats per byte").light_line_style(WHITE).draw()?;
    for (name, points, color) in [
        ("as it learns", progress.losses.iter().copied().enumerate().collect::<Vec<_>>(), BLUE),
        ("of what is held out", progress.validation.clone(), RED),
    ] {
        let drawn = chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
        drawn.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.85)).draw()?;
    area.present()?;
    Ok(())
}
