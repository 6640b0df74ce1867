//! Runs a program on each subject, and compares the results with those of the reference evaluator. Checks the program,
//! its gradient and, for some programs, a second derivative and a batched version.

use std::panic::{AssertUnwindSafe, catch_unwind};

use funcify::dispatch::{CompileOptions, Executor, LoopStrategy};
use funcify::rewrite::RewriteOptions;
use funcify::{CheckpointPolicy, Disconnected, GradOptions, VmapOptions};

use super::*;
use crate::case::ExpectedOutput;
use crate::compare::compare;

/// A backend, and the options for running programs on it.
#[derive(Clone)]
pub struct Subject {
    /// The subject's name.
    pub name: String,
    /// The backend.
    pub executor: Arc<dyn Executor>,
    /// The strategy for loops.
    pub strategy: LoopStrategy,
    /// `true` if each program runs both as written and after rewriting. Otherwise, each program runs in only one of the
    /// two forms.
    pub runs_both: bool,
}

impl Subject {
    /// Creates a subject. The subject named `cpu` runs every program both as written and after rewriting. Other
    /// subjects run half of the programs in each form.
    pub fn new(name: &str, executor: Arc<dyn Executor>, strategy: LoopStrategy) -> Self {
        Subject { name: name.into(), executor, strategy, runs_both: name == "cpu" }
    }
}

/// A stage of a check: the program itself, or a program derived from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// The program itself.
    Forward,
    /// The reverse-mode derivative of the program.
    Gradient,
    /// The derivative of the gradient.
    Second,
    /// The program or its gradient, batched.
    Lanes,
}

impl Stage {
    /// Returns the stage's name.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Forward => "forward",
            Stage::Gradient => "gradient",
            Stage::Second => "second derivative",
            Stage::Lanes => "lanes",
        }
    }
}

/// A failure of a run: an error, a panic, or a result that differs from that of the reference evaluator.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The stage that failed.
    pub stage: Stage,
    /// The subject's name.
    pub subject: String,
    /// A description of the first difference, or the message of the error or panic.
    pub reason: String,
    /// The graph that ran.
    pub graph: Graph,
    /// The arguments of the graph, keyed by input name.
    pub inputs: BTreeMap<String, HostTensor>,
}

/// The outcome of checking a program.
#[derive(Default, Debug)]
pub struct Outcome {
    /// The number of runs whose results were compared.
    pub runs: usize,
    /// The number of compared runs in which a loop was compiled.
    pub compiled: usize,
    /// The number of skipped comparisons, by reason.
    pub skipped: BTreeMap<&'static str, usize>,
    /// The number of loops that were not compiled, by reason.
    pub declined: BTreeMap<String, usize>,
    /// The first fault of each subject.
    pub faults: Vec<Fault>,
    /// Differences that rounding may explain, because they do not recur with other arguments or do not exceed the
    /// rounding error.
    pub explained_by_rounding: Vec<Fault>,
}

/// A graph to run, with its inputs and expected results.
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

/// Returns the arguments of a graph, in the order of its inputs.
pub(super) fn arguments(graph: &Graph, inputs: &BTreeMap<String, HostTensor>) -> Vec<HostTensor> {
    (0..graph.inputs().len()).map(|index| inputs[graph.input_name(index)].clone()).collect()
}

/// The number of additional argument sets used to confirm a difference. A difference that occurs only with the original
/// arguments may arise because rounding changed the outcome of a comparison in the program.
const CONFIRMING_INPUTS: u64 = 3;

