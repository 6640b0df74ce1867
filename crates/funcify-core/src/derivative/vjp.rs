//! Differentiates a graph in reverse mode: adds its nodes to the open graph, followed by the ops that compute the
//! cotangents of its inputs.

use std::borrow::Cow;

use super::active::active_values;
use super::*;
use crate::graph::tracer::keep_name;

/// A graph whose nodes were added to the open graph, with the data that the backward pass needs.
pub(crate) struct Tape<'a> {
    graph: Cow<'a, Graph>,
    vjp_options: &'a VjpOptions,
    values: Vec<Option<Value>>,
    /// For each value of the graph, `true` if it is active; see [`active_values`].
    active: Vec<bool>,
    /// The data that each node saved for its reverse rule.
    records: Vec<Record>,
    /// For each node, the tape of the program that replaces it for differentiation, if any.
    replacements: Vec<Option<Tape<'a>>>,
}

impl<'a> Tape<'a> {
    /// Adds the live nodes of `graph` to the open graph, and returns a tape that can compute the cotangents of the
    /// inputs marked in `wrt`.
    pub(crate) fn record(
        graph: &'a Graph,
        inputs: &[Value],
        wrt: &[bool],
        vjp_options: &'a VjpOptions,
    ) -> Result<Self, Failed> {
        Tape::record_with(graph, inputs, wrt, vjp_options, &[])
    }

    /// Like [`record`](Tape::record), but takes some values of the graph from `residuals` instead of computing them.
    pub(crate) fn record_with(
        graph: &'a Graph,
        inputs: &[Value],
        wrt: &[bool],
        vjp_options: &'a VjpOptions,
        residuals: &[(ValueId, Value)],
    ) -> Result<Self, Failed> {
        let mut tape = Tape::of(graph.with_free_symbols(), wrt, vjp_options);
        for (id, value) in residuals {
            tape.values[id.index()] = Some(*value);
        }
        tape.run(inputs)?;
        Ok(tape)
    }

    /// Creates a tape for `graph` without adding its nodes to the open graph.
    fn of(graph: Cow<'a, Graph>, wrt: &[bool], vjp_options: &'a VjpOptions) -> Self {
        let (values, nodes) = (graph.values().count(), graph.nodes().len());
        Tape {
            vjp_options,
            values: vec![None; values],
            active: active_values(&graph, wrt),
            records: (0..nodes).map(|_| Record::Nothing).collect(),
            replacements: (0..nodes).map(|_| None).collect(),
            graph,
        }
    }

    /// Adds the live nodes to the open graph, except nodes whose results are all residuals.
    fn run(&mut self, inputs: &[Value]) -> Result<(), Failed> {
        let graph = self.graph.clone();
        for (input, value) in graph.inputs().iter().zip(inputs) {
            self.values[input.value.index()] = Some(*value);
        }
        let live = graph.live_nodes();
        for (index, node) in graph.nodes().iter().enumerate() {
            let is_known = |output: &ValueId| self.values[output.index()].is_some();
            if !live[index] || (!node.outputs.is_empty() && node.outputs.iter().all(is_known)) {
                continue;
            }
            let operands = self.values_of(&node.inputs)?;
            check(node.op.name(), node.site, operands.iter().copied())?;
            let results = at_site(node.site, || self.run_node(index, node, &operands))?;
            check(node.op.name(), node.site, results.iter().copied())?;
            for (output, result) in node.outputs.iter().zip(results) {
                if let Some(name) = graph.value_name(*output) {
                    keep_name(result, name);
                }
                self.values[output.index()].get_or_insert(result);
            }
        }
        Ok(())
    }

