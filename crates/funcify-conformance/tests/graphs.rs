//! Checks that the graphs of all cases are sound, that their text round-trips, and that one compiled function serves
//! arguments of all sizes.

use std::collections::BTreeMap;

use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::{CheckpointPolicy, Disconnected, GradOptions, Graph, HostTensor};
use funcify_conformance::{Case, Expected, MODES, all_cases, compare};

/// Asserts that `results` contains the results or the error that a case expects.
fn check(case: &Case, mode: LoopStrategy, results: funcify::Result<Vec<HostTensor>>) {
    match (case.expected_in(mode), results) {
        (Expected::Outputs(expected), Ok(results)) => {
            let outcome = compare(&case.graph, &results, &expected);
            outcome.unwrap_or_else(|reason| panic!("{}, {}: {reason}", case.name, mode.name()));
        }
        (Expected::Error(kind), Err(error)) if error.kind() == kind => {}
        (expected, results) => panic!("{}, {}: {results:?}, not {expected:?}", case.name, mode.name()),
    }
}

#[test]
fn every_graph_is_sound_and_round_trips_through_text() {
    for case in all_cases().unwrap() {
        let text = case.graph.to_string();
        case.graph.check().unwrap_or_else(|errors| panic!("{}: {errors:?}", case.name));
        let parsed = Graph::parse(&text).unwrap_or_else(|error| panic!("{}: {error}\nin\n{text}", case.name));
        parsed.check().unwrap_or_else(|errors| panic!("{} after parsing: {errors:?}", case.name));
        assert_eq!(parsed.to_string(), text, "{}", case.name);
        assert_eq!(case.graph.difference(&parsed), None, "{}", case.name);
    }
}

#[test]
fn names_of_cases_are_unique() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    all_cases().unwrap().into_iter().for_each(|case| *counts.entry(case.name).or_default() += 1);
    let repeated: Vec<&String> = counts.iter().filter(|(_, count)| **count > 1).map(|(name, _)| name).collect();
    assert!(repeated.is_empty(), "{repeated:?}");
}

/// For cases with the same graph, one compiled function must serve all sizes of arguments.
#[test]
fn one_function_serves_all_sizes() {
    let mut graphs: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in all_cases().unwrap() {
        graphs.entry(case.graph.to_string()).or_default().push(case);
    }
    let shared: Vec<Vec<Case>> = graphs.into_values().filter(|cases| cases.len() > 1).collect();
    assert!(shared.len() >= 5, "{} graphs are shared", shared.len());
    for cases in shared {
        for mode in MODES {
            let options = CompileOptions { strategy: mode, ..CompileOptions::default() };
            let compile = || Function::compile_with(&cases[0].graph, &Reference, options.clone());
            // Errors that do not depend on the sizes of the arguments are returned at compile time.
            let Ok(function) = compile() else {
                cases.iter().for_each(|case| check(case, mode, compile().map(|_| Vec::new())));
                continue;
            };
            for case in cases.iter().chain(&cases) {
                check(case, mode, function.call_host(&case.inputs));
            }
        }
    }
}

/// The reference evaluator must return the expected results when it is called directly, without compiling the program.
#[test]
fn the_reference_evaluation_gives_what_is_expected() {
    for case in all_cases().unwrap() {
        check(&case, LoopStrategy::Native, funcify::evaluate(&case.graph, &case.inputs));
    }
}

/// Returns the checkpoint policies to compare with the default.
fn policies() -> [CheckpointPolicy; 6] {
    [
        CheckpointPolicy::SaveDots,
        CheckpointPolicy::SaveAll,
        CheckpointPolicy::Segments(2),
        CheckpointPolicy::Segments(3),
        CheckpointPolicy::Levels(vec![4, 2]),
        CheckpointPolicy::Budget(64),
    ]
}

/// The checkpoint policy must not change derivatives. Compares all golden gradients, and the derivatives of gradients
/// of recurrences, under each policy.
#[test]
fn policies_change_no_derivative() {
    let cases: BTreeMap<String, Case> =
        all_cases().unwrap().into_iter().map(|case| (case.name.clone(), case)).collect();
    let derivatives = ["grad", "jvp", "hvp", "grad3"];
    let recurrences = ["scan", "taps", "mit_mot", "nested", "while"];
    let (mut gradients, mut products) = (0, 0);
    // Cases of layers are not golden, but some have the same names as golden cases.
    let golden = |case: &&Case| !derivatives.contains(&case.category.as_str()) && case.category != "layer";
    for case in cases.values().filter(golden) {
        let name = case.name.split_once('/').map_or("", |(_, name)| name);
        let of = |group: &str| {
            let derivative = cases.get(&format!("{group}/{name}"));
            derivative.filter(|derivative| derivative.graph.name() == case.graph.name())
        };
        let Some(gradient) = of("grad") else { continue };
        let is_recurrence = recurrences.iter().any(|category| case.category.starts_with(category));
        let product = of("hvp").filter(|_| is_recurrence);
        for policy in policies() {
            let what = format!("{name}, {policy}");
            let options = GradOptions::new().disconnected(Disconnected::Zeros).policy(policy);
            let graph = case.graph.vjp(.., options).unwrap_or_else(|error| panic!("{what}: {error}"));
            graph.check().unwrap_or_else(|errors| panic!("{what}: {errors:?}"));
            if let Some(product) = product {
                let outputs = graph.outputs().iter().map(|output| output.name.as_str());
                let outputs: Vec<&str> = outputs.filter(|name| name.starts_with("grad_")).collect();
                let floats = (0..case.graph.inputs().len()).filter(|at| case.graph.input_type(*at).dtype.is_float());
                let wrt: Vec<&str> = floats.map(|index| case.graph.input_name(index)).collect();
                let pushed = graph.with_only_outputs(&outputs).and_then(|graph| graph.jvp(wrt.as_slice()));
                check_derivative(&what, product, pushed.unwrap_or_else(|error| panic!("{what}: {error}")));
                products += 1;
            }
            check_derivative(&what, gradient, graph);
            gradients += 1;
        }
    }
    assert!(gradients > 6 * 300, "{gradients} gradients are compared");
    assert!(products > 6 * 50, "{products} derivatives of gradients are compared");
}

fn check_derivative(what: &str, expected: &Case, graph: Graph) {
    let case = Case { graph, name: what.to_string(), ..expected.clone() };
    check(&case, LoopStrategy::Native, funcify::evaluate(&case.graph, &case.inputs));
}
