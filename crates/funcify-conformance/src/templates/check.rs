//! A program on each subject, against the reference evaluation: as it is, its gradient, and of some programs a second derivative
//! and lanes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use funcify::dispatch::{CompileOptions, Executor, LoopStrategy};
use funcify::rewrite::RewriteOptions;
use funcify::{CheckpointPolicy, Disconnected, GradOptions, VmapOptions};

use super::*;
use crate::case::ExpectedOutput;
use crate::compare::compare;

/// A backend, and how it runs programs.
#[derive(Clone)]
pub struct Subject {
    /// What it is called.
    pub name: String,
    /// The backend.
    pub executor: Arc<dyn Executor>,
    /// How it runs loops.
    pub strategy: LoopStrategy,
    /// Whether programs run as they are written and rewritten; else half of them so, half so.
    pub runs_both: bool,
}

impl Subject {
    /// A backend that runs half of the programs as they are written, and half rewritten.
    pub fn new(name: &str, executor: Arc<dyn Executor>, strategy: LoopStrategy) -> Self {
        Subject { name: name.into(), executor, strategy, runs_both: name == "cpu" }
    }
}

/// What of a program is run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// The program.
    Forward,
    /// Its derivative in reverse mode.
    Gradient,
    /// The derivative of the derivative.
    Second,
    /// Lanes of the program or of its derivative.
    Lanes,
}

impl Stage {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Forward => "forward",
            Stage::Gradient => "gradient",
            Stage::Second => "second derivative",
            Stage::Lanes => "lanes",
        }
    }
}

/// A result that is not what the reference evaluation gives.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What of the program it is.
    pub stage: Stage,
    /// The subject.
    pub subject: String,
    /// Both numbers, and where; or an error, or a panic.
    pub reason: String,
    /// What was run, and with what.
    pub graph: Graph,
    /// The inputs, by name.
    pub inputs: BTreeMap<String, HostTensor>,
}

/// What came of a program.
#[derive(Default, Debug)]
pub struct Outcome {
    /// How often something was run and compared.
    pub runs: usize,
    /// Of those, how often a loop was compiled.
    pub compiled: usize,
    /// Why something was not compared, and how often.
    pub skipped: BTreeMap<&'static str, usize>,
    /// Why loops were not compiled, and how often.
    pub declined: BTreeMap<String, usize>,
    /// The first fault of each subject.
    pub faults: Vec<Fault>,
    /// Differences that may come of rounding: other inputs do not show them, or they are as far as rounding goes.
    pub unsteady: Vec<Fault>,
}

/// What is run: a graph, with what.
struct Run {
    stage: Stage,
    graph: Graph,
    inputs: BTreeMap<String, HostTensor>,
    expected: Vec<ExpectedOutput>,
}

impl Run {
    fn arguments(&self) -> Vec<HostTensor> {
        arguments(&self.graph, &self.inputs)
    }
}

/// The inputs of a graph in their order.
pub(super) fn arguments(graph: &Graph, inputs: &BTreeMap<String, HostTensor>) -> Vec<HostTensor> {
    (0..graph.inputs().len()).map(|index| inputs[graph.input_name(index)].clone()).collect()
}

/// How many other inputs a difference is looked at with, which may come of a decision that rounding changes.
const OTHERS: u64 = 3;

/// Checks a program. `seed` determines the inputs, and which derivatives are looked at.
pub fn check(program: &TemplateProgram, subjects: &[Subject], seed: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let runs = match catch_unwind(AssertUnwindSafe(|| runs_of(program, seed, seed, &mut outcome.skipped))) {
        Ok(runs) => runs,
        Err(panic) => {
            let reason = format!("panic: {}", text_of(&*panic));
            let (graph, inputs) = (program.graph.clone(), BTreeMap::new());
            outcome.faults.push(Fault { stage: Stage::Forward, subject: "reference".into(), reason, graph, inputs });
            return outcome;
        }
    };
    for subject in subjects {
        for run in &runs {
            let ways: &[bool] = match (subject.runs_both, mixed(seed).is_multiple_of(2)) {
                (true, _) => &[false, true],
                (false, true) => &[true],
                (false, false) => &[false],
            };
            let wrong = ways.iter().find_map(|is_rewritten| {
                outcome.runs += 1;
                attempt(run, subject, *is_rewritten, Some(&mut outcome.compiled), &mut outcome.declined)
                    .err()
                    .map(|reason| (*is_rewritten, reason))
            });
            let Some((is_rewritten, reason)) = wrong else { continue };
            // Rounding in f64 changes no decision; in narrower floats it may, if other inputs show nothing.
            let is_exact = tolerance(&run.graph, DType::F64) <= EXACT;
            let is_steady = !is_rounding(run, subject, is_rewritten)
                && (is_exact || is_confirmed(program, subject, run.stage, is_rewritten, seed));
            let faults = if is_steady { &mut outcome.faults } else { &mut outcome.unsteady };
            faults.push(Fault {
                stage: run.stage,
                subject: format!("{}{}", subject.name, if is_rewritten { ", rewritten" } else { "" }),
                reason,
                graph: run.graph.clone(),
                inputs: run.inputs.clone(),
            });
            break;
        }
    }
    outcome
}