/// Checks a program on each subject. `seed` determines the arguments and the derivatives to check.
pub fn check(program: &TemplateProgram, subjects: &[Subject], seed: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let runs = match catch_unwind(AssertUnwindSafe(|| build_runs(program, seed, seed, &mut outcome.skipped))) {
        Ok(runs) => runs,
        Err(panic) => {
            let reason = format!("panic: {}", panic_message(&*panic));
            let (graph, inputs) = (program.graph.clone(), BTreeMap::new());
            outcome.faults.push(Fault { stage: Stage::Forward, subject: "reference".into(), reason, graph, inputs });
            return outcome;
        }
    };
    for subject in subjects {
        for run in &runs {
            let ways: &[bool] = match (subject.runs_both, splitmix64(seed).is_multiple_of(2)) {
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
            // In f64, rounding rarely changes the outcome of a comparison in the program. With narrower floats,
            // rounding may change it, so a difference is a fault only if it also occurs with other arguments.
            let is_exact = tolerance(&run.graph, DType::F64) <= F64_TOLERANCE;
            let is_fault = !is_rounding(run, subject, is_rewritten)
                && (is_exact || is_confirmed(program, subject, run.stage, is_rewritten, seed));
            let faults = if is_fault { &mut outcome.faults } else { &mut outcome.explained_by_rounding };
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

/// Returns whether a program also returns wrong results for other arguments.
fn is_confirmed(program: &TemplateProgram, subject: &Subject, stage: Stage, is_rewritten: bool, seed: u64) -> bool {
    let is_wrong = |other: u64| {
        let other = build_runs(program, seed, splitmix64(seed.wrapping_add(other)), &mut BTreeMap::new());
        let run = other.into_iter().find(|run| run.stage == stage);
        run.is_some_and(|run| attempt(&run, subject, is_rewritten, None, &mut BTreeMap::new()).is_err())
    };
    (1..=CONFIRMING_INPUTS).any(is_wrong)
}

/// Returns whether rounding alone could explain the difference between a result and the expected result.
fn is_rounding(run: &Run, subject: &Subject, is_rewritten: bool) -> bool {
    let is_near = |expected| {
        let run = Run { expected, graph: run.graph.clone(), inputs: run.inputs.clone(), ..*run };
        attempt(&run, subject, is_rewritten, None, &mut BTreeMap::new()).is_ok()
    };
    rounding::results_explained_by_rounding(&run.graph, &run.inputs, &run.expected).into_iter().any(is_near)
}

/// Runs a graph on a subject, and compares the results with the expected ones.
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
        Err(panic) => return Err(format!("panic: {}", panic_message(&*panic))),
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

/// Returns whether a backend may reject a program with this error: either the backend does not support a type, or the
/// trip count of an unrolled loop is not static.
fn is_allowed(error: &Error, subject: &Subject) -> bool {
    error.kind() == "Unsupported" || (subject.strategy == LoopStrategy::Unroll && error.kind() == "StepCountNotStatic")
}

/// Returns the message of a panic.
pub(super) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "a panic without a message".into())
}

/// Returns a run for the program, and one for each program derived from it. If the reference evaluator fails or returns
/// large or non-finite results, omits the run and counts it in `skipped`.
fn build_runs(
    program: &TemplateProgram,
    seed: u64,
    inputs: u64,
    skipped: &mut BTreeMap<&'static str, usize>,
) -> Vec<Run> {
    let seeded = SeededProgram { program, seed, inputs };
    let mut all = Vec::new();
    let mut keep = |run: Result<Run, &'static str>| match run {
        Ok(run) => all.push(run),
        Err(why) => *skipped.entry(why).or_default() += 1,
    };
    let forward = match seeded.forward() {
        Ok(forward) => forward,
        Err(why) => {
            keep(Err(why));
            return all;
        }
    };
    let gradient = seeded.is_differentiable(&forward).then(|| seeded.derivative(&forward, Stage::Gradient));
    let number = splitmix64(seed ^ 0x5ec0);
    if let (Some(Ok(gradient)), true) = (&gradient, number.is_multiple_of(10)) {
        keep(seeded.second_derivative(&forward, gradient));
    }
    if number % 10 == 1 {
        let gradient = gradient.as_ref().and_then(|gradient| gradient.as_ref().ok());
        keep(seeded.lanes(gradient.filter(|_| number.is_multiple_of(3)).unwrap_or(&forward)));
    }
    gradient.into_iter().for_each(&mut keep);
    keep(Ok(forward));
    all.sort_by_key(|run| run.stage);
    all
}

/// A program with two seeds: `seed` selects the derivatives to check, and `inputs` determines the arguments.
struct SeededProgram<'p> {
    program: &'p TemplateProgram,
    seed: u64,
    inputs: u64,
}

