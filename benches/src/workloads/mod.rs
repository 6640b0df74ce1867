//! Defines the workloads, each with a graph, inputs, and handwritten loops in Candle and in Burn.
//!
//! To define a workload, add a file and an entry in [`ALL`]. `peers/PROTOCOL.md` specifies each workload by a formula,
//! which the peers implement.

mod chunked_loss;
mod conjugate_gradients;
mod decode;
mod kalman;
mod kalman_series;
mod lstm;
mod metropolis;
mod neural_ode;
mod rnn;
mod running_sum;
mod s5;
mod ssm;

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};
use funcify::{DType, GradOptions, Graph, HostTensor, Scalar, Tree, Value};

use crate::inputs::{BurnInputs, CandleInputs};

/// Every workload with handwritten loops, in the order of the report.
pub(crate) const ALL: &[Workload] = &[
    rnn::WORKLOAD,
    lstm::WORKLOAD,
    running_sum::WORKLOAD,
    s5::PARALLEL,
    s5::STEPWISE,
    ssm::WORKLOAD,
    chunked_loss::WORKLOAD,
    kalman::WORKLOAD,
    kalman_series::WORKLOAD,
    neural_ode::WORKLOAD,
    metropolis::WORKLOAD,
    conjugate_gradients::WORKLOAD,
    decode::WORKLOAD,
];

/// A program that the subjects run, with its sizes, inputs and handwritten loops.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// A short description for the report.
    pub(crate) title: &'static str,
    /// The sizes of a full run.
    pub(crate) full: &'static [Sizes],
    /// The sizes of a quick run, small enough for every subject to take only seconds.
    pub(crate) quick: &'static [Sizes],
    /// Additional sizes for the plots of time and memory growth.
    pub(crate) growth: &'static [Sizes],
    /// Draws the inputs, with their names, from the random number generator.
    pub(crate) inputs: MakeInputs,
    pub(crate) graph: MakeGraph,
    pub(crate) loss: Loss,
    /// The inputs with respect to which training differentiates.
    pub(crate) differentiated: &'static [&'static str],
    /// `true` if a condition ends the loop, which means that the number of steps is known only at run time.
    pub(crate) is_conditional: bool,
    /// The handwritten loop in Candle, if the workload has one. The loop returns its outputs in the order of the
    /// graph's outputs.
    pub(crate) candle: Option<InCandle>,
    /// The handwritten loop in Burn, if the workload has one. The loop returns its outputs as flat tensors, with
    /// integers converted to floats.
    pub(crate) burn: Option<InBurn>,
}

type MakeInputs = fn(&Sizes, &mut Numbers) -> Inputs;
type MakeGraph = fn(&Sizes) -> funcify::Result<Graph>;
type InCandle = fn(&Sizes, &CandleInputs) -> candle_core::Result<Vec<candle_core::Tensor>>;
type InBurn = fn(&Sizes, &BurnInputs) -> Vec<burn::tensor::Tensor<1>>;

/// The inputs of a workload, with their names.
pub(crate) type Inputs = Vec<(&'static str, HostTensor)>;

/// The loss that training differentiates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// The workload has no gradient.
    None,
    /// The sum of the mean squares of all outputs.
    MeanSquare,
    /// The only output of the graph.
    Output,
}

/// The sizes of a workload in one run, each named by a letter, such as `T` for the number of steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes(pub(crate) &'static [(&'static str, usize)]);

impl Sizes {
    /// Returns the size named `letter`. Panics if the workload has no such size.
    pub(crate) fn get(&self, letter: &str) -> usize {
        let size = self.0.iter().find(|(name, _)| *name == letter);
        size.unwrap_or_else(|| panic!("the workload has no size {letter}")).1
    }

    /// Returns the sizes keyed by letter, for the protocol.
    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, usize> {
        self.0.iter().copied().collect()
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.0.iter().map(|(name, size)| format!("{name}={size}")).collect();
        f.write_str(&sizes.join(" "))
    }
}

/// Returns the position of a title, such as `rnn T=1000 B=1 H=32`, in the report: the index of the workload, and the
/// index of its sizes. Returns `None` if [`ALL`] does not contain them.
pub(crate) fn place(title: &str) -> Option<(usize, usize)> {
    let (name, numbers) = title.split_once(' ')?;
    let workload = ALL.iter().position(|workload| workload.name == name)?;
    let mut sizes = ALL[workload].full.iter().chain(ALL[workload].quick).chain(ALL[workload].growth);
    Some((workload, sizes.position(|sizes| sizes.to_string() == numbers)?))
}

/// Returns `true` if a title, such as `rnn T=1000 B=1 H=32`, consists of the name of a workload in [`ALL`] and sizes
/// that `own` returns for this workload.
pub(crate) fn has_sizes(title: &str, own: fn(&Workload) -> &'static [Sizes]) -> bool {
    let Some((name, numbers)) = title.split_once(' ') else { return false };
    let has = |workload: &Workload| own(workload).iter().any(|sizes| sizes.to_string() == numbers);
    ALL.iter().any(|workload| workload.name == name && has(workload))
}

