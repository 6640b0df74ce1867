//! Checks properties of batched programs.

use std::collections::BTreeMap;

use funcify::{CheckpointPolicy, Dim, Graph, HostTensor, Scalar, VmapOptions, evaluate};

use super::{
    Checked, Disagreement, REORDERING_TOLERANCE, Subject, Tally, check_derived, check_equal, failure, is_finite,
    options,
};
use crate::arbitrary::is_ragged;

/// Checks that `vmap` returns the same results as running the lanes one at a time. Returns the batched program, or
/// `None` if the comparison was skipped.
pub(super) fn check_lanes(subject: &Subject<'_>, property: &'static str, tally: &mut Tally) -> Checked<Option<Lanes>> {
    let mut subject = subject.clone();
    let graph = subject.graph.clone();
    let count = [2, 3, 1][subject.below(3) as usize];
    let mut axes: Vec<Option<usize>> = (0..graph.inputs().len())
        .map(|index| {
            let rank = graph.input_type(index).rank() as u64;
            (subject.below(3) > 0).then(|| subject.below(rank + 1) as usize)
        })
        .collect();
    if axes.iter().all(Option::is_none) {
        axes[0] = Some(0);
    }
    let in_axes: Vec<Option<i64>> = axes.iter().map(|axis| axis.map(|axis| axis as i64)).collect();
    let lanes = if subject.below(2) == 0 { Dim::from("LANES") } else { Dim::from(count) };
    let batched = match graph.vmap(lanes, VmapOptions::new().in_axes(in_axes)) {
        Err(error) if is_ragged(&error) => {
            tally.count("ragged lanes");
            return Ok(None);
        }
        batched => check_derived(property, &graph, batched)?,
    };
    let mut lane_inputs = vec![subject.inputs.clone(); count];
    for (index, _) in axes.iter().enumerate().filter(|(_, axis)| axis.is_some()) {
        let name = graph.input_name(index);
        for lane in lane_inputs.iter_mut().skip(1) {
            _ = lane.insert(name.to_string(), subject.another_like(&subject.inputs[name].clone()));
        }
    }
    let lanes = Lanes { graph: batched, axes, lane_inputs };
    let expected = lanes.evaluate_one_by_one(property, &subject, &graph)?;
    let expected: Vec<HostTensor> = expected.iter().map(|results| stack_along(results, 0)).collect();
    if !expected.iter().all(is_finite) {
        tally.count("lanes not finite");
        return Ok(None);
    }
    let found =
        evaluate(&lanes.graph, &lanes.arguments(&graph)).map_err(|error| failure(property, &lanes.graph, &error))?;
    check_equal(property, &lanes.graph, &found, &expected, REORDERING_TOLERANCE)?;
    tally.count(property);
    Ok(Some(lanes))
}

/// A batched program, and the inputs of its lanes.
pub(super) struct Lanes {
    graph: Graph,
    /// The batch axis of each input, or `None` if the lanes share the input.
    axes: Vec<Option<usize>>,
    lane_inputs: Vec<BTreeMap<String, HostTensor>>,
}

impl Lanes {
    /// Evaluates the lanes one at a time. Returns the results of all lanes for each output, or an error if an output
    /// has different shapes in different lanes.
    fn evaluate_one_by_one(
        &self,
        property: &'static str,
        subject: &Subject<'_>,
        graph: &Graph,
    ) -> Checked<Vec<Vec<HostTensor>>> {
        let mut all = vec![Vec::new(); graph.outputs().len()];
        for inputs in &self.lane_inputs {
            let lane = Subject { inputs: inputs.clone(), ..subject.clone() };
            for (results, result) in all.iter_mut().zip(lane.run(property, graph)?) {
                results.push(result);
            }
        }
        if all.iter().any(|results| results.iter().any(|result| result.shape() != results[0].shape())) {
            let reason = format!("lanes of different sizes are not rejected\nin\n{graph}");
            return Err(Disagreement { property, reason });
        }
        Ok(all)
    }

