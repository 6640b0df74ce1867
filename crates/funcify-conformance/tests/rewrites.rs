//! Checks the rewriting of the suite's programs, and of random programs and their gradients. Rewriting must preserve
//! the results, both with all rules and with each rule alone. It must terminate, and must not change a rewritten
//! program again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use funcify::dispatch::LoopStrategy;
use funcify::rewrite::{RULES, Rewrite, RewriteOptions, Rewritten};
use funcify::{CheckpointPolicy, Disconnected, GradOptions, Graph, HostTensor, Scalar, evaluate};
use funcify_conformance::arbitrary::{Choices, Sample, TestProgram, arguments};
use funcify_conformance::{Case, Expected, all_cases, compare};

/// The number of passes within which the rewriting of each test program must finish.
const PASSES: usize = 12;

/// The outcome of running a program: its results, or the kind of its error.
type Outcome = Result<Vec<HostTensor>, &'static str>;

fn outcome(graph: &Graph, inputs: &[HostTensor]) -> Outcome {
    evaluate(graph, inputs).map_err(|error| error.kind())
}

/// Rewrites a graph. Checks that the rewritten graph is sound, has the same inputs and outputs, and is not changed by
/// rewriting it again.
fn rewritten(what: &str, graph: &Graph, options: &RewriteOptions) -> Rewritten {
    let first = graph.rewritten_with(options).unwrap_or_else(|error| panic!("{what}: {error}"));
    first.graph.check().unwrap_or_else(|errors| panic!("{what}: {}\nin\n{}", errors[0], first.graph));
    assert!(first.passes <= PASSES, "{what}: {} passes\n{graph}", first.passes);
    let again = first.graph.rewritten_with(options).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(again.patches.len(), 0, "{what}: {:?}\n{}", again.patches, first.graph);
    assert_eq!(again.graph.to_string(), first.graph.to_string(), "{what}");
    let inputs = |graph: &Graph| -> Vec<(String, String, bool)> {
        let input = |index: usize| {
            let (name, ty) = (graph.input_name(index).to_string(), graph.input_type(index).to_string());
            (name, ty, graph.inputs()[index].is_static)
        };
        (0..graph.inputs().len()).map(input).collect()
    };
    let outputs = |graph: &Graph| -> Vec<(String, String)> {
        graph.outputs().iter().map(|output| (output.name.clone(), graph.ty(output.value).to_string())).collect()
    };
    assert_eq!((inputs(&first.graph), outputs(&first.graph)), (inputs(graph), outputs(graph)), "{what}");
    first
}

/// Returns whether all applied rules preserve results bit for bit.
fn is_exact(rewritten: &Rewritten) -> bool {
    rewritten.patches.iter().all(|patch| RULES.iter().all(|rule| rule.name != patch.rule || !rule.reorders_sums))
}

fn same(left: Scalar, right: Scalar, tolerance: f64) -> bool {
    match (left, right) {
        (Scalar::Float(left), Scalar::Float(right)) => {
            left.to_bits() == right.to_bits()
                || (left.is_nan() && right.is_nan())
                || (tolerance > 0.0 && (left - right).abs() <= tolerance)
        }
        (left, right) => left == right,
    }
}

/// Asserts that a rewritten graph returns the same results as the original: bit for bit, unless sums were
/// reassociated.
fn check_values(what: &str, raw: &Outcome, rewritten: &Rewritten, inputs: &[HostTensor]) {
    let found = outcome(&rewritten.graph, inputs);
    let shown = || rewritten.patches.iter().map(ToString::to_string).collect::<String>();
    let (Ok(expected), Ok(found)) = (raw, &found) else {
        assert_eq!(raw, &found, "{what}\n{}\n{}", shown(), rewritten.graph);
        return;
    };
    for (output, (expected, found)) in rewritten.graph.outputs().iter().zip(expected.iter().zip(found)) {
        let scale =
            expected.to_f64_vec().into_iter().filter(|x| x.is_finite()).fold(1f64, |scale, x| scale.max(x.abs()));
        let rounding = match expected.dtype().size() {
            8 => 1e-10,
            4 => 1e-4,
            _ => 5e-2,
        };
        let tolerance = if is_exact(rewritten) { 0.0 } else { rounding * scale };
        let agrees = expected.ty() == found.ty()
            && expected.scalars().zip(found.scalars()).all(|(left, right)| same(left, right, tolerance));
        let name = &output.name;
        assert!(agrees, "{what}, {name}: {found:?}\nnot\n{expected:?}\n{}\n{}", shown(), rewritten.graph);
    }
}

/// Rules for single ops. They apply to so many programs that each is tested alone on only one program in eight.
const OF_OPS: [&str; 6] =
    ["dead_code", "common_subexpression", "constant_folding", "identity", "known_choice", "movement"];

/// Checks a program rewritten with all default rules, with each applied rule alone, and with the rules that are off by
/// default. Returns the number of times that each rule was applied.
fn check(what: &str, number: usize, graph: &Graph, inputs: &[HostTensor]) -> BTreeMap<&'static str, usize> {
    let raw = outcome(graph, inputs);
    let all = rewritten(what, graph, &RewriteOptions::new());
    check_values(what, &raw, &all, inputs);
    let mut used = all.counts();
    let on_request = RULES.iter().filter(|rule| rule.on_request);
    let options = on_request.fold(RewriteOptions::new(), |options, rule| options.with(rule.name));
    let what_more = format!("{what}, with rules on request");
    let has_loops = graph.nodes().iter().any(|node| !node.op.bodies().is_empty());
    let more = if has_loops { rewritten(&what_more, graph, &options) } else { all.clone() };
    if more.patches.iter().any(|patch| RULES.iter().any(|rule| rule.on_request && rule.name == patch.rule)) {
        check_values(&what_more, &raw, &more, inputs);
        add(&mut used, more.counts());
    }
    if used.len() > 1 {
        for rule in used.keys().filter(|rule| number.is_multiple_of(8) || !OF_OPS.contains(rule)) {
            let what = format!("{what}, {rule} alone");
            let alone = rewritten(&what, graph, &RewriteOptions::new().only(&[rule]));
            check_values(&what, &raw, &alone, inputs);
        }
    }
    used
}