/// Whether a program is wrong with other inputs, too.
fn is_confirmed(program: &TemplateProgram, subject: &Subject, stage: Stage, is_rewritten: bool, seed: u64) -> bool {
    let is_wrong = |other: u64| {
        let other = runs_of(program, seed, mixed(seed.wrapping_add(other)), &mut BTreeMap::new());
        let run = other.into_iter().find(|run| run.stage == stage);
        run.is_some_and(|run| attempt(&run, subject, is_rewritten, None, &mut BTreeMap::new()).is_err())
    };
    (1..=OTHERS).any(is_wrong)
}

/// Whether a result is no further off than rounding goes.
fn is_rounding(run: &Run, subject: &Subject, is_rewritten: bool) -> bool {
    let is_near = |expected| {
        let run = Run { expected, graph: run.graph.clone(), inputs: run.inputs.clone(), ..*run };
        attempt(&run, subject, is_rewritten, None, &mut BTreeMap::new()).is_ok()
    };
    rounding::allowed(&run.graph, &run.inputs, &run.expected).into_iter().any(is_near)
}

/// Runs on a subject and compares.
fn attempt(
    run: &Run,
    subject: &Subject,
    is_rewritten: bool,
    compiled: Option<&mut usize>,
    declined: &mut BTreeMap<String, usize>,
) -> Result<(), String> {
    let rewrites = is_rewritten.then(RewriteOptions::new);
    let options = CompileOptions { strategy: subject.strategy, rewrites, ..CompileOptions::default() };
    let call = || {
        let function = subject.executor.compile(&run.graph, options)?;
        let results = function.call(&run.arguments())?;
        Ok::<_, Error>((results, function.report()))
    };
    let (results, report) = match catch_unwind(AssertUnwindSafe(call)) {
        Err(panic) => return Err(format!("panic: {}", text_of(&*panic))),
        Ok(Err(error)) if is_allowed(&error, subject) => return Ok(()),
        Ok(Err(error)) => return Err(format!("error: {error}")),
        Ok(Ok(results)) => results,
    };
    if let Some(compiled) = compiled {
        *compiled += usize::from(report.loops.iter().any(|each| each.strategy == LoopStrategy::Compiled));
        if subject.strategy != LoopStrategy::Unroll && subject.strategy != LoopStrategy::Native {
            for why in report.loops.iter().filter_map(|each| each.declined.as_ref()) {
                *declined.entry(why.to_string()).or_default() += 1;
            }
        }
    }
    compare(&run.graph, &results, &run.expected)
}

/// Whether a backend may refuse a program: it has no such tensors, or the number of steps is not static.
fn is_allowed(error: &Error, subject: &Subject) -> bool {
    error.kind() == "Unsupported" || (subject.strategy == LoopStrategy::Unroll && error.kind() == "StepCountNotStatic")
}

/// The message of a panic.
pub(super) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "a panic without a text".into())
}

/// The programs and derivatives that are run of a program, as far as the reference evaluation has results that are finite.
fn runs_of(program: &TemplateProgram, seed: u64, inputs: u64, skipped: &mut BTreeMap<&'static str, usize>) -> Vec<Run> {
    let drawn = Drawn { program, seed, inputs };
    let mut all = Vec::new();
    let mut keep = |run: Result<Run, &'static str>| match run {
        Ok(run) => all.push(run),
        Err(why) => *skipped.entry(why).or_default() += 1,
    };
    let forward = match drawn.forward() {
        Ok(forward) => forward,
        Err(why) => {
            keep(Err(why));
            return all;
        }
    };
    let gradient = drawn.is_differentiable(&forward).then(|| drawn.derivative(&forward, Stage::Gradient));
    let number = mixed(seed ^ 0x5ec0);
    if let (Some(Ok(gradient)), true) = (&gradient, number.is_multiple_of(10)) {
        keep(drawn.second(&forward, gradient));
    }
    if number % 10 == 1 {
        let gradient = gradient.as_ref().and_then(|gradient| gradient.as_ref().ok());
        keep(drawn.lanes(gradient.filter(|_| number.is_multiple_of(3)).unwrap_or(&forward)));
    }
    gradient.into_iter().for_each(&mut keep);
    keep(Ok(forward));
    all.sort_by_key(|run| run.stage);
    all
}

/// A program with the seeds of what is looked at, and of its inputs.
struct Drawn<'p> {
    program: &'p TemplateProgram,
    seed: u64,
    inputs: u64,
}

