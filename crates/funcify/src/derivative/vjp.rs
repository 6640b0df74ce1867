//! The reverse sweep: a graph in the open trace, and then the cotangents of its inputs.

use std::borrow::Cow;

use super::{Primals, Residuals, add};
use crate::error::Site;
use crate::graph::tracer::keep_name;
use crate::graph::{Graph, Value, ValueId, at_site, emit};
use crate::ops::{Op, OpRules};

/// An op that the forward pass has added.
pub(crate) struct Forward {
    /// Its results.
    pub(crate) results: Vec<Value>,
    /// What its reverse rule needs besides them.
    pub(crate) saved: Vec<Value>,
}

impl Op {
    /// Adds the op for a forward pass whose backward pass will ask for its cotangents. Loops save their states.
    fn forward(&self, operands: &[Value], residuals: Residuals) -> Forward {
        match self {
            Op::Scan(scan) => scan.forward(operands, residuals),
            Op::While(op) => op.forward(operands),
            _ => Forward { results: emit(self.clone(), operands, Site::Unknown), saved: Vec::new() },
        }
    }
}

/// A graph whose nodes were added to the open trace, as the backward pass needs them.
pub(crate) struct Tape<'a> {
    graph: Cow<'a, Graph>,
    residuals: Residuals,
    values: Vec<Option<Value>>,
    /// Which values an input that is wanted leads to.
    active: Vec<bool>,
    /// What the nodes have saved.
    saved: Vec<Vec<Value>>,
}

impl<'a> Tape<'a> {
    /// Adds the nodes of `graph` that its outputs need to the open trace. Cotangents of the inputs that are `wanted` will
    /// be asked for.
    pub(crate) fn record(graph: &'a Graph, inputs: &[Value], wanted: &[bool], residuals: Residuals) -> Self {
        Tape::record_with(graph, inputs, wanted, residuals, &[])
    }

    /// [`record`](Tape::record), where some values of the graph are known already: nothing is computed for them.
    pub(crate) fn record_with(
        graph: &'a Graph,
        inputs: &[Value],
        wanted: &[bool],
        residuals: Residuals,
        known: &[(ValueId, Value)],
    ) -> Self {
        let graph = graph.with_free_symbols();
        let count = graph.values().count();
        let mut tape = Tape {
            graph: graph.clone(),
            residuals,
            values: vec![None; count],
            active: active_values(&graph, wanted),
            saved: vec![Vec::new(); graph.nodes().len()],
        };
        for (input, value) in graph.inputs().iter().zip(inputs) {
            tape.values[input.value.index()] = Some(*value);
        }
        for (id, value) in known {
            tape.values[id.index()] = Some(*value);
        }
        let live = graph.live_nodes();
        for (index, node) in graph.nodes().iter().enumerate() {
            let is_known = |output: &ValueId| tape.values[output.index()].is_some();
            if !live[index] || (!node.outputs.is_empty() && node.outputs.iter().all(is_known)) {
                continue;
            }
            let operands = tape.all(&node.inputs);
            if operands.iter().any(|operand| operand.is_poison()) {
                continue;
            }
            let is_active = node.outputs.iter().any(|output| tape.active[output.index()]);
            let forward = at_site(node.site, || match is_active {
                true => node.op.forward(&operands, residuals),
                false => Forward { results: emit(node.op.clone(), &operands, Site::Unknown), saved: Vec::new() },
            });
            tape.saved[index] = forward.saved;
            for (output, result) in node.outputs.iter().zip(forward.results) {
                if let Some(name) = graph.value_name(*output) {
                    keep_name(result, name);
                }
                tape.values[output.index()].get_or_insert(result);
            }
        }
        tape
    }

    fn all(&self, ids: &[ValueId]) -> Vec<Value> {
        ids.iter().map(|id| self.values[id.index()].unwrap_or_else(Value::poison)).collect()
    }

    /// The outputs of the graph.
    pub(crate) fn outputs(&self) -> Vec<Value> {
        self.graph
            .outputs()
            .iter()
            .map(|output| self.values[output.value.index()].unwrap_or_else(Value::poison))
            .collect()
    }

    /// Adds the cotangents of the inputs to the open trace, from those of the outputs. `None` for an input to which no
    /// cotangent leads.
    pub(crate) fn pull(&self, cotangents: &[Option<Value>]) -> Vec<Option<Value>> {
        let graph = &self.graph;
        let mut sums: Vec<Option<Value>> = vec![None; self.values.len()];
        for (output, cotangent) in graph.outputs().iter().zip(cotangents) {
            let index = output.value.index();
            if self.active[index] {
                sums[index] = add(sums[index], *cotangent);
            }
        }
        for (index, node) in graph.nodes().iter().enumerate().rev() {
            let of_results: Vec<Option<Value>> =
                node.outputs.iter().map(|output| sums[output.index()].take()).collect();
            let (operands, results) = (self.all(&node.inputs), self.all(&node.outputs));
            let lost = operands.iter().chain(of_results.iter().flatten()).any(|value| value.is_poison());
            if lost || of_results.iter().all(Option::is_none) {
                continue;
            }
            let wanted: Vec<bool> = node.inputs.iter().map(|input| self.active[input.index()]).collect();
            let primals = Primals {
                operands: &operands,
                results: &results,
                saved: &self.saved[index],
                wanted: &wanted,
                residuals: self.residuals,
            };
            at_site(node.site, || {
                let contributions = node.op.vjp(&primals, &of_results);
                for ((input, contribution), wanted) in node.inputs.iter().zip(contributions).zip(&wanted) {
                    if *wanted {
                        sums[input.index()] = add(sums[input.index()], contribution);
                    }
                }
            });
        }
        graph.inputs().iter().map(|input| sums[input.value.index()]).collect()
    }
}

/// Which values have a float type and depend on an input that is wanted, as far as the graph's structure says.
pub(crate) fn active_values(graph: &Graph, wanted: &[bool]) -> Vec<bool> {
    let mut active = vec![false; graph.values().count()];
    let is_float = |id: ValueId| graph.ty(id).dtype.is_float();
    for (input, wanted) in graph.inputs().iter().zip(wanted) {
        active[input.value.index()] = *wanted && is_float(input.value);
    }
    for node in graph.nodes() {
        if node.inputs.iter().any(|input| active[input.index()]) {
            node.outputs.iter().for_each(|output| active[output.index()] = is_float(*output));
        }
    }
    active
}
