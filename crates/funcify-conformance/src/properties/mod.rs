//! Checks properties of every program: text round trips, execution modes, derivatives, and `vmap`.
//!
//! Each derivative is reduced to one number: the derivative along one direction in the space of all float inputs,
//! weighted by one cotangent per output. Forward mode, reverse mode and finite differences must compute the same
//! number. Derivatives are programs too, so the same checks apply to them.

mod differences;
mod lanes;
mod straight;

use std::collections::BTreeMap;

use funcify::dispatch::{CompileOptions, Executor, LoopStrategy, Reference};
use funcify::rewrite::RewriteOptions;
use funcify::{CheckpointPolicy, Disconnected, Error, GradOptions, Graph, HostTensor, Sizes, TensorType, evaluate};

use crate::arbitrary::{Rules, TestProgram, arguments, splitmix64};
use crate::runner::modes_of;
use differences::Difference;
use lanes::{check_gradient_of_lanes, check_lanes};
use straight::check_straight_line;

/// A property that a program or one of its derivatives violates.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// The name of the property.
    pub property: &'static str,
    /// A description of the violation, with the values and the graph.
    pub reason: String,
}

/// The number of comparisons for each property, and the number of skipped comparisons for each reason.
#[derive(Clone, Default, Debug)]
pub struct Tally(pub BTreeMap<&'static str, usize>);

impl Tally {
    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Tally) {
        other.0.iter().for_each(|(what, count)| *self.0.entry(what).or_default() += count);
    }
}

type Checked<T = ()> = Result<T, Disagreement>;

/// Returns one checkpoint policy of each kind.
fn policies() -> [CheckpointPolicy; 7] {
    let (segments, levels) = (CheckpointPolicy::Segments(2), CheckpointPolicy::Levels(vec![3, 2]));
    [
        CheckpointPolicy::Recompute,
        CheckpointPolicy::SaveDots,
        CheckpointPolicy::SaveCostly,
        CheckpointPolicy::SaveAll,
        segments,
        levels,
        CheckpointPolicy::Budget(200),
    ]
}

/// The tolerance for differences that reassociation causes, relative to the largest element.
const REORDERING_TOLERANCE: f64 = 1e-10;
/// The tolerance for values computed on a device. A device may reassociate float operations, and has its own
/// implementations of elementwise functions.
const DEVICE_TOLERANCE: f64 = 1e-8;
/// The tolerance for finite differences, relative to the sum of the magnitudes of the derivative and of all terms that
/// were added to compute it.
const DIFFERENCE_TOLERANCE: f64 = 1e-5;

/// Checks all properties of a program. Returns a tally of the comparisons, or the first violation.
pub fn check(program: &TestProgram) -> Checked<Tally> {
    check_subject(Subject::new(program)?)
}

/// Checks a program like [`check`], but runs the slow checks only for a sample of programs, to cover more programs in
/// the same time.
///
/// The values, text, execution modes, lanes, and first derivatives (forward and reverse) are checked for every program.
/// Each gradient is compared with the gradient for only one other checkpoint policy. Second derivatives are checked for
/// a third of the programs.
pub fn check_sampled(program: &TestProgram) -> Checked<Tally> {
    check_subject(Subject { is_sampled: true, ..Subject::new(program)? })
}

fn check_subject(subject: Subject<'_>) -> Checked<Tally> {
    let mut tally = Tally::default();
    let results = subject.run("evaluation", &subject.graph)?;
    if !results.iter().all(is_finite) {
        tally.count("not finite");
        return Ok(tally);
    }
    check_text(&subject, &subject.graph)?;
    check_apply_twice(&subject, &results)?;
    check_modes(&subject, &Reference, &subject.graph, &results, REORDERING_TOLERANCE, &mut tally)?;
    check_lanes(&subject, "lanes", &mut tally)?;
    check_straight_line(&subject, &mut tally)?;
    match subject.program.rules {
        Rules::Any => check_gradient(subject, &mut tally)?,
        _ => check_derivatives(subject, 1, &mut tally)?,
    }
    Ok(tally)
}

/// A program under test, with the inputs of the program and of its derivatives, keyed by name.
#[derive(Clone)]
struct Subject<'a> {
    program: &'a TestProgram,
    graph: Graph,
    inputs: BTreeMap<String, HostTensor>,
    /// The state of the random number generator.
    seed: u64,
    /// `true` if the slowest checks run only for a sample of programs.
    is_sampled: bool,
}