fn add(total: &mut BTreeMap<&'static str, usize>, used: BTreeMap<&'static str, usize>) {
    used.into_iter().for_each(|(rule, count)| *total.entry(rule).or_default() += count);
}

/// Asserts that a case's rewritten program returns the expected result.
fn check_expected(case: &Case, graph: &Graph) {
    match (case.expected_in(LoopStrategy::Native), evaluate(graph, &case.inputs)) {
        (Expected::Outputs(expected), Ok(results)) => {
            compare(graph, &results, &expected).unwrap_or_else(|reason| panic!("{}: {reason}", case.name));
        }
        (Expected::Error(kind), Err(error)) if error.kind() == kind => {}
        (expected, results) => panic!("{}: {results:?}, not {expected:?}", case.name),
    }
}

#[test]
fn every_program_of_the_suite_gives_what_it_gave() {
    let mut total = BTreeMap::new();
    for (number, case) in all_cases().unwrap().into_iter().enumerate() {
        add(&mut total, check(&case.name, number, &case.graph, &case.inputs));
        check_expected(&case, &case.graph.rewritten());
    }
    println!("{total:?}");
    let unused: Vec<&str> = RULES.iter().map(|rule| rule.name).filter(|name| !total.contains_key(name)).collect();
    assert!(unused.is_empty(), "no program uses {unused:?}");
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Rewriting must not change the results of random programs and of their gradients. Set `FUNCIFY_RANDOM_GRAPHS=10000`
/// to check more programs, and `FUNCIFY_RANDOM_SEED=7` to check different ones.
#[test]
fn random_programs_and_their_gradients_give_what_they_gave() {
    let (count, first) = (setting("FUNCIFY_RANDOM_GRAPHS", 400), setting("FUNCIFY_RANDOM_SEED", 1));
    let mut total = BTreeMap::new();
    for seed in first..first + count {
        let Ok(sample) = Sample::new(&mut Choices::seeded(seed)) else { continue };
        let program = TestProgram::from(&sample);
        let graph = &program.graph;
        let types: Vec<_> = (0..graph.inputs().len()).map(|index| graph.input_type(index).clone()).collect();
        let inputs = arguments(&types, &program.sizes, program.seed).unwrap();
        add(&mut total, check(&format!("seed {seed}"), seed as usize, graph, &inputs));
        let Ok(results) = evaluate(graph, &inputs) else { continue };
        let types: Vec<_> = results.iter().map(HostTensor::ty).filter(|ty| ty.dtype.is_float()).collect();
        let cotangents = arguments(&types, &program.sizes, program.seed + 1).unwrap();
        let policy = if seed % 2 == 0 { CheckpointPolicy::Recompute } else { CheckpointPolicy::SaveAll };
        let options = GradOptions::new().disconnected(Disconnected::Zeros).policy(policy);
        if let Ok(vjp) = graph.vjp(.., options) {
            add(&mut total, check(&format!("seed {seed}, vjp"), seed as usize, &vjp, &[inputs, cotangents].concat()));
        }
    }
    println!("{total:?}");
    assert!(total.len() * 2 > RULES.len(), "{total:?}");
}

/// Stopping the rewriting after any number of patches must not change the results.
#[test]
fn patches_are_counted() {
    let is_one = |case: &Case| {
        case.category == "grad" && case.graph.rewritten_with(&RewriteOptions::new()).unwrap().patches.len() > 12
    };
    let case = all_cases().unwrap().into_iter().find(is_one).unwrap();
    let raw = outcome(&case.graph, &case.inputs);
    let all = rewritten(&case.name, &case.graph, &RewriteOptions::new()).patches.len();
    let mut texts = BTreeSet::new();
    for count in 0..=all {
        let part = case.graph.rewritten_with(&RewriteOptions::new().stop_after(count)).unwrap();
        assert_eq!(part.patches.len(), count);
        check_values(&format!("{} after {count}", case.name), &raw, &part, &case.inputs);
        texts.insert(part.graph.to_string());
    }
    assert!(texts.len() > all / 2, "{} programs of {all} patches", texts.len());
    let none = case.graph.rewritten_with(&RewriteOptions::new().stop_after(0)).unwrap();
    assert_eq!(none.graph.to_string(), case.graph.to_string());
}

/// Rewriting the largest program must take less than a second.
#[test]
fn the_largest_program_is_rewritten_in_time() {
    let size = |graph: &Graph| graph.to_string().len();
    let largest = all_cases().unwrap().into_iter().max_by_key(|case| size(&case.graph)).unwrap();
    let shortest = (0..5)
        .map(|_| {
            let start = Instant::now();
            largest.graph.rewritten();
            start.elapsed()
        })
        .min()
        .expect("the rewrite is timed several times");
    println!("{}: {} lines, {shortest:?}", largest.name, largest.graph.to_string().lines().count());
    assert!(shortest < Duration::from_secs(1), "{shortest:?}");
}
