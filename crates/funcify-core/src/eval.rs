//! The entry point of the reference evaluator, which evaluates a graph node by node with the evaluation rule of each
//! op.

use crate::error::{Place, Result, Site};
use crate::graph::{Graph, bind_sizes};
use crate::host::HostTensor;
use crate::ops::evaluate_in;
use crate::types::TensorType;

/// Evaluates a graph on host tensors, one per input, in order. Infers the symbolic sizes from the tensors' shapes.
#[track_caller]
pub fn evaluate(graph: &Graph, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let at = Place::new(graph.name(), Site::caller());
    let types: Vec<TensorType> = inputs.iter().map(HostTensor::ty).collect();
    let mut sizes = bind_sizes(&at, graph, &types)?;
    evaluate_in(graph, inputs.to_vec(), &mut sizes).map_err(|error| graph.explain(error))
}
