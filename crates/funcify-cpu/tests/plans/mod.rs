//! Hand-written plans that resemble those of the planner. The expected results of each plan are computed by a plain f64
//! loop.

mod lstm;
mod rnn;
mod ssm;
mod sums;

use funcify_cpu::plan::Plan;
use funcify_cpu::{CallError, Element, Executor, Machine};

pub use lstm::lstm;
pub use rnn::{Sizes, rnn, rnn_training};
pub use ssm::{Channels, ssm, ssm_training};
pub use sums::{running_sum, running_sum_of_one};

/// A plan, its inputs, and a reference implementation.
pub struct Workload {
    /// The name of the workload.
    pub name: String,
    /// The plan to run.
    pub plan: Plan,
    /// The inputs of the plan, in order.
    pub inputs: Vec<Vec<f64>>,
    /// The number of elements of each output.
    pub outputs: Vec<usize>,
    /// A plain loop that computes the expected outputs.
    pub reference: Box<Reference>,
}

/// A function that computes the expected outputs from the inputs.
pub type Reference = dyn Fn(&[Vec<f64>]) -> Vec<Vec<f64>> + Send + Sync;

/// A workload for a particular element type, ready to run.
pub struct Ready<T> {
    executor: Executor<T>,
    inputs: Vec<Vec<T>>,
    outputs: Vec<Vec<T>>,
}

impl Workload {
    /// Creates an executor for the plan, and converts the inputs to its element type.
    pub fn ready<T: Element>(&self, machine: Machine) -> Ready<T> {
        let executor =
            Executor::new(self.plan.clone(), machine).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let inputs = self.inputs.iter().map(|input| input.iter().map(|x| T::from_f64(*x)).collect()).collect();
        let outputs = self.outputs.iter().map(|len| vec![T::NAN; *len]).collect();
        Ready { executor, inputs, outputs }
    }

    /// Returns the expected outputs for inputs that are rounded to element type `T`.
    pub fn expected<T: Element>(&self) -> Vec<Vec<f64>> {
        let rounded = |input: &Vec<f64>| input.iter().map(|x| T::from_f64(*x).to_f64()).collect();
        (self.reference)(&self.inputs.iter().map(rounded).collect::<Vec<_>>())
    }
}

impl<T: Element> Ready<T> {
    /// Calls a function with the executor, the inputs and the outputs.
    pub fn with<R>(&mut self, act: impl FnOnce(&mut Executor<T>, &[&[T]], &mut [&mut [T]]) -> R) -> R {
        let inputs: Vec<&[T]> = self.inputs.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<&mut [T]> = self.outputs.iter_mut().map(Vec::as_mut_slice).collect();
        act(&mut self.executor, &inputs, &mut outputs)
    }

    /// Calls the executor once.
    pub fn call(&mut self) -> Result<(), CallError> {
        self.with(|executor, inputs, outputs| executor.call(inputs, outputs))
    }

    /// Returns the outputs of the last call.
    pub fn outputs(&self) -> &[Vec<T>] {
        &self.outputs
    }

    /// Returns the maximum error over all outputs, relative to the largest expected element of each output.
    pub fn error(&self, expected: &[Vec<f64>]) -> f64 {
        let of = |(found, expected): (&Vec<T>, &Vec<f64>)| {
            let scale = expected.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
            let differences = found.iter().zip(expected).map(|(x, y)| (x.to_f64() - y).abs());
            // NaN counts as an infinite error.
            differences.fold(0.0, |most: f64, x| if x.is_nan() { f64::INFINITY } else { most.max(x) }) / scale
        };
        self.outputs.iter().zip(expected).map(of).fold(0.0, f64::max)
    }
}

/// Returns pseudorandom numbers between -`scale` and `scale` that depend only on `seed`.
pub fn numbers(count: usize, scale: f64, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    std::iter::repeat_with(next).take(count).map(|x| x * scale).collect()
}

/// Adds `a[m, k] · b[k, n]` to `to`.
pub fn add_product(to: &mut [f64], a: &[f64], b: &[f64], k: usize, n: usize) {
    for (to, a) in to.chunks_mut(n).zip(a.chunks(k)) {
        for (x, b) in a.iter().zip(b.chunks(n)) {
            to.iter_mut().zip(b).for_each(|(to, y)| *to += x * y);
        }
    }
}

/// Adds `a[m, k]ᵀ · b[m, n]` to `to`.
pub fn add_outer(to: &mut [f64], a: &[f64], b: &[f64], k: usize, n: usize) {
    for (a, b) in a.chunks(k).zip(b.chunks(n)) {
        for (to, x) in to.chunks_mut(n).zip(a) {
            to.iter_mut().zip(b).for_each(|(to, y)| *to += x * y);
        }
    }
}
