//! Functions in place of the calls that give them derivative rules, for programs that are run and not differentiated.

use std::sync::Arc;

use super::{Graph, ValueId};
use crate::error::Result;
use crate::ops::Op;

impl Graph {
    /// The graph with the nodes of functions where functions with derivative rules were called, also in bodies, and without
    /// what only the rules use. `None` if it calls none.
    pub(crate) fn without_rules(&self) -> Result<Option<Graph>> {
        if !calls(self) {
            return Ok(None);
        }
        Ok(Some(flat(self)?.pruned()))
    }
}

/// Whether a graph, or a body in it, calls a function with a derivative rule.
fn calls(graph: &Graph) -> bool {
    let is_call = |op: &Op| matches!(op, Op::Call(_)) || op.bodies().into_iter().any(|body| calls(body));
    graph.nodes.iter().any(|node| is_call(&node.op))
}

fn flat(graph: &Graph) -> Result<Graph> {
    let mut result = Graph::new(graph.name());
    let inputs = graph.inputs.iter().map(|input| {
        let name = graph.value_name(input.value).unwrap_or_default();
        result.push_input(name, graph.ty(input.value).clone(), input.is_static)
    });
    let inputs: Vec<ValueId> = inputs.collect();
    let outputs = add(graph, &inputs, &mut result)?;
    for (output, id) in graph.outputs.iter().zip(outputs) {
        result.push_output(&output.name, id);
    }
    Ok(result)
}

/// Adds the nodes of `graph` to another; gives its outputs there.
fn add(graph: &Graph, inputs: &[ValueId], to: &mut Graph) -> Result<Vec<ValueId>> {
    let mut ids = vec![inputs.first().copied().unwrap_or(ValueId(0)); graph.values.len()];
    for (input, id) in graph.inputs.iter().zip(inputs) {
        ids[input.value.index()] = *id;
    }
    for node in &graph.nodes {
        let operands: Vec<ValueId> = node.inputs.iter().map(|input| ids[input.index()]).collect();
        let results = match &node.op {
            Op::Call(call) => add(&call.function, &operands[..call.function.inputs().len()], to)?,
            op => {
                let bodies = op.bodies().into_iter().map(|body| Ok(Arc::new(flat(body)?)));
                let op = op.with_bodies(bodies.collect::<Result<Vec<_>>>()?);
                to.push_node(op, &operands, node.site)?
            }
        };
        for (output, id) in node.outputs.iter().zip(results) {
            ids[output.index()] = id;
            if let Some(name) = graph.value_name(*output).filter(|_| to.value_name(id).is_none()) {
                to.set_value_name(id, name);
            }
        }
    }
    Ok(graph.outputs.iter().map(|output| ids[output.value.index()]).collect())
}
