//! Finds the active values of a derivative: float values that depend on a differentiated input.

use super::*;
use crate::fixpoint::fixpoint;

/// Returns, for each value, `true` if it is a float that depends on an input in `wrt`. The analysis follows the
/// operands of ops, and stops at ops that block derivatives, such as `stop_gradient`.
pub(crate) fn active_values(graph: &Graph, wrt: &[bool]) -> Vec<bool> {
    let mut active = vec![false; graph.values().count()];
    let is_float = |id: ValueId| graph.ty(id).dtype.is_float();
    for (input, wrt) in graph.inputs().iter().zip(wrt) {
        active[input.value.index()] = *wrt && is_float(input.value);
    }
    for node in graph.nodes() {
        let operands: Vec<bool> = node.inputs.iter().map(|input| active[input.index()]).collect();
        if node.op.passes_derivative(&operands) {
            node.outputs.iter().for_each(|output| active[output.index()] = is_float(*output));
        }
    }
    active
}

/// Returns which parameters of a loop body are active in at least one step, given the parameters that are active in the
/// first step. Each pair in `feeds` holds the index of a result and the index of the parameter that receives it in the
/// next step.
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
    /// Returns the op to run in the forward pass of a derivative with respect to the operands in `wrt`. In the bodies
    /// of the op, each active call to a function with a custom reverse rule is replaced with the nodes of the rule's
    /// `forward`. A second derivative therefore differentiates these nodes instead of applying the rule again.
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

/// Like [`Op::with_forward_rules`], but for a single body. `active` returns which inputs of the body are active.
pub(crate) fn forward_body(body: &Arc<Graph>, active: impl FnOnce() -> Vec<bool>) -> Result<Arc<Graph>, Failed> {
    if !has_rules(body) {
        return Ok(body.clone());
    }
    let active = active();
    if active.contains(&true) { Ok(Arc::new(forward_graph(body, &active)?)) } else { Ok(body.clone()) }
}

/// Returns `true` if a graph or one of its bodies calls a function with a custom reverse rule.
fn has_rules(graph: &Graph) -> bool {
    let has_rule = |op: &Op| op.has_user_vjp() || op.bodies().into_iter().any(|body| has_rules(body));
    graph.nodes().iter().any(|node| has_rule(&node.op))
}

/// Returns a copy of `graph` in which each active call to a function with a custom reverse rule is replaced with the
/// nodes of the rule's `forward`.
fn forward_graph(graph: &Graph, wrt: &[bool]) -> Result<Graph, Failed> {
    let input = |index: usize| (graph.input_name(index).to_string(), graph.input_type(index).clone());
    let params: Vec<_> = (0..graph.inputs().len()).map(input).collect();
    let closed = trace_body("forward", graph.name(), &params, |inputs| {
        Ok(graph.named_outputs(run_forward(graph, inputs, wrt)?))
    })?;
    Ok(closed.graph)
}

/// Adds the live nodes of a graph to the open graph. Replaces each active call to a function with a custom reverse rule
/// with the nodes of the rule's `forward`. Returns the outputs.
fn run_forward(graph: &Graph, inputs: &[Value], wrt: &[bool]) -> Result<Vec<Value>, Failed> {
    let graph = &*graph.with_free_symbols();
    let active = active_values(graph, wrt);
    let replayed = Replay::new(graph, inputs.iter().copied()).walk_live(|_, node, operands| {
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
