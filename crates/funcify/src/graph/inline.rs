//! The nodes of a graph in the open trace.

use super::tracer::{has_failed, keep_names};
use super::{Graph, Replay, at_site, emit};
use crate::error::Site;
use crate::value::Value;

/// Adds the nodes of `graph` that its outputs need to the open trace; gives its outputs.
pub(crate) fn inline(graph: &Graph, inputs: &[Value]) -> Vec<Value> {
    let graph = &*graph.with_free_symbols();
    let replayed = Replay::new(graph, inputs.iter().copied()).live(|_, node, operands| {
        if has_failed() || operands.iter().any(|operand| operand.is_failed()) {
            return Vec::new();
        }
        let results = at_site(node.site, || emit(node.op.clone(), &operands, Site::Unknown));
        keep_names(graph, node, results.iter().copied());
        results
    });
    replayed.outputs(Value::failed)
}
