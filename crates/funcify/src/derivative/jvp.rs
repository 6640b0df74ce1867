//! The forward sweep: a graph in the open trace, with the tangents of its values.

use super::Dual;
use crate::error::Site;
use crate::graph::tracer::{has_failed, keep_names};
use crate::graph::{Graph, Replay, at_site, emit};
use crate::ops::{Op, OpRules};
use crate::value::Value;

/// Adds the nodes of `graph` that its outputs need to the open trace, and their tangents; gives its outputs.
pub(crate) fn jvp(graph: &Graph, inputs: &[Dual]) -> Vec<Dual> {
    let graph = &*graph.with_free_symbols();
    let replayed = Replay::new(graph, inputs.iter().copied()).live(|_, node, operands| {
        let results = at_site(node.site, || jvp_node(&node.op, &operands));
        keep_names(graph, node, results.iter().map(|result| result.primal));
        results
    });
    replayed.outputs(|| Dual::constant(Value::failed()))
}

/// Applies the rule of one op, if any operand has a tangent. Nothing after a failure.
fn jvp_node(op: &Op, operands: &[Dual]) -> Vec<Dual> {
    if has_failed() || operands.iter().any(|operand| operand.primal.is_failed()) {
        return Vec::new();
    }
    if operands.iter().any(|operand| operand.tangent.is_some()) {
        return op.jvp(operands);
    }
    let values: Vec<Value> = operands.iter().map(|operand| operand.primal).collect();
    emit(op.clone(), &values, Site::Unknown).into_iter().map(Dual::constant).collect()
}
