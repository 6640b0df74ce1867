//! Which values a derivative goes through: those of float types that an input leads to by which it is taken.

use std::sync::Arc;

use crate::error::Site;
use crate::graph::tracer::keep_names;
use crate::graph::{Graph, Node, Replay, ValueId, at_site, emit, trace_body};
use crate::ops::{Op, Unary};
use crate::value::Value;

/// Which values have a float type and depend on an input that is wanted, as far as the graph's structure says and
/// `stop_gradient` does not end it.
pub(crate) fn active_values(graph: &Graph, wanted: &[bool]) -> Vec<bool> {
    let mut active = vec![false; graph.values().count()];
    let is_float = |id: ValueId| graph.ty(id).dtype.is_float();
    for (input, wanted) in graph.inputs().iter().zip(wanted) {
        active[input.value.index()] = *wanted && is_float(input.value);
    }
    for node in graph.nodes() {
        if leads_through(node, |input| active[input.index()]) {
            node.outputs.iter().for_each(|output| active[output.index()] = is_float(*output));
        }
    }
    active
}

/// Whether a derivative goes through a node, from those of its operands through which it goes.
fn leads_through(node: &Node, is_active: impl Fn(ValueId) -> bool) -> bool {
    match &node.op {
        Op::Unary(Unary::StopGradient) => false,
        // What `backward` alone captures is no input of the function.
        Op::Call(call) => node.inputs[..call.inputs().min(node.inputs.len())].iter().any(|input| is_active(*input)),
        _ => node.inputs.iter().any(|input| is_active(*input)),
    }
}

/// [`active_values`] of a body's parameters, where results of a step are parameters of the next one: pairs of their
/// numbers.
pub(crate) fn active_params(body: &Graph, mut active: Vec<bool>, feeds: &[(usize, usize)]) -> Vec<bool> {
    loop {
        let before = active.clone();
        let values = active_values(body, &active);
        for (result, param) in feeds {
            active[*param] |= values[body.outputs()[*result].value.index()];
        }
        if active == before {
            return active;
        }
    }
}

impl Op {
    /// The op as the forward pass of a derivative by the operands that are wanted runs it. In its bodies, the nodes of
    /// `forward` take the place of each call through which the derivative goes, as they do outside of bodies: so the
    /// next derivative is that of these nodes, and not the rule again.
    pub(crate) fn with_forward_rules(&self, wanted: &[bool]) -> Op {
        let bodies = self.bodies();
        if matches!(self, Op::Call(_)) || !bodies.iter().any(|body| has_rules(body)) {
            return self.clone();
        }
        let replaced = |(body, active): (&Arc<Graph>, Vec<bool>)| match forward_graph(body, &active) {
            Some(graph) if has_rules(body) => Arc::new(graph),
            _ => body.clone(),
        };
        let active = self.bodied().map_or(Vec::new(), |op| op.active_params(wanted));
        self.with_bodies(bodies.into_iter().zip(active).map(replaced).collect())
    }
}

/// Whether a graph, or a body in it, calls a function with a rule for reverse mode.
fn has_rules(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| match &node.op {
        Op::Call(call) => call.is_replaced(),
        op => op.bodies().into_iter().any(|body| has_rules(body)),
    })
}

/// The graph as a forward pass runs it. Nothing after a failure, which is reported.
fn forward_graph(graph: &Graph, wanted: &[bool]) -> Option<Graph> {
    let input = |index: usize| (graph.input_name(index).to_string(), graph.input_type(index).clone());
    let params: Vec<_> = (0..graph.inputs().len()).map(input).collect();
    let closed = trace_body("forward", graph.name(), &params, |inputs| {
        let results = run_forward(graph, inputs, wanted);
        graph.outputs().iter().map(|output| output.name.clone()).zip(results).collect()
    })?;
    Some(closed.graph)
}

/// Adds the nodes of a graph that its outputs need to the open trace, as a forward pass runs them; gives its outputs.
fn run_forward(graph: &Graph, inputs: &[Value], wanted: &[bool]) -> Vec<Value> {
    let graph = &*graph.with_free_symbols();
    let active = active_values(graph, wanted);
    let replayed = Replay::new(graph, inputs.iter().copied()).live(|_, node, operands| {
        if operands.iter().any(|operand| operand.is_failed()) {
            return Vec::new();
        }
        let is_active = node.outputs.iter().any(|output| active[output.index()]);
        let results = at_site(node.site, || match &node.op {
            op if !is_active => emit(op.clone(), &operands, Site::Unknown),
            Op::Call(call) => call.forward_pass(&operands).results,
            op => {
                let wanted: Vec<bool> = node.inputs.iter().map(|input| active[input.index()]).collect();
                emit(op.with_forward_rules(&wanted), &operands, Site::Unknown)
            }
        });
        keep_names(graph, node, results.iter().copied());
        results
    });
    replayed.outputs(Value::failed)
}