    /// Adds one node to the open graph, stores the data that its reverse rule needs, and returns its results.
    fn run_node(&mut self, index: usize, node: &Node, operands: &[Value]) -> Result<Vec<Value>, Failed> {
        if !node.outputs.iter().any(|output| self.active[output.index()]) {
            return emit(node.op.clone(), operands);
        }
        let types: Vec<TensorType> = operands.iter().map(|operand| operand.ty()).collect();
        let wrt = wrt(node, &self.active);
        if let Some(program) = node.op.replacement_for_differentiation(&types, self.vjp_options)? {
            let mut tape = Tape::of(Cow::Owned(program), &wrt, self.vjp_options);
            tape.run(operands)?;
            let results = tape.outputs()?;
            self.replacements[index] = Some(tape);
            return Ok(results);
        }
        let forward = node.op.forward(operands, &wrt, self.vjp_options)?;
        self.records[index] = forward.record;
        Ok(forward.results)
    }

    /// Returns the value in the open graph that corresponds to a value of the recorded graph.
    pub(crate) fn value(&self, id: ValueId) -> Result<Value, Failed> {
        let nothing = || self.graph.undefined_value_error(format!("value {}", id.index()));
        Ok(self.values[id.index()].ok_or_else(nothing)?)
    }

    fn values_of(&self, ids: &[ValueId]) -> Result<Vec<Value>, Failed> {
        ids.iter().map(|id| self.value(*id)).collect()
    }

    /// Returns the values in the open graph that correspond to the outputs of the recorded graph.
    pub(crate) fn outputs(&self) -> Result<Vec<Value>, Failed> {
        self.graph.outputs().iter().map(|output| self.value(output.value)).collect()
    }

    /// Adds the cotangents of the inputs to the open graph, computed from the cotangents of the outputs. The entry of
    /// an input that receives no cotangent is `None`.
    pub(crate) fn pull(&self, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        self.pull_through(&self.active, cotangents)
    }

    /// Like [`pull`](Tape::pull), but computes only the cotangents of the inputs marked in `wrt`. These inputs must
    /// also be marked in the call to [`record`](Tape::record).
    pub(crate) fn pull_to(&self, wrt: &[bool], cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        self.pull_through(&active_values(&self.graph, wrt), cotangents)
    }

    /// Propagates the cotangents of the outputs backward through the active values, and returns the cotangents of the
    /// inputs.
    fn pull_through(&self, active: &[bool], cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        let graph = &self.graph;
        let mut sums: Vec<Option<Value>> = vec![None; self.values.len()];
        for (output, cotangent) in graph.outputs().iter().zip(cotangents) {
            let index = output.value.index();
            if active[index] {
                sums[index] = add(sums[index], *cotangent);
            }
        }
        for (index, node) in graph.nodes().iter().enumerate().rev() {
            let of_results: Vec<Option<Value>> =
                node.outputs.iter().map(|output| sums[output.index()].take()).collect();
            if of_results.iter().all(Option::is_none) {
                continue;
            }
            let (operands, results) = (self.values_of(&node.inputs)?, self.values_of(&node.outputs)?);
            check(node.op.name(), node.site, of_results.iter().flatten().copied())?;
            let wrt = wrt(node, active);
            let context = VjpContext {
                operands: &operands,
                results: &results,
                record: &self.records[index],
                wrt: &wrt,
                vjp_options: self.vjp_options,
            };
            at_site(node.site, || {
                let contributions = match &self.replacements[index] {
                    Some(tape) => tape.pull(&of_results)?,
                    None => node.op.vjp(&context, &of_results)?,
                };
                check(node.op.name(), node.site, contributions.iter().flatten().copied())?;
                for ((input, contribution), wrt) in node.inputs.iter().zip(contributions).zip(&wrt) {
                    if *wrt {
                        sums[input.index()] = add(sums[input.index()], contribution);
                    }
                }
                Ok::<_, Failed>(())
            })?;
        }
        Ok(graph.inputs().iter().map(|input| sums[input.value.index()]).collect())
    }
}

/// Returns, for each operand of a node, `true` if it is active and therefore needs a cotangent.
fn wrt(node: &Node, active: &[bool]) -> Vec<bool> {
    node.inputs.iter().map(|input| active[input.index()]).collect()
}
