//! Trains a neural ordinary differential equation (Chen, Rubanova, Bettencourt and Duvenaud 2018) to learn the vector
//! field of a spiral, by differentiating through the integrator.
//!
//! The spiral is the first example in the authors' code: `dx/dt = A x³`, from (2, 0) to time 10. The model is `dx/dt =
//! MLP(x)`, `[B,2] -> [B,H] -> [B,2]` in f32, integrated with the classical Runge-Kutta method in a scan. The model is
//! trained on short segments of the spiral. For evaluation, its trajectory over the whole time span is compared with
//! the spiral, both with the step size used in training and with half that step size.

mod burn;
mod candle;

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::training::{Loop, Schedule, Training, train};
use crate::{Framework, Run};

const START: [f64; 2] = [2.0, 0.0];
/// The number of integration steps of the true solution for each step of the model.
const SUBSTEPS: usize = 20;

/// Computes the true vector field, `A x³`.
fn spiral([x, y]: [f64; 2]) -> [f64; 2] {
    let [x, y] = [x.powi(3), y.powi(3)];
    [-0.1 * x + 2.0 * y, -2.0 * x - 0.1 * y]
}

/// Computes one step of the classical Runge-Kutta method, in f64.
fn runge_kutta(field: impl Fn([f64; 2]) -> [f64; 2], x: [f64; 2], step: f64) -> [f64; 2] {
    let moved = |slope: [f64; 2], step: f64| [x[0] + step * slope[0], x[1] + step * slope[1]];
    let first = field(x);
    let second = field(moved(first, step / 2.0));
    let third = field(moved(second, step / 2.0));
    let fourth = field(moved(third, step));
    let mean = |axis: usize| (first[axis] + 2.0 * (second[axis] + third[axis]) + fourth[axis]) / 6.0;
    moved([mean(0), mean(1)], step)
}

/// Returns the true solution from (2, 0), at the times 0, `step`, 2 `step` and so on.
fn solution(step: f64, steps: usize) -> Vec<[f64; 2]> {
    let fine = |x: [f64; 2]| (0..SUBSTEPS).fold(x, |x, _| runge_kutta(spiral, x, step / SUBSTEPS as f64));
    std::iter::successors(Some(START), |x| Some(fine(*x))).take(steps + 1).collect()
}

/// The sizes of the model and of its training data.
#[derive(Clone, Copy)]
struct Sizes {
    hidden: usize,
    /// The step size: the time between consecutive points of the solution.
    step: f64,
    /// The number of steps along the whole spiral.
    steps: usize,
    /// The number of steps per segment.
    piece: usize,
    batch: usize,
}

/// A generator of segments of the true solution.
struct Segments {
    points: Vec<[f64; 2]>,
    sizes: Sizes,
    random: StdRng,
}

/// A batch of segments: their start points, `[B,2]`, and the points that follow them, `[T,B,2]`.
struct Batch {
    starts: Vec<f32>,
    rest: Vec<f32>,
}

impl Segments {
    fn new(sizes: Sizes) -> Self {
        Segments { points: solution(sizes.step, sizes.steps), sizes, random: StdRng::seed_from_u64(0) }
    }

    fn next(&mut self) -> Batch {
        let Sizes { steps, piece, batch, .. } = self.sizes;
        let starts: Vec<usize> = (0..batch).map(|_| self.random.random_range(..=steps - piece)).collect();
        let points = &self.points;
        let after = |step: usize| starts.iter().flat_map(move |start| points[start + step].map(|x| x as f32));
        Batch { starts: after(0).collect(), rest: (1..=piece).flat_map(after).collect() }
    }
}

/// The interface of the model, which is implemented once for each framework.
trait Field: Training {
    /// Returns the model's trajectory from (2, 0): the point after each of `steps` steps, `[T,2]`.
    fn trajectory(&self, step: f64, steps: usize) -> Result<Vec<f32>>;
}

pub(crate) fn run(run: &Run) -> Result<()> {
    let quick = Sizes { hidden: 16, step: 0.025, steps: 40, piece: 2, batch: 64 };
    let full = Sizes { hidden: 32, step: 0.025, steps: 400, piece: 10, batch: 64 };
    let sizes = run.quick_or_full(quick, full);
    match &run.framework {
        Framework::Candle(device) => learn(run, sizes, |whose| candle::Model::new(whose, sizes, device)),
        Framework::Burn(device) => {
            let field = burn::Network::new(sizes, device);
            learn(run, sizes, |whose| Ok(burn::Model::new(whose, field.clone(), sizes, device)))
        }
    }
}

fn learn<M: Field>(run: &Run, sizes: Sizes, model: impl Fn(Loop) -> Result<M>) -> Result<()> {
    let schedule = Schedule { steps: run.quick_or_full(150, 8000), rate: run.quick_or_full(0.05, 0.02) };
    let Some((model, _)) = train(run, schedule, model)? else { return Ok(()) };

    let Sizes { step, steps, .. } = sizes;
    let truth = solution(step, steps);
    let trajectory = model.trajectory(step, steps)?;
    println!("  time    the spiral's x        the model's x");
    for row in (steps / 5..=steps).step_by(steps / 5) {
        let [x, y] = truth[row];
        let (time, [u, v]) = (row as f64 * step, [trajectory[2 * row - 2], trajectory[2 * row - 1]]);
        println!("  {time:>4.1}  ({x:>7.4}, {y:>7.4})   ({u:>7.4}, {v:>7.4})");
    }
    // If the model has learnt the field and not just the points, it follows the same trajectory with half the step
    // size.
    for (step, steps) in [(step, steps), (step / 2.0, 2 * steps)] {
        let far = largest_distance(&model.trajectory(step, steps)?, &solution(step, steps));
        println!("  {steps} steps of {step}: at most {far:.4} from the spiral");
        ensure!(far < run.quick_or_full(0.3, 0.1), "the model leaves the spiral: it is {far} away");
    }
    Ok(())
}

/// Returns the largest distance between the points of a trajectory, `[T,2]`, and the true solution. `truth` also
/// contains the start point, which is skipped. NaN counts as an infinite distance.
fn largest_distance(trajectory: &[f32], truth: &[[f64; 2]]) -> f64 {
    let distance = |(point, [x, y]): (&[f32], &[f64; 2])| (f64::from(point[0]) - x).hypot(f64::from(point[1]) - y);
    let distances = trajectory.chunks_exact(2).zip(&truth[1..]).map(distance);
    distances.map(|distance| if distance.is_nan() { f64::INFINITY } else { distance }).fold(0.0, f64::max)
}
