//! Builds cases for `vmap`, which must return the same results as running the lanes one at a time.

use funcify::graph::Output;
use funcify::{Graph, HostTensor, Scalar, VmapOptions, evaluate};
use rayon::prelude::*;

use crate::case::{Case, Expected, ExpectedOutput};

/// Derives a second lane's input from the first lane's input. Reverses a tensor along every axis, multiplies a float
/// scalar by 0.75, and decrements an integer scalar above 1.
pub fn vary_input(tensor: &HostTensor) -> HostTensor {
    HostTensor::from_fn(tensor.dtype(), tensor.shape(), |index| {
        let mirrored: Vec<usize> = index.iter().zip(tensor.shape()).map(|(at, size)| size - 1 - at).collect();
        match tensor.at(&mirrored) {
            Scalar::Int(number) if index.is_empty() && number > 1 => Scalar::Int(number - 1),
            Scalar::Float(number) if index.is_empty() => Scalar::Float(0.75 * number),
            scalar => scalar,
        }
    })
}

/// Stacks tensors of the same type along a new first axis.
pub fn stack_lanes(lanes: &[&HostTensor]) -> HostTensor {
    let shape = [&[lanes.len()], lanes[0].shape()].concat();
    HostTensor::from_fn(lanes[0].dtype(), &shape, |index| lanes[index[0]].at(&index[1..]))
}

/// Returns the arguments of the batched program. A mapped input gets the stacked tensors of all lanes, and any other
/// input gets the first lane's tensor.
pub fn arguments(lanes: &[Vec<HostTensor>], mapped: &[bool]) -> Vec<HostTensor> {
    let all = |index: usize| stack_lanes(&lanes.iter().map(|lane| &lane[index]).collect::<Vec<_>>());
    mapped
        .iter()
        .enumerate()
        .map(|(index, mapped)| if *mapped { all(index) } else { lanes[0][index].clone() })
        .collect()
}

/// Evaluates the lanes one at a time with the reference evaluator. Returns the stacked results as expected outputs with
/// zero tolerance.
///
/// Returns `None` if a lane fails, or if a result has different shapes in different lanes, for example because the
/// lanes run different numbers of steps.
pub fn evaluate_lanes_one_by_one(graph: &Graph, lanes: &[Vec<HostTensor>]) -> Option<Vec<ExpectedOutput>> {
    let results: Vec<Vec<HostTensor>> = lanes.iter().map(|lane| evaluate(graph, lane).ok()).collect::<Option<_>>()?;
    let output = |(index, output): (usize, &Output)| {
        let lanes: Vec<&HostTensor> = results.iter().map(|lane| &lane[index]).collect();
        let alike = lanes.iter().all(|lane| lane.shape() == lanes[0].shape());
        let values = alike.then(|| stack_lanes(&lanes))?;
        Some(ExpectedOutput { name: output.name.clone(), ty: values.ty(), values, rtol: 0.0, atol: 0.0 })
    };
    graph.outputs().iter().enumerate().map(output).collect()
}

/// Returns, for each input of a single-op case, the index of the operand that the input supplies. For input
/// `uploaded_3_1`, the index is 1. If the inputs are named differently, input `i` supplies operand `i`.
pub fn operands(case: &Case) -> Vec<usize> {
    let places = 0..case.inputs.len();
    let number = |input: usize| case.graph.input_name(input).rsplit_once('_')?.1.parse().ok();
    let numbered: Option<Vec<usize>> = places.clone().map(number).collect();
    numbered.unwrap_or_else(|| places.collect())
}

/// Builds the cases of the category `vmap`: two-lane cases of every op on f32, i64 and booleans. Some are mapped over
/// all operands, and some over the first operand only.
pub(crate) fn cases(ops: &[Case]) -> Result<Vec<Case>, String> {
    let is_shown = |case: &&Case| ["_f32", "_i64", "_bool"].iter().any(|dtype| case.name.ends_with(dtype));
    let cases: Vec<Vec<Case>> = ops.par_iter().filter(is_shown).map(cases_on_lanes).collect::<Result<_, String>>()?;
    Ok(cases.into_iter().flatten().collect())
}

/// Builds two-lane cases from the case of an op: one mapped over all operands and, if there are several operands, one
/// mapped over the first operand only.
pub(crate) fn cases_on_lanes(case: &Case) -> Result<Vec<Case>, String> {
    let operands = operands(case);
    let mut both = Vec::from_iter(batched_case(case, "all", &vec![true; operands.len()])?);
    if operands.iter().any(|operand| *operand > 0) {
        let first: Vec<bool> = operands.iter().map(|operand| *operand == 0).collect();
        both.extend(batched_case(case, "first", &first)?);
    }
    Ok(both)
}

/// Builds the two-lane version of a case, in which the lanes differ in the mapped inputs. The tolerance stays the
/// same. Returns `None` if the original case expects an error, or if no input is mapped.
fn batched_case(case: &Case, suffix: &str, mapped: &[bool]) -> Result<Option<Case>, String> {
    let Expected::Outputs(outputs) = &case.expected else { return Ok(None) };
    if !mapped.contains(&true) {
        return Ok(None);
    }
    let (_, op) = case.name.split_once('/').unwrap_or(("", &case.name));
    let name = format!("vmap/{op}_{suffix}");
    let vary = |(input, mapped): (&HostTensor, &bool)| if *mapped { vary_input(input) } else { input.clone() };
    let lanes = [case.inputs.clone(), case.inputs.iter().zip(mapped).map(vary).collect()];
    let axes: Vec<Option<i64>> = mapped.iter().map(|mapped| mapped.then_some(0)).collect();
    let graph = case.graph.vmap(lanes.len(), VmapOptions::new().in_axes(axes));
    let graph = graph.map_err(|error| format!("case `{name}`: {error}"))?;
    let results = evaluate_lanes_one_by_one(&case.graph, &lanes)
        .ok_or_else(|| format!("case `{name}`: a lane has no results"))?;
    let expected = results.into_iter().zip(outputs);
    let expected = expected.map(|(lanes, one)| ExpectedOutput { rtol: one.rtol, atol: one.atol, ..lanes }).collect();
    let (category, inputs) = ("vmap".to_string(), arguments(&lanes, mapped));
    Ok(Some(Case { name, category, graph, inputs, expected: Expected::Outputs(expected), ..case.clone() }))
}
