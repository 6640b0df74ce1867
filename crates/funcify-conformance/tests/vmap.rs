//! Checks for every case that `vmap` returns the same results as running the lanes one at a time.
//!
//! All cases of the suite are batched, regardless of their ops, so that new ops are covered automatically. The lanes
//! are the arguments of the case, and variations of them.

use funcify::{Dim, Error, Graph, HostTensor, VmapOptions, evaluate};
use funcify_conformance::lanes::{arguments, evaluate_lanes_one_by_one, operands, stack_lanes, vary_input};
use funcify_conformance::{Case, Expected, ExpectedOutput, all_cases, compare};

/// Cases with a branch that needs more memory than any machine has, but is not taken.
const HUGE: [&str; 1] = ["edge/huge_branch_that_is_not_taken"];

/// The outcome of a batched case.
#[derive(PartialEq, Debug)]
enum Outcome {
    /// The results equal those of running each lane separately.
    Equal,
    /// The program was rejected because a computed size differs between lanes, which would make a result ragged.
    Ragged,
    /// The program was rejected because one of its branches exceeds the memory budget. With batched predicates, all
    /// branches run.
    OverBudget,
}

/// Batches a case over the mapped inputs, and compares the results with those of running each lane separately.
fn check(case: &Case, mapped: &[bool]) -> Outcome {
    let lane = |vary: bool| -> Vec<HostTensor> {
        let inputs = case.inputs.iter().zip(mapped);
        inputs.map(|(input, mapped)| if *mapped && vary { vary_input(input) } else { input.clone() }).collect()
    };
    let what = || {
        let names = (0..mapped.len()).filter(|index| mapped[*index]).map(|index| case.graph.input_name(index));
        format!("{} over {}", case.name, names.collect::<Vec<_>>().join(", "))
    };
    let mut lanes = vec![lane(false), lane(true), lane(false)];
    let mut expected = evaluate_lanes_one_by_one(&case.graph, &lanes);
    if expected.is_none() {
        lanes = vec![lane(false), lane(false)];
        expected = evaluate_lanes_one_by_one(&case.graph, &lanes);
    }
    let expected = expected.unwrap_or_else(|| panic!("{}: one lane fails", what()));
    let axes: Vec<Option<i64>> = mapped.iter().map(|mapped| mapped.then_some(0)).collect();
    let batched = match case.graph.vmap("LANES", VmapOptions::new().in_axes(axes)) {
        Ok(batched) => batched,
        Err(Error::StepCount { reason, .. }) if reason.contains("ragged") => return Outcome::Ragged,
        Err(error) => panic!("{}: {error}", what()),
    };
    batched.check().unwrap_or_else(|errors| panic!("{}: {errors:?}\n{batched}", what()));
    let text = batched.to_string();
    assert_eq!(Graph::parse(&text).unwrap().to_string(), text, "{}", what());
    let arguments = arguments(&lanes, mapped);
    let results = match evaluate(&batched, &arguments) {
        Err(Error::OverBudget { .. }) if HUGE.contains(&&*case.name) => return Outcome::OverBudget,
        results => results.unwrap_or_else(|error| panic!("{}: {error}\n{batched}", what())),
    };
    compare(&batched, &results, &expected).unwrap_or_else(|reason| panic!("{}: {reason}\n{batched}", what()));
    Outcome::Equal
}

fn cases_with_results() -> impl Iterator<Item = Case> {
    let cases = all_cases().unwrap().into_iter();
    cases.filter(|case| matches!(case.expected, Expected::Outputs(_)) && !case.inputs.is_empty())
}

fn programs() -> impl Iterator<Item = Case> {
    cases_with_results().filter(|case| !["op", "vmap"].contains(&case.category.as_str()))
}

/// Batches each op over each operand alone, and over all operands together.
#[test]
fn every_op() {
    let mut batched = 0;
    for case in cases_with_results().filter(|case| case.category == "op") {
        let operands = operands(&case);
        let count = operands.iter().max().map_or(0, |largest| largest + 1);
        let alone = (0..count).map(|one| operands.iter().map(|operand| *operand == one).collect());
        let mut patterns: Vec<Vec<bool>> = alone.collect();
        if count > 1 {
            patterns.push(vec![true; operands.len()]);
        }
        for mapped in patterns {
            assert_eq!(check(&case, &mapped), Outcome::Equal);
            batched += 1;
        }
    }
    assert!(batched > 800, "{batched} batched cases of ops");
}