impl<'a> Subject<'a> {
    fn new(program: &'a TestProgram) -> Checked<Self> {
        let graph = program.graph.clone();
        check_graph("the graph", &graph)?;
        let types: Vec<TensorType> = (0..graph.inputs().len()).map(|index| graph.input_type(index).clone()).collect();
        let values = arguments(&types, &program.sizes, program.seed)
            .map_err(|reason| Disagreement { property: "arguments", reason })?;
        let names = (0..types.len()).map(|index| graph.input_name(index).to_string());
        let inputs = names.zip(values).collect();
        Ok(Subject { program, graph, inputs, seed: program.seed, is_sampled: false })
    }

    fn arguments(&self, graph: &Graph) -> Vec<HostTensor> {
        (0..graph.inputs().len()).map(|index| self.inputs[graph.input_name(index)].clone()).collect()
    }

    fn run(&self, property: &'static str, graph: &Graph) -> Checked<Vec<HostTensor>> {
        evaluate(graph, &self.arguments(graph)).map_err(|error| failure(property, graph, &error))
    }

    /// Returns a random number in `0..count`.
    fn below(&mut self, count: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        splitmix64(self.seed) % count
    }

    /// Returns a random tensor of the same type as `like`.
    fn another_like(&mut self, like: &HostTensor) -> HostTensor {
        let seed = self.below(1 << 40);
        let made = arguments(&[like.ty()], &Sizes::new(), seed);
        made.ok().and_then(|mut made| made.pop()).unwrap_or_else(|| like.clone())
    }

    /// Sets the inputs that `derivative` has in addition to those of `graph`: tangents or cotangents.
    fn set_added_inputs<'t>(
        &mut self,
        derivative: &Graph,
        graph: &Graph,
        values: impl Iterator<Item = &'t HostTensor>,
    ) {
        for (index, value) in (graph.inputs().len()..).zip(values) {
            self.inputs.insert(derivative.input_name(index).to_string(), value.clone());
        }
    }

    fn float_inputs(&self) -> Vec<String> {
        float_inputs(&self.graph)
    }

    /// Returns `true` if the graph has at least one float input and one float output.
    fn is_differentiable(&self) -> bool {
        let graph = &self.graph;
        !self.float_inputs().is_empty() && graph.outputs().iter().any(|output| graph.ty(output.value).dtype.is_float())
    }
}

/// Returns the names of the float inputs. Derivatives are taken with respect to these inputs.
fn float_inputs(graph: &Graph) -> Vec<String> {
    let indices = (0..graph.inputs().len()).filter(|index| graph.input_type(*index).dtype.is_float());
    indices.map(|index| graph.input_name(index).to_string()).collect()
}

fn options(policy: &CheckpointPolicy) -> GradOptions {
    GradOptions::new().disconnected(Disconnected::Zeros).policy(policy.clone())
}

fn failure(property: &'static str, graph: &Graph, error: &Error) -> Disagreement {
    Disagreement { property, reason: format!("{error}\nin\n{graph}") }
}

fn is_finite(tensor: &HostTensor) -> bool {
    !tensor.dtype().is_float() || tensor.scalars().all(|scalar| scalar.as_f64().is_finite())
}

/// Unwraps the graph that a transformation returned, and checks that the graph is sound and that its text round-trips.
fn check_derived(property: &'static str, graph: &Graph, of: funcify::Result<Graph>) -> Checked<Graph> {
    let derived = of.map_err(|error| failure(property, graph, &error))?;
    check_graph(property, &derived)?;
    Ok(derived)
}

fn check_graph(property: &'static str, graph: &Graph) -> Checked {
    graph.check().map_err(|errors| Disagreement { property, reason: format!("{}\nin\n{graph}", errors[0]) })?;
    let text = graph.to_string();
    let parsed = Graph::parse(&text).map_err(|error| failure("text", graph, &error))?;
    let again = parsed.to_string();
    if again != text {
        return Err(Disagreement { property: "text", reason: format!("{text}\nparses as\n{again}") });
    }
    match graph.difference(&parsed) {
        Some(difference) => {
            Err(Disagreement { property: "text", reason: format!("{difference}\nafter parsing\n{text}") })
        }
        None => Ok(()),
    }
}