impl Drawn<'_> {
    fn input(&self, graph: &Graph, index: usize, shape: &[usize]) -> (String, HostTensor) {
        let name = graph.input_name(index).to_string();
        let tensor = self.program.tensor(&name, graph.input_type(index).dtype, shape, self.inputs);
        (name, tensor)
    }

    fn forward(&self) -> Result<Run, &'static str> {
        let graph = &self.program.graph;
        let shape = |index: usize| graph.input_type(index).shape.constant().expect("inputs are declared with numbers");
        let inputs = (0..graph.inputs().len()).map(|index| self.input(graph, index, &shape(index))).collect();
        evaluated(Stage::Forward, graph, &inputs)
    }

    fn is_differentiable(&self, forward: &Run) -> bool {
        let graph = &forward.graph;
        let has_floats = (0..graph.inputs().len()).any(|index| graph.input_type(index).dtype.is_float());
        has_floats && forward.expected.iter().any(|output| output.ty.dtype.is_float())
    }

    /// The derivative of a run. Its inputs are those of the run, and cotangents of the results that are floats.
    fn derivative(&self, of: &Run, stage: Stage) -> Result<Run, &'static str> {
        let policies = [CheckpointPolicy::Recompute, CheckpointPolicy::SaveAll, CheckpointPolicy::SaveDots];
        let policy = policies[(mixed(self.seed ^ 0xabc) % 3) as usize].clone();
        let options = GradOptions::new().disconnected(Disconnected::Zeros).policy(policy);
        let derivative = of.graph.vjp(.., options).map_err(|_| "no derivative")?;
        let results = of.expected.iter().filter(|output| output.ty.dtype.is_float());
        let mut inputs = of.inputs.clone();
        for (index, output) in (of.graph.inputs().len()..).zip(results) {
            let (name, tensor) = self.input(&derivative, index, output.values.shape());
            inputs.insert(name, tensor);
        }
        evaluated(stage, &derivative, &inputs)
    }

    /// The derivative of what a derivative has beyond the results of its program.
    fn second(&self, forward: &Run, gradient: &Run) -> Result<Run, &'static str> {
        let own = forward.expected.len();
        let names: Vec<&str> = gradient.graph.outputs().iter().skip(own).map(|output| output.name.as_str()).collect();
        let graph = gradient.graph.only(&names).map_err(|_| "no derivative")?;
        let expected = gradient.expected[own..].to_vec();
        let only = Run { stage: Stage::Gradient, graph, inputs: gradient.inputs.clone(), expected };
        self.derivative(&only, Stage::Second)
    }

    fn lanes(&self, of: &Run) -> Result<Run, &'static str> {
        let lanes = of.graph.vmap(LANES, VmapOptions::new()).map_err(|_| "no lanes")?;
        let stacked = |index: usize| {
            let shape = [&[LANES], of.inputs[lanes.input_name(index)].shape()].concat();
            self.input(&lanes, index, &shape)
        };
        let inputs = (0..lanes.inputs().len()).map(stacked).collect();
        evaluated(Stage::Lanes, &lanes, &inputs)
    }
}

const LANES: usize = 2;

/// A graph with what the reference evaluation gives.
fn evaluated(stage: Stage, graph: &Graph, inputs: &BTreeMap<String, HostTensor>) -> Result<Run, &'static str> {
    let results = evaluate(graph, &arguments(graph, inputs)).map_err(|_| "an error of the program")?;
    let mut expected = Vec::with_capacity(results.len());
    for (output, values) in graph.outputs().iter().zip(results) {
        let numbers = values.scalars().map(|scalar| scalar.as_f64());
        let largest = numbers.fold(1f64, |largest, x| if x.is_nan() { f64::INFINITY } else { largest.max(x.abs()) });
        if values.dtype().is_float() && largest > LARGEST {
            return Err("not finite, or large");
        }
        let atol = tolerance(graph, values.dtype()) * largest;
        expected.push(ExpectedOutput { name: output.name.clone(), ty: values.ty(), values, rtol: 0.0, atol });
    }
    Ok(Run { stage, graph: graph.clone(), inputs: inputs.clone(), expected })
}

/// Beyond it a program multiplies its rounding errors.
const LARGEST: f64 = 1e4;

/// The tolerance of programs that have f64 alone.
pub(super) const EXACT: f64 = 1e-9;

/// How far apart results may be that are computed in different orders, relative to the largest: of the narrowest float that
/// the program has.
fn tolerance(graph: &Graph, dtype: DType) -> f64 {
    if !dtype.is_float() {
        return 0.0;
    }
    let of = |dtype: DType| match dtype {
        DType::F64 => EXACT,
        DType::F32 => 1e-4,
        DType::F16 => 2e-2,
        DType::BF16 => 0.1,
        _ => 0.0,
    };
    let mut most = of(dtype);
    let mut graphs = vec![graph];
    while let Some(graph) = graphs.pop() {
        most = graph.values().map(|value| of(graph.ty(value).dtype)).fold(most, f64::max);
        graphs.extend(graph.nodes().iter().flat_map(|node| node.op.bodies()).map(|body| &**body));
    }
    most
}
