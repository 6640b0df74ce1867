//! Functions in place of the calls that give them derivative rules, for programs that are run and not differentiated; and
//! rules that call the function that they are the rule of.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::{Graph, Replay, ValueId, tracer};
use crate::error::{Error, Result, Site};
use crate::ops::{Call, Op, Rule};
use crate::types::Sizes;

/// A rule that is being traced.
#[derive(Debug)]
pub(crate) struct OpenRule {
    /// The line of the call.
    pub(crate) site: Site,
    /// The function, as a text to compare.
    pub(crate) function: String,
    /// How many rules of the same function it is in.
    pub(crate) level: usize,
    /// Whether it says `itself`.
    pub(crate) says_itself: Cell<bool>,
    /// The rules of its function that were traced inside of it, as texts.
    pub(crate) inner: RefCell<Vec<String>>,
}

impl Graph {
    /// The graph with the nodes of functions where functions with derivative rules were called, also in bodies, and without
    /// what only the rules use. `None` if it calls none.
    pub(crate) fn without_rules(&self) -> Result<Option<Graph>> {
        if !calls(self) {
            return Ok(None);
        }
        Ok(Some(flat(self)?.pruned()))
    }

    /// A graph of a rule, with the call that it is the rule of wherever it says `itself`. `None` if it does not.
    pub(crate) fn with_itself(&self, call: &Call) -> Option<Graph> {
        if self.calls_of_itself().is_empty() {
            return None;
        }
        call.parts().into_iter().for_each(|part| tracer::reserve_symbols(part.graph));
        let mut graph = self.clone();
        for node in &mut graph.nodes {
            let with = |body: &Arc<Graph>| body.with_itself(call).map_or_else(|| body.clone(), Arc::new);
            node.op = match &node.op {
                // Each binds symbols of its own.
                Op::Call(inner) if matches!(inner.rule, Rule::Itself) => Op::from(call.clone()).at_sizes(&Sizes::new()),
                Op::Call(inner) => Call { function: with(&inner.function), ..inner.clone() }.into(),
                op => op.with_bodies(op.bodies().into_iter().map(with).collect()),
            };
        }
        Some(graph)
    }

    /// The calls in a graph of a rule that say `itself`. Those in rules of other calls speak of these.
    pub(crate) fn calls_of_itself(&self) -> Vec<Call> {
        let calls = |op: &Op| match op {
            Op::Call(call) if matches!(call.rule, Rule::Itself) => vec![call.clone()],
            Op::Call(call) => call.function.calls_of_itself(),
            op => op.bodies().into_iter().flat_map(|body| body.calls_of_itself()).collect(),
        };
        self.nodes.iter().flat_map(|node| calls(&node.op)).collect()
    }

    /// A text that two graphs have that were traced by the same closure: the names of symbols that were made for it are
    /// numbered as they come.
    pub(crate) fn text_to_compare(&self) -> String {
        let text = self.to_string();
        let mut parts = text.split('$');
        let mut compared = parts.next().unwrap_or_default().to_string();
        let mut seen: Vec<&str> = Vec::new();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
            let (name, rest) = part.split_at(end);
            let number = seen.iter().position(|other| *other == name).unwrap_or(seen.len());
            if number == seen.len() {
                seen.push(name);
            }
            compared += &format!("${number}{rest}");
        }
        compared
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
    let all = vec![true; graph.nodes.len()];
    let added = Replay::new(graph, inputs.iter().copied()).try_some(&all, |_, node, operands| {
        let results = match &node.op {
            Op::Call(call) => add(&call.function, &operands[..call.function.inputs().len()], to)?,
            op => {
                let bodies = op.bodies().into_iter().map(|body| Ok(Arc::new(flat(body)?)));
                let op = op.with_bodies(bodies.collect::<Result<Vec<_>>>()?);
                to.push_node(op, &operands, node.site)?
            }
        };
        to.keep_names(graph, node, &results);
        Ok::<_, Error>(results)
    })?;
    added.all_outputs()
}
