//! A program on each subject, against the reference evaluation: as it is, its gradient, and of some programs a second derivative
//! and lanes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use funcify::dispatch::{CompileOptions, Executor, LoopStrategy};
use funcify::rewrite::RewriteOptions;
use funcify::{CheckpointPolicy, DType, Disconnected, Error, GradOptions, Graph, HostTensor, VmapOptions, evaluate};

use super::Program;
use crate::arbitrary::mixed;
use crate::compare::compare;
use crate::suite::ExpectedOutput;

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
    /// Differences that other inputs do not show, which may come of a decision that rounding changes.
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

fn arguments(graph: &Graph, inputs: &BTreeMap<String, HostTensor>) -> Vec<HostTensor> {
    (0..graph.inputs().len()).map(|index| inputs[graph.input_name(index)].clone()).collect()
}

/// How many other inputs a difference is looked at with, which may come of a decision that rounding changes.
const OTHERS: u64 = 3;

/// Checks a program. `seed` determines the inputs, and which derivatives are looked at.
pub fn check(program: &Program, subjects: &[Subject], seed: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let runs = match catch_unwind(AssertUnwindSafe(|| runs(program, seed, &mut outcome.skipped))) {
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
            let is_steady = is_confirmed(program, subject, run.stage, is_rewritten, seed);
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
fn is_confirmed(program: &Program, subject: &Subject, stage: Stage, is_rewritten: bool, seed: u64) -> bool {
    let is_wrong = |other: u64| {
        let other = runs_of(program, seed, mixed(seed.wrapping_add(other)), &mut BTreeMap::new());
        let run = other.into_iter().find(|run| run.stage == stage);
        run.is_some_and(|run| attempt(&run, subject, is_rewritten, None, &mut BTreeMap::new()).is_err())
    };
    (1..=OTHERS).any(is_wrong)
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

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

fn runs(program: &Program, seed: u64, skipped: &mut BTreeMap<&'static str, usize>) -> Vec<Run> {
    runs_of(program, seed, seed, skipped)
}

/// What is run of a program, as far as the reference evaluation has results that are finite.
fn runs_of(program: &Program, seed: u64, inputs: u64, skipped: &mut BTreeMap<&'static str, usize>) -> Vec<Run> {
    let mut all = Vec::new();
    let mut skip = |why: &'static str| *skipped.entry(why).or_default() += 1;
    let graph = &program.graph;
    let named = |graph: &Graph, index: usize, shape: &[usize]| {
        let name = graph.input_name(index).to_string();
        let tensor = program.tensor(&name, graph.input_type(index).dtype, shape, inputs);
        (name, tensor)
    };
    let sizes = |graph: &Graph, index: usize| graph.input_type(index).shape.constant().unwrap_or_default();
    let own: BTreeMap<String, HostTensor> =
        (0..graph.inputs().len()).map(|index| named(graph, index, &sizes(graph, index))).collect();
    let forward = match evaluated(Stage::Forward, graph, &own) {
        Ok(run) => run,
        Err(why) => {
            skip(why);
            return all;
        }
    };
    // The inputs of a derivative are those of its program, and cotangents of the results that are floats.
    let derived = |run: &Run, stage: Stage, derivative: &Graph| {
        let results = run.expected.iter().filter(|output| output.ty.dtype.is_float());
        let mut inputs = run.inputs.clone();
        for (index, output) in (run.graph.inputs().len()..).zip(results) {
            let (name, tensor) = named(derivative, index, output.values.shape());
            inputs.insert(name, tensor);
        }
        evaluated(stage, derivative, &inputs)
    };
    let options = || {
        let policies = [CheckpointPolicy::Recompute, CheckpointPolicy::SaveAll, CheckpointPolicy::SaveDots];
        let policy = policies[(mixed(seed ^ 0xabc) % 3) as usize].clone();
        GradOptions::new().disconnected(Disconnected::Zeros).policy(policy)
    };
    let has_floats = |graph: &Graph| (0..graph.inputs().len()).any(|index| graph.input_type(index).dtype.is_float());
    let is_differentiable = has_floats(graph) && forward.expected.iter().any(|output| output.ty.dtype.is_float());
    let mut gradient = None;
    if is_differentiable {
        match graph
            .vjp(.., options())
            .map_err(|_| "no derivative")
            .and_then(|vjp| derived(&forward, Stage::Gradient, &vjp))
        {
            Ok(run) => gradient = Some(run),
            Err(why) => skip(why),
        }
    }
    let number = mixed(seed ^ 0x5ec0);
    if let Some(gradient) = gradient.as_ref().filter(|_| number.is_multiple_of(10)) {
        let outputs = gradient.graph.outputs().iter().map(|output| output.name.as_str());
        let names: Vec<&str> = outputs.skip(forward.expected.len()).collect();
        let second = gradient.graph.only(&names).and_then(|only| {
            let own = Run { stage: Stage::Second, graph: only, inputs: gradient.inputs.clone(), expected: Vec::new() };
            let expected = gradient.expected[forward.expected.len()..].to_vec();
            Ok((own.graph.vjp(.., options())?, Run { expected, ..own }))
        });
        match second.map_err(|_| "no derivative").and_then(|(vjp, own)| derived(&own, Stage::Second, &vjp)) {
            Ok(run) => all.push(run),
            Err(why) => skip(why),
        }
    }
    if number % 10 == 1 {
        let of = gradient.as_ref().filter(|_| number.is_multiple_of(3)).unwrap_or(&forward);
        let lanes = of.graph.vmap(LANES, VmapOptions::new());
        let run = lanes.map_err(|_| "no lanes").and_then(|lanes| {
            let stacked = |index: usize| {
                let name = lanes.input_name(index);
                let shape = [&[LANES], of.inputs[name].shape()].concat();
                named(&lanes, index, &shape)
            };
            let inputs = (0..lanes.inputs().len()).map(stacked).collect();
            evaluated(Stage::Lanes, &lanes, &inputs)
        });
        match run {
            Ok(run) => all.push(run),
            Err(why) => skip(why),
        }
    }
    all.insert(0, forward);
    all.extend(gradient);
    all.sort_by_key(|run| run.stage);
    all
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

/// How far apart results may be that are computed in different orders, relative to the largest: of the narrowest float that
/// the program has.
fn tolerance(graph: &Graph, dtype: DType) -> f64 {
    if !dtype.is_float() {
        return 0.0;
    }
    let of = |dtype: DType| match dtype {
        DType::F64 => 1e-9,
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
