//! Walks the nodes of a graph in order and maps each value to a counterpart, such as a value of another trace, a value
//! with its tangent, a batched value, or a tensor.

use super::*;

/// A map from the values of a graph to their counterparts. Walking the graph's nodes fills the map.
pub struct Replay<'g, V> {
    graph: &'g Graph,
    values: Vec<Option<V>>,
}

impl<'g, V: Clone> Replay<'g, V> {
    /// Creates a map that contains only `inputs`: the counterparts of the graph's inputs, in order.
    pub fn new(graph: &'g Graph, inputs: impl IntoIterator<Item = V>) -> Self {
        let mut replay = Replay { graph, values: vec![None; graph.values().count()] };
        graph.inputs().iter().zip(inputs).for_each(|(input, value)| replay.set(input.value, value));
        replay
    }

    /// Sets the counterpart of a value.
    pub fn set(&mut self, id: ValueId, value: V) {
        self.values[id.index()] = Some(value);
    }

    /// Returns the counterpart of a value, or `None` if it is unknown.
    pub fn get(&self, id: ValueId) -> Option<V> {
        self.values[id.index()].clone()
    }

    /// Calls `rule` for each live node in order, and records the counterparts that it returns for the node's results.
    /// `rule` receives the index of the node, the node, and the counterparts of its operands. Skips nodes with an
    /// unknown operand. If `rule` fails, stops and returns the error.
    pub fn walk_live<E>(self, rule: impl FnMut(usize, &'g Node, Vec<V>) -> Result<Vec<V>, E>) -> Result<Self, E> {
        let live = self.graph.live_nodes();
        self.walk_marked(&live, rule)
    }

    /// Like [`walk_live`](Replay::walk_live), but walks the nodes marked in `marked` instead of the live nodes.
    pub fn walk_marked<E>(
        self,
        marked: &[bool],
        rule: impl FnMut(usize, &'g Node, Vec<V>) -> Result<Vec<V>, E>,
    ) -> Result<Self, E> {
        self.walk_marked_with(marked, |node| &node.inputs, rule)
    }

    /// Like [`walk_marked`](Replay::walk_marked), but passes to `rule` only the operands that `operands_of` selects.
    pub(crate) fn walk_marked_with<E>(
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

    /// Returns the counterpart of a value. Fails only for a graph that [`check`](Graph::check) rejects.
    pub fn value(&self, id: ValueId) -> Result<V> {
        self.get(id).ok_or_else(|| self.graph.undefined_value_error(format!("value {}", id.index())))
    }

    /// Returns the counterparts of the outputs, in order. Fails only for a graph that [`check`](Graph::check)
    /// rejects.
    pub fn outputs(&self) -> Result<Vec<V>> {
        self.graph.outputs().iter().map(|output| self.output(output)).collect()
    }

    /// Returns the counterpart of an output.
    pub(crate) fn output(&self, output: &Output) -> Result<V> {
        self.get(output.value).ok_or_else(|| self.graph.undefined_value_error(format!("output `{}`", output.name)))
    }
}

impl Graph {
    /// Creates the error for a value that no node or input defines (graph-c3).
    #[doc(hidden)]
    pub fn undefined_value_error(&self, component: String) -> Error {
        Error::Invalid {
            at: Place::new(self.name(), Site::Unknown).boxed(),
            invariant: "graph-c3".into(),
            component,
            found: "no definition".into(),
        }
    }
}