/// Checks that the graph returns the same values after it has been printed and parsed.
fn check_text(subject: &Subject<'_>, graph: &Graph) -> Checked {
    let parsed = Graph::parse(&graph.to_string()).map_err(|error| failure("text", graph, &error))?;
    let (expected, found) = (subject.run("text", graph)?, subject.run("text", &parsed)?);
    check_equal("text", graph, &found, &expected, 0.0)
}

/// Applies the program twice inside an outer program, and checks that both applications return the same values as the
/// program itself. The inputs of the outer program have constant sizes, taken from the arguments.
///
/// If an argument is empty, the sizes stay symbolic: with constant sizes, a step that never runs might be rejected
/// for an index out of range.
fn check_apply_twice(subject: &Subject<'_>, expected: &[HostTensor]) -> Checked {
    let (graph, arguments) = (&subject.graph, subject.arguments(&subject.graph));
    let is_empty = arguments.iter().any(|argument| argument.shape().contains(&0));
    let twice = Graph::build("twice", |g| {
        let input = |(index, argument): (usize, &HostTensor)| {
            let ty = if is_empty { graph.input_type(index).clone() } else { argument.ty() };
            g.input(graph.input_name(index), ty)
        };
        let inputs: Vec<_> = arguments.iter().enumerate().map(input).collect();
        (graph.apply(&inputs), graph.apply(&inputs))
    });
    let twice = check_derived("applied", graph, twice)?;
    let results = evaluate(&twice, &arguments).map_err(|error| failure("applied", &twice, &error))?;
    let (first, second) = results.split_at(expected.len());
    check_equal("applied", graph, first, expected, 0.0)?;
    check_equal("applied", graph, second, expected, 0.0)
}

/// Checks that a backend returns the same results as the reference evaluator for the program and its gradient, in every
/// mode. Skips programs with types that the backend does not support.
pub fn check_backend(program: &TestProgram, executor: &dyn Executor) -> Checked<Tally> {
    let mut tally = Tally::default();
    let mut subject = Subject::new(program)?;
    let results = subject.run("evaluation", &subject.graph)?;
    if !results.iter().all(is_finite) {
        tally.count("not finite");
        return Ok(tally);
    }
    let graph = subject.graph.clone();
    check_modes(&subject, executor, &graph, &results, DEVICE_TOLERANCE, &mut tally)?;
    let vjp = check_derived("vjp", &graph, graph.vjp(.., options(&CheckpointPolicy::Recompute)))?;
    let cotangents: Vec<HostTensor> = results.iter().map(|value| subject.another_like(value)).collect();
    subject.set_added_inputs(&vjp, &graph, cotangents.iter().filter(|value| value.dtype().is_float()));
    let expected = subject.run("vjp", &vjp)?;
    check_modes(&subject, executor, &vjp, &expected, DEVICE_TOLERANCE, &mut tally)?;
    Ok(tally)
}

/// Checks that a program returns the expected results in every mode of a backend.
fn check_modes(
    subject: &Subject<'_>,
    executor: &dyn Executor,
    graph: &Graph,
    expected: &[HostTensor],
    tolerance: f64,
    tally: &mut Tally,
) -> Checked {
    for &strategy in modes_of(executor) {
        let property = match strategy {
            LoopStrategy::Unroll => "unrolled",
            LoopStrategy::Compiled => "compiled",
            LoopStrategy::Auto | LoopStrategy::Native => "native",
        };
        // Rewrite the programs with even seeds, and run the others as written.
        let rewrites = subject.program.seed.is_multiple_of(2).then(RewriteOptions::new);
        let compile = CompileOptions { strategy, rewrites, ..CompileOptions::default() };
        let results = executor.compile(graph, compile).and_then(|f| f.call(&subject.arguments(graph)));
        match results {
            Err(error) if property == "unrolled" && error.kind() == "StepCountNotStatic" => tally.count("not unrolled"),
            Err(error) if error.kind() == "Unsupported" => tally.count("not held by the device"),
            Err(error) => return Err(failure(property, graph, &error)),
            Ok(results) => {
                check_equal(property, graph, &results, expected, tolerance)?;
                tally.count(property);
            }
        }
    }
    Ok(())
}