impl SeededProgram<'_> {
    fn input(&self, graph: &Graph, index: usize, shape: &[usize]) -> (String, HostTensor) {
        let name = graph.input_name(index).to_string();
        let tensor = self.program.tensor(&name, graph.input_type(index).dtype, shape, self.inputs);
        (name, tensor)
    }

    fn forward(&self) -> Result<Run, &'static str> {
        let graph = &self.program.graph;
        let shape = |index: usize| graph.input_type(index).shape.constant().expect("inputs have constant sizes");
        let inputs = (0..graph.inputs().len()).map(|index| self.input(graph, index, &shape(index))).collect();
        evaluate_run(Stage::Forward, graph, &inputs)
    }

    fn is_differentiable(&self, forward: &Run) -> bool {
        let graph = &forward.graph;
        let has_floats = (0..graph.inputs().len()).any(|index| graph.input_type(index).dtype.is_float());
        has_floats && forward.expected.iter().any(|output| output.ty.dtype.is_float())
    }

    /// Differentiates the graph of a run in reverse mode. Adds cotangents for the graph's float results to the
    /// arguments.
    fn derivative(&self, of: &Run, stage: Stage) -> Result<Run, &'static str> {
        let policies = [CheckpointPolicy::Recompute, CheckpointPolicy::SaveAll, CheckpointPolicy::SaveDots];
        let policy = policies[(splitmix64(self.seed ^ 0xabc) % 3) as usize].clone();
        let options = GradOptions::new().disconnected(Disconnected::Zeros).policy(policy);
        let derivative = of.graph.vjp(.., options).map_err(|_| "no derivative")?;
        let results = of.expected.iter().filter(|output| output.ty.dtype.is_float());
        let mut inputs = of.inputs.clone();
        for (index, output) in (of.graph.inputs().len()..).zip(results) {
            let (name, tensor) = self.input(&derivative, index, output.values.shape());
            inputs.insert(name, tensor);
        }
        evaluate_run(stage, &derivative, &inputs)
    }

    /// Removes the outputs of the original program from the gradient's graph, and differentiates this graph.
    fn second_derivative(&self, forward: &Run, gradient: &Run) -> Result<Run, &'static str> {
        let own = forward.expected.len();
        let names: Vec<&str> = gradient.graph.outputs().iter().skip(own).map(|output| output.name.as_str()).collect();
        let graph = gradient.graph.with_only_outputs(&names).map_err(|_| "no derivative")?;
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
        evaluate_run(Stage::Lanes, &lanes, &inputs)
    }
}

const LANES: usize = 2;

/// Creates a run that expects the results of the reference evaluator.
fn evaluate_run(stage: Stage, graph: &Graph, inputs: &BTreeMap<String, HostTensor>) -> Result<Run, &'static str> {
    let results = evaluate(graph, &arguments(graph, inputs)).map_err(|_| "an error of the program")?;
    let mut expected = Vec::with_capacity(results.len());
    for (output, values) in graph.outputs().iter().zip(results) {
        let numbers = values.scalars().map(|scalar| scalar.as_f64());
        let largest = numbers.fold(1f64, |largest, x| if x.is_nan() { f64::INFINITY } else { largest.max(x.abs()) });
        if values.dtype().is_float() && largest > MAX_RESULT {
            return Err("not finite, or large");
        }
        let atol = tolerance(graph, values.dtype()) * largest;
        expected.push(ExpectedOutput { name: output.name.clone(), ty: values.ty(), values, rtol: 0.0, atol });
    }
    Ok(Run { stage, graph: graph.clone(), inputs: inputs.clone(), expected })
}

/// The maximum magnitude of a result. Programs with larger results are skipped, because they amplify rounding errors
/// too much.
const MAX_RESULT: f64 = 1e4;

/// The tolerance for programs whose floats are all f64.
pub(super) const F64_TOLERANCE: f64 = 1e-9;

/// Returns the tolerance for differences due to reassociation, relative to the largest result. The tolerance depends on
/// the narrowest float type in the program.
fn tolerance(graph: &Graph, dtype: DType) -> f64 {
    if !dtype.is_float() {
        return 0.0;
    }
    let of = |dtype: DType| match dtype {
        DType::F64 => F64_TOLERANCE,
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