    /// Returns the arguments of the batched program, given the graph for one lane.
    fn arguments(&self, graph: &Graph) -> Vec<HostTensor> {
        let argument = |(index, axis): (usize, &Option<usize>)| {
            let name = graph.input_name(index);
            let values: Vec<HostTensor> = self.lane_inputs.iter().map(|lane| lane[name].clone()).collect();
            axis.map_or_else(|| values[0].clone(), |axis| stack_along(&values, axis))
        };
        self.axes.iter().enumerate().map(argument).collect()
    }
}

/// Stacks tensors of the same type along a new axis at position `axis`.
fn stack_along(lanes: &[HostTensor], axis: usize) -> HostTensor {
    let mut shape = lanes[0].shape().to_vec();
    shape.insert(axis, lanes.len());
    HostTensor::from_fn(lanes[0].dtype(), &shape, |index| {
        let mut inner = index.to_vec();
        let lane = inner.remove(axis);
        lanes[lane].at(&inner)
    })
}

/// Checks that the gradient of a batched program equals the gradients of its lanes. The gradient of an input that the
/// lanes share must equal the sum of the lanes' gradients.
pub(super) fn check_gradient_of_lanes(
    subject: &mut Subject<'_>,
    graph: &Graph,
    vjp: &Graph,
    tally: &mut Tally,
) -> Checked {
    let property = "gradient of lanes";
    let Some(mut lanes) = check_lanes(subject, "lanes", tally)? else { return Ok(()) };
    let batched = check_derived(property, &lanes.graph, lanes.graph.vjp(.., options(&CheckpointPolicy::Recompute)))?;
    let cotangents = graph.outputs().iter().map(|output| format!("ct_{}", output.name));
    let cotangents: Vec<String> = cotangents.filter(|name| subject.inputs.contains_key(name)).collect();
    for name in &cotangents {
        let like = subject.inputs[name].clone();
        for lane in &mut lanes.lane_inputs {
            // All lanes get cotangents with the shapes of the unbatched program's outputs. If the lanes' outputs have
            // other shapes, `fits` is `false`, and the check is skipped.
            let cotangent = subject.another_like(&like);
            lane.insert(name.clone(), cotangent);
        }
    }
    let outputs = lanes.evaluate_one_by_one("evaluation", subject, graph)?;
    let fits = graph.outputs().iter().zip(&outputs).all(|(output, values)| {
        let given = lanes.lane_inputs[0].get(&format!("ct_{}", output.name));
        given.is_none_or(|given| given.shape() == values[0].shape())
    });
    if !fits {
        tally.count("other rows in the lanes");
        return Ok(());
    }
    let results = lanes.evaluate_one_by_one(property, subject, vjp)?;
    let mut inputs: Vec<HostTensor> = lanes.arguments(graph);
    for name in &cotangents {
        let values: Vec<HostTensor> = lanes.lane_inputs.iter().map(|lane| lane[name].clone()).collect();
        inputs.push(stack_along(&values, 0));
    }
    let found = evaluate(&batched, &inputs).map_err(|error| failure(property, &batched, &error))?;
    let floats = (0..graph.inputs().len()).filter(|index| graph.input_type(*index).dtype.is_float());
    let axes: Vec<Option<usize>> = floats.map(|index| lanes.axes[index]).collect();
    let count = graph.outputs().len();
    let expected = results.iter().enumerate().map(|(index, results)| match index.checked_sub(count) {
        None => stack_along(results, 0),
        Some(input) => match axes[input] {
            Some(axis) => stack_along(results, axis),
            None => sum_lanes(results),
        },
    });
    let expected: Vec<HostTensor> = expected.collect();
    if !expected.iter().all(is_finite) {
        tally.count("lanes not finite");
        return Ok(());
    }
    check_equal(
        property,
        &batched,
        &found,
        &expected,
        if subject.program.is_exact { REORDERING_TOLERANCE } else { 1e-2 },
    )?;
    tally.count(property);
    Ok(())
}

fn sum_lanes(lanes: &[HostTensor]) -> HostTensor {
    HostTensor::from_fn(lanes[0].dtype(), lanes[0].shape(), |index| {
        Scalar::Float(lanes.iter().map(|lane| lane.at(index).as_f64()).sum())
    })
}