impl Workload {
    /// Creates a workload without sizes, whose loop has a known number of steps. If the workload has a gradient, its
    /// loss is the sum of the outputs' mean squares.
    const fn of(
        name: &'static str,
        title: &'static str,
        inputs: MakeInputs,
        graph: MakeGraph,
        candle: InCandle,
        burn: InBurn,
    ) -> Self {
        Workload { candle: Some(candle), burn: Some(burn), ..Workload::without_handwritten(name, title, inputs, graph) }
    }

    /// Creates a workload like [`of`](Workload::of), but without handwritten loops.
    pub(crate) const fn without_handwritten(
        name: &'static str,
        title: &'static str,
        inputs: MakeInputs,
        graph: MakeGraph,
    ) -> Self {
        let (full, quick, growth): (&[Sizes], &[Sizes], &[Sizes]) = (&[], &[], &[]);
        let (loss, differentiated, is_conditional) = (Loss::MeanSquare, &[], false);
        let (candle, burn) = (None, None);
        Workload { name, title, full, quick, growth, inputs, graph, loss, differentiated, is_conditional, candle, burn }
    }

    /// Returns the predefined sizes that equal `requested`, or an error if the workload has no such sizes.
    pub(crate) fn sizes(&self, requested: &BTreeMap<String, usize>) -> Result<Sizes> {
        let all = self.full.iter().chain(self.quick).chain(self.growth);
        let same = |sizes: &&Sizes| {
            sizes.0.len() == requested.len() && sizes.0.iter().all(|(name, size)| requested.get(*name) == Some(size))
        };
        all.copied().find(|sizes| same(&sizes)).with_context(|| format!("`{}` has no sizes {requested:?}", self.name))
    }

    /// Draws the inputs, which are the same in every run.
    pub(crate) fn inputs(&self, sizes: &Sizes) -> Inputs {
        (self.inputs)(sizes, &mut Numbers::new(0x5DEE_CE66_D1CE_4E5B))
    }

    /// Builds the training graph, whose outputs are `loss` and the gradients.
    pub(crate) fn training_graph(&self, sizes: &Sizes, options: GradOptions) -> Result<Graph> {
        let forward = (self.graph)(sizes)?;
        let loss = Graph::build("train", |g| {
            let input = |index: usize| g.input(forward.input_name(index), forward.input_type(index).clone());
            let inputs: Vec<Value> = (0..forward.inputs().len()).map(input).collect();
            let outputs = forward.apply(&inputs);
            let loss = match self.loss {
                Loss::Output | Loss::None => outputs[0],
                Loss::MeanSquare => {
                    let mean_square = |output: &Value| output.square().mean(..);
                    outputs.iter().map(mean_square).reduce(|sum, each| sum + each).expect("a workload has outputs")
                }
            };
            Training { loss }
        })?;
        Ok(loss.value_and_grad(self.differentiated, options)?)
    }
}

#[derive(Clone, Tree)]
struct Training {
    loss: Value,
}

/// Returns a map that contains a single named output.
pub(crate) fn output(name: &'static str, value: Value) -> BTreeMap<&'static str, Value> {
    BTreeMap::from([(name, value)])
}

/// A pseudorandom number generator that produces the same numbers on every machine.
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Returns a generator that starts from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Numbers(seed)
    }

    /// Draws a number between 0 and 1, using splitmix64 (Steele, Lea and Flood 2014).
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a tensor of numbers distributed uniformly between `low` and `high`.
    pub(crate) fn uniform(&mut self, shape: &[usize], low: f64, high: f64) -> HostTensor {
        HostTensor::from_fn(DType::F32, shape, |_| Scalar::Float(low + (high - low) * self.unit()))
    }

    /// Draws a tensor of normally distributed numbers with mean 0 and the given standard deviation.
    pub(crate) fn normal(&mut self, shape: &[usize], deviation: f64) -> HostTensor {
        HostTensor::from_fn(DType::F32, shape, |_| {
            let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
            Scalar::Float(deviation * radius * (std::f64::consts::TAU * self.unit()).cos())
        })
    }

    /// Draws a tensor of integers of type `dtype` from `low` up to, but not including, `high`.
    pub(crate) fn integers(&mut self, shape: &[usize], dtype: DType, low: i64, high: i64) -> HostTensor {
        HostTensor::from_fn(dtype, shape, |_| Scalar::Int(low + (self.unit() * (high - low) as f64) as i64))
    }

    /// Draws a tensor of nonnegative integers below `bound`.
    fn below(&mut self, shape: &[usize], bound: usize) -> HostTensor {
        HostTensor::from_fn(DType::I64, shape, |_| Scalar::Int((self.unit() * bound as f64) as i64))
    }
}
