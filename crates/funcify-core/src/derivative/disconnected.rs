//! Explains why an input is disconnected: finds the op at which the paths from the input to the results end.

use super::active::active_values;
use super::*;
use crate::ops::Unary;

/// Creates the error for an input of `graph` that receives no cotangent. `input` is the index of this input, and
/// `component` is its name in the error. `at` is the derivative function that the user called.
pub(super) fn disconnected(at: &Place, component: &str, graph: &Graph, input: usize) -> Error {
    let (reason, fix) = explain_disconnection(graph, input);
    let zeros = "request zeros: `GradOptions::new().disconnected(Disconnected::Zeros)`";
    Error::Disconnected { at: at.boxed(), component: component.to_string(), reason, fix: format!("{fix}, or {zeros}") }
}

fn explain_disconnection(graph: &Graph, input: usize) -> (String, &'static str) {
    let mut reached = vec![false; graph.values().count()];
    reached[graph.inputs()[input].value.index()] = true;
    let live = graph.live_nodes();
    let mut path: Vec<&Node> = Vec::new();
    for (node, _) in graph.nodes().iter().zip(&live).filter(|(_, live)| **live) {
        if node.inputs.iter().any(|value| reached[value.index()]) {
            node.outputs.iter().for_each(|output| reached[output.index()] = true);
            path.push(node);
        }
    }
    if !graph.outputs().iter().any(|output| reached[output.value.index()]) {
        return ("the result does not depend on it".to_string(), "do not differentiate with respect to it");
    }
    let wrt: Vec<bool> = (0..graph.inputs().len()).map(|index| index == input).collect();
    let active = active_values(graph, &wrt);
    let is_active = |value: &ValueId| active[value.index()];
    let ends = |node: &&&Node| {
        let stops = matches!(node.op, Op::Unary(Unary::StopGradient));
        node.inputs.iter().any(is_active) && (stops || !node.outputs.iter().any(is_active))
    };
    let end = path.iter().find(ends).map(|node| {
        let types: Vec<String> = node.outputs.iter().map(|output| graph.ty(*output).to_string()).collect();
        match node.op {
            Op::Unary(Unary::StopGradient) => "they end at `stop_gradient`".to_string(),
            _ => format!("they end at `{}`, which returns {}", node.op.name(), types.join(", ")),
        }
    });
    let scaled = "let it scale or shift the random numbers, as in `mean + deviation * random::normal(..)`";
    if path.iter().any(|node| matches!(node.op, Op::Threefry(_))) {
        let end = end.map_or(String::new(), |end| format!(": {end}"));
        return (format!("paths to the result lead through random bits, which have no derivative{end}"), scaled);
    }
    if end.is_none() && path.iter().any(|node| draws_random_bits(&node.op)) {
        let reason = "paths to the result lead through a body that draws random numbers: keys, integers, comparisons and \
                      `stop_gradient` have no derivative";
        return (reason.to_string(), scaled);
    }
    let reason = match end {
        Some(end) => format!("paths to the result have no derivative: {end}"),
        None => "no differentiable path leads from it to the result: integers, comparisons and `stop_gradient` block \
                 derivatives"
            .to_string(),
    };
    (reason, "do not differentiate with respect to it")
}

/// Returns `true` if the op generates random bits, directly or in a body.
fn draws_random_bits(op: &Op) -> bool {
    matches!(op, Op::Threefry(_))
        || op.bodies().into_iter().any(|body| body.nodes().iter().any(|node| draws_random_bits(&node.op)))
}
