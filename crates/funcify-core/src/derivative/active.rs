//! Which values a derivative goes through: those of float types that an input leads to by which it is taken.

use super::*;
use crate::fixpoint::fixpoint;

/// Which values have a float type and depend on an input in `wrt`, as far as the graph's structure says and
/// `stop_gradient` does not end it.
pub(crate) fn active_values(graph: &Graph, wrt: &[bool]) -> Vec<bool> {
    let mut active = vec![false; graph.values().count()];
    let is_float = |id: ValueId| graph.ty(id).dtype.is_float();
    for (input, wrt) in graph.inputs().iter().zip(wrt) {
        active[input.value.index()] = *wrt && is_float(input.value);
    }
    for node in graph.nodes() {
        let operands: Vec<bool> = node.inputs.iter().map(|input| active[input.index()]).collect();
        if node.op.leads_through(&operands) {
            node.outputs.iter().for_each(|output| active[output.index()] = is_float(*output));
        }
    }
    active
}

/// [`active_values`] of a body's parameters, where results of a step are parameters of the next one: pairs of their
/// numbers.
pub(crate) fn active_params(body: &Graph, active: Vec<bool>, feeds: &[(usize, usize)]) -> Vec<bool> {
    fixpoint(active, |active| {
        let (values, mut active) = (active_values(body, active), active.clone());
        for (result, param) in feeds {
            active[*param] |= values[body.outputs()[*result].value.index()];
        }
        active
    })
}

impl Op {
    /// The op as the forward pass of a derivative by the operands in `wrt` runs it. In its bodies, the nodes of
    /// `forward` take the place of each call through which the derivative goes, as they do outside of bodies: so the
    /// next derivative is that of these nodes, and not the rule again.
    pub(crate) fn with_forward_rules(&self, wrt: &[bool]) -> Result<Op, Failed> {
        let bodies = self.bodies();
        if !bodies.iter().any(|body| has_rules(body)) {
            return Ok(self.clone());
        }
        let active = self.bodied().map_or(Vec::new(), |op| op.active_params(wrt));
        let bodies = bodies.into_iter().zip(active).map(|(body, active)| forward_body(body, || active));
        Ok(self.with_bodies(bodies.collect::<Result<_, Failed>>()?))
    }
}

/// [`Op::with_forward_rules`], for one body.
pub(crate) fn forward_body(body: &Arc<Graph>, active: impl FnOnce() -> Vec<bool>) -> Result<Arc<Graph>, Failed> {
    if !has_rules(body) {
        return Ok(body.clone());
    }
    let active = active();
    if active.contains(&true) { Ok(Arc::new(forward_graph(body, &active)?)) } else { Ok(body.clone()) }
}

/// Whether a graph, or a body in it, calls a function with a rule for reverse mode.
fn has_rules(graph: &Graph) -> bool {
    let has_rule = |op: &Op| op.is_replaced() || op.bodies().into_iter().any(|body| has_rules(body));
    graph.nodes().iter().any(|node| has_rule(&node.op))
}

/// The graph as a forward pass runs it.
fn forward_graph(graph: &Graph, wrt: &[bool]) -> Result<Graph, Failed> {
    let input = |index: usize| (graph.input_name(index).to_string(), graph.input_type(index).clone());
    let params: Vec<_> = (0..graph.inputs().len()).map(input).collect();
    let closed = trace_body("forward", graph.name(), &params, |inputs| {
        Ok(graph.named_outputs(run_forward(graph, inputs, wrt)?))
    })?;
    Ok(closed.graph)
}

/// Adds the nodes of a graph that its outputs need to the open trace, as a forward pass runs them; gives its outputs.
fn run_forward(graph: &Graph, inputs: &[Value], wrt: &[bool]) -> Result<Vec<Value>, Failed> {
    let graph = &*graph.with_free_symbols();
    let active = active_values(graph, wrt);
    let replayed = Replay::new(graph, inputs.iter().copied()).live(|_, node, operands| {
        let is_active = node.outputs.iter().any(|output| active[output.index()]);
        let results = at_site(node.site, || match &node.op {
            op if !is_active => emit(op.clone(), &operands),
            op => {
                let wrt: Vec<bool> = node.inputs.iter().map(|input| active[input.index()]).collect();
                op.emit_forward(&operands, &wrt)
            }
        })?;
        keep_names(graph, node, results.iter().copied());
        Ok::<_, Failed>(results)
    })?;
    Ok(replayed.outputs()?)
}
