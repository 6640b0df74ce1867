//! The adding problem over a thousand steps, with S5. The problem requires a memory that spans the whole sequence.
//!
//! Each row of a sequence contains a number between 0 and 1 and a marker. Two of the markers are 1, one in each half of
//! the sequence; the others are 0. The answer is the sum of the two marked numbers. Always answering 1 gives a mean
//! squared error of 1/6. The problem is experiment 4 of Hochreiter and Schmidhuber, Long Short-Term Memory (1997), with
//! one marker in each half as in Le, Jaitly and Hinton (2015).
//!
//! The model maps each row to features, runs a state space layer, and reads the answer from the layer's last output:
//! `[B,T,2] -> [B,T,H] -> [B,T,H] -> [B]`, in f32. At the end of a sequence, the marked numbers survive only in the
//! layer's complex states.

mod burn;
mod candle;

use anyhow::{Result, ensure};
use funcify::nn::S5;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::training::{Loop, Schedule, Training, train};
use crate::{Framework, Run};

/// The mean squared error of always answering 1. It is twice the variance of a uniform random number between 0 and 1.
const CONSTANT_ANSWER: f64 = 1.0 / 6.0;
/// The absolute error below which an answer counts as correct (Hochreiter and Schmidhuber 1997).
const MAX_RIGHT_ERROR: f32 = 0.04;

/// The seed of the initial weights.
const SEED: u64 = 1;
/// The standard deviation of the encoder's initial weights `W`. The features of a row are `relu(W row - 1)`. The
/// deviation is chosen so that few elements of `W row` exceed 1 unless the row is marked. Otherwise, a thousand
/// unmarked rows would drown out the marked ones in the layer's states.
const WEIGHT_DEVIATION: f64 = 1.0;
/// The factor that scales the features. It is large because the slowest states of S5 add only a thousandth of their
/// input in each step.
const FEATURE_SCALE: f64 = 10.0;

/// The sizes of the model and of its training data.
#[derive(Clone, Copy)]
struct Sizes {
    steps: usize,
    batch: usize,
    features: usize,
    states: usize,
}

impl Sizes {
    /// Builds the state space layer with a sequential scan. An associative scan runs fewer, larger ops, but does more
    /// work in total. On two cores, it took 1.3 times as long as the sequential scan with Burn, and twice as long with
    /// Candle. Both scans used the same amount of memory.
    fn layer(self) -> S5 {
        S5 { associative: false, ..S5::new(self.features, self.states) }
    }

    fn problems(self, seed: u64) -> Problems {
        Problems { steps: self.steps, batch: self.batch, random: StdRng::seed_from_u64(seed) }
    }
}

/// A batch of sequences with their answers.
struct Batch {
    /// The numbers and markers, `[B,T,2]`.
    rows: Vec<f32>,
    shape: [usize; 3],
    /// The answers, `[B]`.
    sums: Vec<f32>,
}

/// A generator of random batches.
struct Problems {
    steps: usize,
    batch: usize,
    random: StdRng,
}

impl Problems {
    fn next(&mut self) -> Batch {
        let (half, shape) = (self.steps / 2, [self.batch, self.steps, 2]);
        let (mut rows, mut sums) = (Vec::with_capacity(shape.iter().product()), Vec::with_capacity(self.batch));
        for _ in 0..self.batch {
            let numbers: Vec<f32> = (0..self.steps).map(|_| self.random.random()).collect();
            let marked = [self.random.random_range(..half), self.random.random_range(half..self.steps)];
            sums.push(marked.iter().map(|step| numbers[*step]).sum());
            rows.extend(numbers.iter().enumerate().flat_map(|(step, number)| {
                let marker = if marked.contains(&step) { 1.0 } else { 0.0 };
                [*number, marker]
            }));
        }
        Batch { rows, shape, sums }
    }
}

impl Batch {
    /// Returns the two marked numbers of a sequence.
    fn marked_numbers(&self, sequence: usize) -> Vec<f32> {
        let steps = self.rows.chunks_exact(2).skip(sequence * self.shape[1]).take(self.shape[1]);
        steps.filter(|row| row[1] == 1.0).map(|row| row[0]).collect()
    }
}

/// The interface of the model, which is implemented once for each framework.
trait Adder: Training {
    /// Returns the model's answers to a batch, `[B]`.
    fn answers(&self, batch: &Batch) -> Result<Vec<f32>>;
}

pub(crate) fn run(run: &Run) -> Result<()> {
    let quick = Sizes { steps: 12, batch: 64, features: 32, states: 8 };
    let full = Sizes { steps: 1000, batch: 32, features: 32, states: 16 };
    let sizes = run.quick_or_full(quick, full);
    match &run.framework {
        Framework::Candle(device) => solve(run, sizes, |whose| candle::Model::new(whose, sizes, device)),
        Framework::Burn(device) => {
            let network = burn::Network::new(sizes, device)?;
            solve(run, sizes, |whose| Ok(burn::Model::new(whose, network.clone(), sizes, device)))
        }
    }
}

fn solve<M: Adder>(run: &Run, sizes: Sizes, model: impl Fn(Loop) -> Result<M>) -> Result<()> {
    let schedule = Schedule { steps: run.quick_or_full(60, 2400), rate: run.quick_or_full(0.05, 0.01) };
    let Some((model, _)) = train(run, schedule, model)? else { return Ok(()) };

    let fresh = Sizes { batch: 256, ..sizes }.problems(1).next();
    let answers = model.answers(&fresh)?;
    for (sequence, answer) in answers.iter().enumerate().take(3) {
        let marked = fresh.marked_numbers(sequence);
        let sum: f32 = marked.iter().sum();
        println!("  {:.3} + {:.3} = {sum:.3}, and the model answers {answer:.3}", marked[0], marked[1]);
    }
    let (error, right) = score(&answers, &fresh);
    let report = |steps: usize, error: f64, right: f64| {
        let (error, right) = (format!("{error:.4} (always 1: {CONSTANT_ANSWER:.4})"), 100.0 * right);
        println!("  {steps} steps: mean squared error {error}, {right:.0} % within {MAX_RIGHT_ERROR}");
    };
    report(sizes.steps, error, right);
    // Report the error on longer sequences, but do not check it, because the states decay over such lengths.
    let longer = Sizes { steps: 2 * sizes.steps, batch: 64, ..sizes }.problems(2).next();
    let (error_of_longer, right) = score(&model.answers(&longer)?, &longer);
    report(longer.shape[1], error_of_longer, right);
    let enough = run.quick_or_full(0.1, 0.002);
    ensure!(error < enough, "the model did not learn to add: the mean squared error {error} is not below {enough}");
    Ok(())
}

/// Returns the mean squared error of the answers, and the fraction of correct answers.
fn score(answers: &[f32], batch: &Batch) -> (f64, f64) {
    let count = answers.len() as f64;
    let errors = || answers.iter().zip(&batch.sums).map(|(answer, sum)| answer - sum);
    let squares: f64 = errors().map(|error| f64::from(error).powi(2)).sum();
    let right = errors().filter(|error| error.abs() < MAX_RIGHT_ERROR).count();
    (squares / count, right as f64 / count)
}
