//! Checks that the two programs of a pullback return the same results as reverse mode in a single program, for all
//! programs of the suite.

use funcify::derivative::BackwardInput;
use funcify::{Disconnected, Error, GradOptions, HostTensor, evaluate};
use funcify_conformance::{Case, Expected, all_cases};

/// Compares the gradients of all float inputs, computed by a single program and by two programs. Uses the outputs as
/// their own cotangents. Returns `None` if an op of the case has no derivative.
fn check(case: &Case) -> Option<()> {
    let options = || GradOptions::new().disconnected(Disconnected::Zeros);
    let joint = match case.graph.vjp(.., options()) {
        Ok(joint) => joint,
        Err(Error::NoDerivative { .. }) => return None,
        Err(error) => panic!("{}: {error}", case.name),
    };
    let pullback = case.graph.pullback(.., options()).unwrap();
    let what = || format!("{}\n{}\n{}", case.name, pullback.forward, pullback.backward);
    for graph in [&pullback.forward, &pullback.backward] {
        graph.check().unwrap_or_else(|errors| panic!("{errors:?}\n{}", what()));
    }
    let outputs =
        evaluate(&pullback.forward, &case.inputs).unwrap_or_else(|error| panic!("forward: {error}\n{}", what()));
    let count = case.graph.outputs().len();
    let cotangents = outputs[..count].iter().filter(|output| output.dtype().is_float()).cloned();
    let inputs: Vec<HostTensor> = case.inputs.iter().cloned().chain(cotangents).collect();
    let expected = evaluate(&joint, &inputs).unwrap();
    assert_eq!(format!("{:?}", outputs[..count].to_vec()), format!("{:?}", expected[..count].to_vec()), "{}", what());
    let backward_inputs = pullback.backward_inputs.iter().map(|input| match input {
        BackwardInput::Input(index) => case.inputs[*index].clone(),
        BackwardInput::Output(index) | BackwardInput::Cotangent(index) => outputs[*index].clone(),
    });
    let backward_inputs: Vec<HostTensor> = backward_inputs.collect();
    let gradients =
        evaluate(&pullback.backward, &backward_inputs).unwrap_or_else(|error| panic!("backward: {error}\n{}", what()));
    assert_eq!(format!("{gradients:?}"), format!("{:?}", expected[count..].to_vec()), "{}", what());
    Some(())
}

#[test]
fn every_program() {
    let cases = all_cases().unwrap();
    // For single ops, the f64 cases are enough, because every differentiable op has an f64 case.
    let is_op = |case: &&Case| case.category != "op" || case.name.ends_with("_f64");
    let programs = cases.iter().filter(is_op).filter(|case| !["numerics", "vmap"].contains(&case.category.as_str()));
    let with_results = programs.filter(|case| matches!(case.expected, Expected::Outputs(_)));
    let checked = with_results.filter_map(check).count();
    assert!(checked > 700, "{checked} programs");
}
