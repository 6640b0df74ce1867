//! Going through the nodes of a graph in order, with something for each value: a value of another trace, a tangent, lanes, a
//! tensor.

use std::convert::Infallible;

use super::{Graph, Node, Output, ValueId};
use crate::error::{Error, Place, Result, Site};

/// What the values of a graph are to who goes through it.
pub(crate) struct Replay<'g, V> {
    graph: &'g Graph,
    values: Vec<Option<V>>,
}

impl<'g, V: Clone> Replay<'g, V> {
    /// With what the inputs are, in order.
    pub(crate) fn new(graph: &'g Graph, inputs: impl IntoIterator<Item = V>) -> Self {
        let mut replay = Replay { graph, values: vec![None; graph.values().count()] };
        graph.inputs().iter().zip(inputs).for_each(|(input, value)| replay.set(input.value, value));
        replay
    }

    /// Says what a value is.
    pub(crate) fn set(&mut self, id: ValueId, value: V) {
        self.values[id.index()] = Some(value);
    }

    /// What a value is, if it is known.
    pub(crate) fn get(&self, id: ValueId) -> Option<V> {
        self.values[id.index()].clone()
    }

    /// Goes through the nodes that the outputs need. `rule` is given the number of a node, the node, and what its operands are,
    /// and gives what its results are. A node with an operand that is not known is left out.
    pub(crate) fn live(self, rule: impl FnMut(usize, &'g Node, Vec<V>) -> Vec<V>) -> Self {
        let live = self.graph.live_nodes();
        self.some(&live, rule)
    }

    /// [`live`](Replay::live), of the nodes that are marked.
    pub(crate) fn some(self, marked: &[bool], mut rule: impl FnMut(usize, &'g Node, Vec<V>) -> Vec<V>) -> Self {
        let done = self.try_some::<Infallible>(marked, |index, node, operands| Ok(rule(index, node, operands)));
        match done {
            Ok(done) => done,
            Err(never) => match never {},
        }
    }

    /// [`some`](Replay::some), up to the first node whose rule fails.
    pub(crate) fn try_some<E>(
        mut self,
        marked: &[bool],
        mut rule: impl FnMut(usize, &'g Node, Vec<V>) -> Result<Vec<V>, E>,
    ) -> Result<Self, E> {
        for (index, node) in self.graph.nodes().iter().enumerate().filter(|(index, _)| marked[*index]) {
            let operands: Option<Vec<V>> = node.inputs.iter().map(|input| self.get(*input)).collect();
            let Some(operands) = operands else { continue };
            let results = rule(index, node, operands)?;
            node.outputs.iter().zip(results).for_each(|(output, result)| self.set(*output, result));
        }
        Ok(self)
    }

    /// What the outputs are, in order; `missing` where one is not known.
    pub(crate) fn outputs(&self, missing: impl Fn() -> V) -> Vec<V> {
        self.graph.outputs().iter().map(|output| self.get(output.value).unwrap_or_else(&missing)).collect()
    }

    /// What the outputs are, in order. The error is of a graph that [`check`](Graph::check) refuses.
    pub(crate) fn all_outputs(&self) -> Result<Vec<V>> {
        self.graph.outputs().iter().map(|output| self.output(output)).collect()
    }

    /// What an output is.
    pub(crate) fn output(&self, output: &Output) -> Result<V> {
        self.get(output.value).ok_or_else(|| Error::Invalid {
            at: Place::new(self.graph.name(), Site::Unknown).boxed(),
            invariant: "graph-c3".into(),
            component: format!("output `{}`", output.name),
            found: "nothing that gives it".into(),
        })
    }
}
