//! Inlines the calls to functions with derivative rules after differentiation. Also replaces uses of `itself` in the
//! rule of a call with that call.

use super::*;

use crate::graph::{Replay, tracer};

impl Graph {
    /// Returns a copy of the graph in which the calls to functions with derivative rules are inlined, including calls
    /// in bodies. Omits nodes that only derivative rules use, except nodes that may fail at run time. Returns `None` if
    /// the graph contains no such call.
    #[doc(hidden)]
    pub fn without_rules(&self) -> Result<Option<Graph>> {
        if !calls(self) {
            return Ok(None);
        }
        let flat = inline_calls(self)?;
        Ok(Some(flat.pruned_strict().unwrap_or(flat)))
    }

    /// Returns a copy of this graph, which belongs to the rule of `call`, with `call` substituted for `itself`. Returns
    /// `None` if the graph does not use `itself`.
    pub(crate) fn substitute_itself(&self, call: &Call) -> Option<Graph> {
        if self.calls_of_itself().is_empty() {
            return None;
        }
        call.parts().into_iter().for_each(|part| tracer::reserve_symbols(part.graph));
        let with = |body: &Arc<Graph>| body.substitute_itself(call).map_or_else(|| body.clone(), Arc::new);
        Some(self.map_ops(|op| match op {
            // Give each copy of the call fresh symbols for the sizes that it binds.
            Op::Call(inner) if matches!(inner.rule, Rule::Itself) => Op::from(call.clone()).at_sizes(&Sizes::new()),
            Op::Call(inner) => Call { function: with(&inner.function), ..inner.clone() }.into(),
            op => op.with_bodies(op.bodies().into_iter().map(with).collect()),
        }))
    }

    /// Returns the calls to `itself` in this graph, which belongs to a rule. Skips uses of `itself` in the rules of
    /// inner calls, because these refer to the inner calls.
    pub(crate) fn calls_of_itself(&self) -> Vec<Call> {
        let calls = |op: &Op| match op {
            Op::Call(call) if matches!(call.rule, Rule::Itself) => vec![call.clone()],
            Op::Call(call) => call.function.calls_of_itself(),
            op => op.bodies().into_iter().flat_map(|body| body.calls_of_itself()).collect(),
        };
        self.nodes().iter().flat_map(|node| calls(&node.op)).collect()
    }
}

/// Returns `true` if a graph or one of its bodies calls a function with a derivative rule.
fn calls(graph: &Graph) -> bool {
    let is_call = |op: &Op| matches!(op, Op::Call(_)) || op.bodies().into_iter().any(|body| calls(body));
    graph.nodes().iter().any(|node| is_call(&node.op))
}

fn inline_calls(graph: &Graph) -> Result<Graph> {
    let mut result = Graph::new(graph.name());
    let inputs = graph.inputs().iter().map(|input| {
        let name = graph.value_name(input.value).expect("every input has a name");
        result.push_input(name, graph.ty(input.value).clone(), input.is_static)
    });
    let inputs: Vec<ValueId> = inputs.collect();
    let outputs = add(graph, &inputs, &mut result)?;
    for (output, id) in graph.outputs().iter().zip(outputs) {
        result.push_output(&output.name, id);
    }
    Ok(result)
}

/// Adds the nodes of `graph` to the graph `to`, with all calls inlined. Returns the outputs of `graph` as values of
/// `to`.
fn add(graph: &Graph, inputs: &[ValueId], to: &mut Graph) -> Result<Vec<ValueId>> {
    let all = vec![true; graph.nodes().len()];
    let added = Replay::new(graph, inputs.iter().copied()).walk_marked(&all, |_, node, operands| {
        let results = match &node.op {
            Op::Call(call) => add(&call.function, &operands[..call.function.inputs().len()], to)?,
            op => {
                let bodies = op.bodies().into_iter().map(|body| Ok(Arc::new(inline_calls(body)?)));
                let op = op.with_bodies(bodies.collect::<Result<Vec<_>>>()?);
                to.push_node(op, &operands, node.site)?
            }
        };
        to.keep_names(graph, node, &results);
        Ok::<_, Error>(results)
    })?;
    added.outputs()
}