/// Checks that outputs have the expected types and values. The tolerance is relative to the largest element of each
/// output, or to 1 if all elements are smaller.
fn check_equal(
    property: &'static str,
    graph: &Graph,
    found: &[HostTensor],
    expected: &[HostTensor],
    tolerance: f64,
) -> Checked {
    for ((output, found), expected) in graph.outputs().iter().zip(found).zip(expected) {
        let scale =
            expected.to_f64_vec().iter().fold(1f64, |scale, x| if x.is_finite() { scale.max(x.abs()) } else { scale });
        let agrees = |(a, b): (f64, f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * scale;
        let elements = found.to_f64_vec().into_iter().zip(expected.to_f64_vec());
        if found.ty() != expected.ty() || !elements.into_iter().all(agrees) {
            let reason = format!("output `{}` is\n{found:?}\nnot\n{expected:?}\nin\n{graph}", output.name);
            return Err(Disagreement { property, reason });
        }
    }
    Ok(())
}

/// Checks the derivatives of a program. For some programs, recursively checks the derivatives of the gradient or of the
/// forward-mode derivative.
fn check_derivatives(mut subject: Subject<'_>, level: usize, tally: &mut Tally) -> Checked {
    let graph = subject.graph.clone();
    let wrt = subject.float_inputs();
    if !subject.is_differentiable() {
        return Ok(());
    }
    let [forward, reverse, differences] = match level {
        1 => ["jvp", "vjp", "differences"],
        2 => ["jvp of derivative", "vjp of derivative", "differences of derivative"],
        _ => ["third jvp", "third vjp", "third differences"],
    };
    let values = subject.run("evaluation", &graph)?;
    // Repeated differentiation with nested checkpoint segments leads to large programs, so derivatives of higher order
    // use only the first three policies.
    let policy = policies()[subject.below(if level == 1 { 6 } else { 3 }) as usize].clone();
    let jvp = check_derived(forward, &graph, graph.jvp(..))?;
    let vjp = check_derived(reverse, &graph, graph.vjp(.., options(&policy)))?;
    let tangents: Vec<HostTensor> =
        wrt.iter().map(|name| subject.another_like(&subject.inputs[name].clone())).collect();
    let cotangents: Vec<HostTensor> = values.iter().map(|value| subject.another_like(value)).collect();
    let of_outputs = || cotangents.iter().filter(|value| value.dtype().is_float());
    subject.set_added_inputs(&jvp, &graph, tangents.iter());
    subject.set_added_inputs(&vjp, &graph, of_outputs());
    let pushed = subject.run(forward, &jvp)?;
    let pulled = subject.run(reverse, &vjp)?;
    let count = values.len();
    check_equal(forward, &graph, &pushed[..count], &values, REORDERING_TOLERANCE)?;
    check_equal(reverse, &graph, &pulled[..count], &values, REORDERING_TOLERANCE)?;

    let forward_terms = terms(of_outputs(), &pushed[count..]);
    let reverse_terms = terms(tangents.iter(), &pulled[count..]);
    let (by_forward, by_reverse) = (sum(&forward_terms), sum(&reverse_terms));
    let scale = 1e-3 + magnitude(&forward_terms) + magnitude(&reverse_terms);
    let tolerance = if subject.program.is_exact { 1e-9 } else { 3e-2 };
    let near = |a: f64, b: f64| (a - b).abs() <= tolerance * scale;
    let show = |what: &str| {
        let inputs = subject.inputs.iter().map(|(name, value)| format!("  {name} = {value:?}\n"));
        format!("{what}\nwith\n{}in\n{graph}\n{jvp}\n{vjp}", inputs.collect::<String>())
    };
    if !near(by_forward, by_reverse) {
        let reason = show(&format!("forward mode computes {by_forward:?}, reverse mode {by_reverse:?}"));
        return Err(Disagreement { property: reverse, reason });
    }
    tally.count(reverse);
    if subject.program.is_exact && subject.program.rules == Rules::Derivatives {
        match subject.difference(&graph, &wrt, &tangents, &cotangents, by_forward, scale) {
            Difference::Agrees => tally.count(differences),
            Difference::Kink => tally.count("kinks"),
            Difference::Is(number) => {
                let reason = show(&format!("forward mode computes {by_forward:?}, finite differences {number:?}"));
                return Err(Disagreement { property: differences, reason });
            }
        }
    }
    if level == 1 {
        check_gradient_properties(&mut subject, &graph, &vjp, &pulled, &policy, tally)?;
    }
    let goes_on = match level {
        1 => !subject.is_sampled || subject.below(3) == 0,
        2 => subject.below(8) == 0,
        _ => false,
    };
    if goes_on {
        let (of, outputs) = if subject.below(4) > 0 { (&vjp, "grad_") } else { (&jvp, "tan_") };
        let names: Vec<&str> = of.outputs().iter().map(|output| output.name.as_str()).skip(count).collect();
        assert!(names.iter().all(|name| name.starts_with(outputs)));
        let next = check_derived("only", &graph, of.with_only_outputs(&names))?;
        check_derivatives(Subject { graph: next, ..subject }, level + 1, tally)?;
    }
    Ok(())
}

/// Checks the gradient of a program with nonlinear derivative rules, which forward mode rejects. Then checks the
/// derivatives of the gradient.
fn check_gradient(mut subject: Subject<'_>, tally: &mut Tally) -> Checked {
    if !subject.is_differentiable() {
        return Ok(());
    }
    let graph = subject.graph.clone();
    let policy = policies()[subject.below(6) as usize].clone();
    let vjp = check_derived("vjp", &graph, graph.vjp(.., options(&policy)))?;
    let values = subject.run("evaluation", &graph)?;
    let cotangents: Vec<HostTensor> = values.iter().map(|value| subject.another_like(value)).collect();
    subject.set_added_inputs(&vjp, &graph, cotangents.iter().filter(|value| value.dtype().is_float()));
    let pulled = subject.run("vjp", &vjp)?;
    check_equal("vjp", &graph, &pulled[..values.len()], &values, REORDERING_TOLERANCE)?;
    tally.count("vjp that is not linear");
    check_gradient_properties(&mut subject, &graph, &vjp, &pulled, &policy, tally)?;
    let names: Vec<&str> = vjp.outputs()[values.len()..].iter().map(|output| output.name.as_str()).collect();
    let next = check_derived("only", &graph, vjp.with_only_outputs(&names))?;
    check_derivatives(Subject { graph: next, ..subject }, 2, tally)
}

/// Checks that a gradient is the same in every mode and with every checkpoint policy. Then checks either the batched
/// gradient or the gradient of a batched program.
fn check_gradient_properties(
    subject: &mut Subject<'_>,
    graph: &Graph,
    vjp: &Graph,
    pulled: &[HostTensor],
    used: &CheckpointPolicy,
    tally: &mut Tally,
) -> Checked {
    check_modes(subject, &Reference, vjp, pulled, REORDERING_TOLERANCE, tally)?;
    let has_loops = has_bodies(graph);
    let others = policies().into_iter().filter(|other| has_loops && other != used);
    let (skipped, count) = if subject.is_sampled { (subject.below(5) as usize, 1) } else { (0, 6) };
    for policy in &others.skip(skipped).take(count).collect::<Vec<_>>() {
        let other = check_derived("policies", graph, graph.vjp(.., options(policy)))?;
        let results = subject.run("policies", &other)?;
        check_equal(
            "policies",
            &other,
            &results,
            pulled,
            if subject.program.is_exact { REORDERING_TOLERANCE } else { 1e-2 },
        )?;
        tally.count("policies");
    }
    // Several lanes may share a call to a function with a nonlinear derivative rule. The rule then receives the sum of
    // the lanes' cotangents, so the gradient of the batched program differs from the gradients of the lanes.
    match subject.below(3) {
        number if number == 0 || subject.program.rules == Rules::Any => {
            check_lanes(&Subject { graph: vjp.clone(), ..subject.clone() }, "lanes of the gradient", tally)?;
        }
        _ => check_gradient_of_lanes(subject, graph, vjp, tally)?,
    }
    Ok(())
}

fn has_bodies(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| !node.op.bodies().is_empty())
}

/// Multiplies weights and values elementwise. Returns the products of all tensors in one vector.
fn terms<'t>(weights: impl Iterator<Item = &'t HostTensor>, values: &[HostTensor]) -> Vec<f64> {
    let pairs = weights.zip(values);
    let products = |(weights, values): (&HostTensor, &HostTensor)| {
        let products = weights.to_f64_vec().into_iter().zip(values.to_f64_vec()).map(|(a, b)| a * b);
        products.collect::<Vec<f64>>()
    };
    pairs.flat_map(products).collect()
}

fn sum(terms: &[f64]) -> f64 {
    terms.iter().sum()
}

fn magnitude(terms: &[f64]) -> f64 {
    terms.iter().map(|term| term.abs()).sum()
}
