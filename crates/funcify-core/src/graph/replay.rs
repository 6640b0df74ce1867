//! Going through the nodes of a graph in order, with something for each value: a value of another trace, a tangent, lanes, a
//! tensor.

use super::*;

/// What the values of a graph are to who goes through it.
pub struct Replay<'g, V> {
    graph: &'g Graph,
    values: Vec<Option<V>>,
}

impl<'g, V: Clone> Replay<'g, V> {
    /// With what the inputs are, in order.
    pub fn new(graph: &'g Graph, inputs: impl IntoIterator<Item = V>) -> Self {
        let mut replay = Replay { graph, values: vec![None; graph.values().count()] };
        graph.inputs().iter().zip(inputs).for_each(|(input, value)| replay.set(input.value, value));
        replay
    }

    /// Says what a value is.
    pub fn set(&mut self, id: ValueId, value: V) {
        self.values[id.index()] = Some(value);
    }

    /// What a value is, if it is known.
    pub fn get(&self, id: ValueId) -> Option<V> {
        self.values[id.index()].clone()
    }

    /// Goes through the nodes that the outputs need, up to the first node whose rule fails. `rule` is given the number of a
    /// node, the node, and what its operands are, and gives what its results are. A node with an operand that is not known is
    /// left out.
    pub fn live<E>(self, rule: impl FnMut(usize, &'g Node, Vec<V>) -> Result<Vec<V>, E>) -> Result<Self, E> {
        let live = self.graph.live_nodes();
        self.some(&live, rule)
    }

    /// [`live`](Replay::live), of the nodes that are marked.
    pub fn some<E>(
        self,
        marked: &[bool],
        rule: impl FnMut(usize, &'g Node, Vec<V>) -> Result<Vec<V>, E>,
    ) -> Result<Self, E> {
        self.some_with(marked, |node| &node.inputs, rule)
    }

    /// [`some`](Replay::some), where `rule` is given these operands of each node.
    pub(crate) fn some_with<E>(
        mut self,
        marked: &[bool],
        operands_of: impl Fn(&'g Node) -> &'g [ValueId],
        mut rule: impl FnMut(usize, &'g Node, Vec<V>) -> Result<Vec<V>, E>,
    ) -> Result<Self, E> {
        for (index, node) in self.graph.nodes().iter().enumerate().filter(|(index, _)| marked[*index]) {
            let operands: Option<Vec<V>> = operands_of(node).iter().map(|input| self.get(*input)).collect();
            let Some(operands) = operands else { continue };
            let results = rule(index, node, operands)?;
            node.outputs.iter().zip(results).for_each(|(output, result)| self.set(*output, result));
        }
        Ok(self)
    }

    /// What a value is. The error is of a graph that [`check`](Graph::check) refuses.
    pub fn value(&self, id: ValueId) -> Result<V> {
        self.get(id).ok_or_else(|| self.graph.nothing_gives(format!("value {}", id.index())))
    }

    /// What the outputs are, in order. The error is of a graph that [`check`](Graph::check) refuses.
    pub fn outputs(&self) -> Result<Vec<V>> {
        self.graph.outputs().iter().map(|output| self.output(output)).collect()
    }

    /// What an output is.
    pub(crate) fn output(&self, output: &Output) -> Result<V> {
        self.get(output.value).ok_or_else(|| self.graph.nothing_gives(format!("output `{}`", output.name)))
    }
}

impl Graph {
    /// The error of a value without a node or an input (graph-c3).
    pub fn nothing_gives(&self, component: String) -> Error {
        Error::Invalid {
            at: Place::new(self.name(), Site::Unknown).boxed(),
            invariant: "graph-c3".into(),
            component,
            found: "nothing that gives it".into(),
        }
    }
}
