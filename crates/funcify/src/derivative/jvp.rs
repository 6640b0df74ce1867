//! The forward sweep: a graph in the open trace, with the tangents of its values.

use super::Dual;
use crate::error::Site;
use crate::graph::tracer::{has_failed, keep_name};
use crate::graph::{Graph, Value, ValueId, at_site, emit};
use crate::ops::{Op, OpRules};

/// Adds the nodes of `graph` that its outputs need to the open trace, and their tangents; gives its outputs.
pub(crate) fn jvp(graph: &Graph, inputs: &[Dual]) -> Vec<Dual> {
    let graph = &*graph.with_free_symbols();
    let mut values: Vec<Option<Dual>> = vec![None; graph.values().count()];
    for (input, dual) in graph.inputs().iter().zip(inputs) {
        values[input.value.index()] = Some(*dual);
    }
    let of = |values: &[Option<Dual>], id: ValueId| values[id.index()].unwrap_or(Dual::constant(Value::poison()));
    let live = graph.live_nodes();
    for (_, node) in graph.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
        let operands: Vec<Dual> = node.inputs.iter().map(|input| of(&values, *input)).collect();
        let results = at_site(node.site, || jvp_node(&node.op, &operands));
        for (output, result) in node.outputs.iter().zip(results) {
            if let Some(name) = graph.value_name(*output) {
                keep_name(result.primal, name);
            }
            values[output.index()] = Some(result);
        }
    }
    graph.outputs().iter().map(|output| of(&values, output.value)).collect()
}

/// Adds the nodes of `graph` that its outputs need to the open trace; gives its outputs.
pub(crate) fn inline(graph: &Graph, inputs: &[Value]) -> Vec<Value> {
    let inputs: Vec<Dual> = inputs.iter().map(|value| Dual::constant(*value)).collect();
    jvp(graph, &inputs).into_iter().map(|output| output.primal).collect()
}

/// Applies the rule of one op, if any operand has a tangent. Nothing after a failure.
fn jvp_node(op: &Op, operands: &[Dual]) -> Vec<Dual> {
    if has_failed() || operands.iter().any(|operand| operand.primal.is_poison()) {
        return Vec::new();
    }
    if operands.iter().any(|operand| operand.tangent.is_some()) {
        return op.jvp(operands);
    }
    let values: Vec<Value> = operands.iter().map(|operand| operand.primal).collect();
    emit(op.clone(), &values, Site::Unknown).into_iter().map(Dual::constant).collect()
}