/// Batches each program over each input alone, over all inputs together, and over all float inputs together.
#[test]
fn every_program() {
    let (mut equal, mut ragged) = (0, 0);
    for case in programs() {
        let count = case.inputs.len();
        let mut patterns: Vec<Vec<bool>> =
            (0..count).map(|one| (0..count).map(|input| input == one).collect()).collect();
        patterns.push(vec![true; count]);
        patterns.push(case.inputs.iter().map(|input| input.dtype().is_float()).collect());
        patterns.retain(|mapped| mapped.contains(&true));
        patterns.sort();
        patterns.dedup();
        for mapped in patterns {
            match check(&case, &mapped) {
                Outcome::Equal => equal += 1,
                Outcome::Ragged => {
                    let text = case.graph.to_string();
                    let has_size = ["{steps=$", "until", "bind_size"].into_iter().any(|word| text.contains(word));
                    assert!(has_size, "{} has no computed size", case.name);
                    ragged += 1;
                }
                Outcome::OverBudget => {}
            }
        }
    }
    assert!(equal > 800, "{equal} batched programs");
    assert!(ragged * 5 < equal, "{ragged} rejected programs, {equal} batched");
}

/// Applies `vmap` twice: first over all inputs, and then over the first input.
#[test]
fn lanes_of_lanes() {
    let mut equal = 0;
    for case in programs() {
        let Ok(inner) = case.graph.vmap("INNER", VmapOptions::new()) else { continue };
        let inputs: Vec<HostTensor> = case.inputs.iter().map(|input| stack_lanes(&[input, input])).collect();
        let results = match evaluate(&inner, &inputs) {
            Err(Error::OverBudget { .. }) if HUGE.contains(&&*case.name) => continue,
            results => results.unwrap_or_else(|error| panic!("{}: the lanes fail: {error}", case.name)),
        };
        let outputs = inner.outputs().iter().zip(results).map(|(output, values)| {
            let name = output.name.clone();
            ExpectedOutput { name, ty: values.ty(), values, rtol: 0.0, atol: 0.0 }
        });
        let expected = Expected::Outputs(outputs.collect());
        let mapped: Vec<bool> = (0..inputs.len()).map(|input| input == 0).collect();
        if check(&Case { graph: inner, inputs, expected, ..case }, &mapped) == Outcome::Equal {
            equal += 1;
        }
    }
    assert!(equal > 200, "{equal} programs");
}

/// With zero lanes, given as a constant or as a symbol, each result must have an axis of size 0, followed by the axes
/// of a single lane's result.
#[test]
fn no_lanes() {
    let mut checked = 0;
    for case in cases_with_results().filter(|case| case.category != "vmap" && !HUGE.contains(&&*case.name)) {
        let Expected::Outputs(outputs) = &case.expected else { continue };
        for lanes in [Dim::from(0), Dim::from("LANES")] {
            let Ok(batched) = case.graph.vmap(lanes.clone(), VmapOptions::new()) else { continue };
            let inputs: Vec<HostTensor> =
                case.inputs.iter().map(|it| HostTensor::zeros(it.dtype(), &[&[0], it.shape()].concat())).collect();
            let results = evaluate(&batched, &inputs);
            let results = results.unwrap_or_else(|error| panic!("{} on {lanes} lanes: {error}\n{batched}", case.name));
            for (index, (output, result)) in batched.outputs().iter().zip(&results).enumerate() {
                // Skip results with computed sizes, because there is no lane to determine those sizes.
                let is_fixed = |dim: &Dim| dim.symbols().iter().all(|symbol| !symbol.name().starts_with('$'));
                if case.graph.output_type(index).shape.dims().iter().all(is_fixed) {
                    let of_one = outputs.iter().find(|it| it.name == output.name).map(|it| it.values.shape());
                    let expected = [&[0], of_one.unwrap()].concat();
                    assert_eq!(result.shape(), expected, "{} on {lanes} lanes: {}\n{batched}", case.name, output.name);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 800, "{checked} results");
}
