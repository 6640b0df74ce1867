//! The reference evaluation of a graph: node after node, by each op's own rule. The oracle.

use crate::cancel::{Ran, Watch};
use crate::error::{Error, Place, Result, Site};
use crate::graph::Graph;
use crate::host::HostTensor;
use crate::memory::Held;
use crate::ops::{EvalContext, OpRules};
use crate::types::{Sizes, TensorType};

/// Evaluates a graph on host tensors, in the order of its inputs; sizes are bound from their shapes.
#[track_caller]
pub fn evaluate(graph: &Graph, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let at = Place::new(graph.name(), Site::caller());
    let types: Vec<TensorType> = inputs.iter().map(HostTensor::ty).collect();
    let mut sizes = crate::dispatch::bind_sizes(&at, graph, &types)?;
    evaluate_in(graph, inputs.to_vec(), &mut sizes).map_err(|error| error.in_graph(graph))
}

/// Evaluates a graph whose sizes are bound.
pub(crate) fn evaluate_in(graph: &Graph, inputs: Vec<HostTensor>, sizes: &mut Sizes) -> Result<Vec<HostTensor>> {
    let live = graph.live_nodes();
    let mut held = Held::nothing();
    let mut values: Vec<Option<HostTensor>> = vec![None; graph.values().count()];
    for (input, tensor) in graph.inputs().iter().zip(inputs) {
        values[input.value.index()] = Some(tensor);
    }
    let watch = Watch::current();
    for (ran, (_, node)) in graph.nodes().iter().enumerate().filter(|(index, _)| live[*index]).enumerate() {
        watch.check_at(|| node.place(), Ran::Ops(ran))?;
        let operands = (node.inputs.iter())
            .map(|input| values[input.index()].clone().ok_or_else(|| missing(node.place())))
            .collect::<Result<Vec<_>>>()?;
        let (at, types) = (node.place(), graph.types(&node.outputs));
        // Loops hold what they give against the budget themselves, once their steps are known.
        for ty in types.iter().filter(|_| node.op.bodies().is_empty()) {
            held.add(&at, 1, ty, sizes)?;
        }
        let mut context = EvalContext { at, sizes };
        let results = node.op.eval(&mut context, &operands, &types)?;
        for (output, result) in node.outputs.iter().zip(results) {
            values[output.index()] = Some(result);
        }
    }
    (graph.outputs().iter())
        .map(|output| {
            values[output.value.index()].clone().ok_or_else(|| missing(Place::new(graph.name(), Site::Unknown)))
        })
        .collect()
}

fn missing(at: Place) -> Error {
    at.mismatch("an operand", "a value", "none", "check the graph with `Graph::check`")
}
