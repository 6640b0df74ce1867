//! A graph that is put together from the nodes of another one.

use crate::graph::{Graph, Node, ValueId};
use crate::ops::Op;

/// The graph so far, and what the values of the other one are in it.
pub(super) struct Copy<'a> {
    from: &'a Graph,
    pub(super) graph: Graph,
    ids: Vec<Option<ValueId>>,
}

impl<'a> Copy<'a> {
    /// The inputs alone.
    pub(super) fn of(from: &'a Graph) -> Self {
        let mut graph = Graph::new(from.name());
        let mut ids = vec![None; from.values().count()];
        for (index, input) in from.inputs().iter().enumerate() {
            let ty = from.input_type(index).clone();
            ids[input.value.index()] = Some(graph.push_input(from.input_name(index), ty, input.is_static));
        }
        Copy { from, graph, ids }
    }

    /// What a value is in the graph. `None` if nothing gives it yet.
    pub(super) fn get(&self, value: ValueId) -> Option<ValueId> {
        self.ids[value.index()]
    }

    /// Says what a value is, and gives it the name that it had.
    pub(super) fn set(&mut self, value: ValueId, id: ValueId) {
        self.ids[value.index()] = Some(id);
        if let Some(name) = self.from.value_name(value).filter(|_| self.graph.value_name(id).is_none()) {
            self.graph.set_value_name(id, name);
        }
    }

    /// Adds a node as it is, or with another op in its place.
    pub(super) fn node(&mut self, node: &Node, op: Op) -> Option<()> {
        let operands: Vec<ValueId> = node.inputs.iter().map(|input| self.get(*input)).collect::<Option<_>>()?;
        let results = self.graph.push_node(op, &operands, node.site).ok()?;
        node.outputs.iter().zip(results).for_each(|(output, id)| self.set(*output, id));
        Some(())
    }

    /// The graph with the outputs.
    pub(super) fn finished(mut self) -> Option<Graph> {
        for output in self.from.outputs() {
            let id = self.get(output.value)?;
            self.graph.push_output(&output.name, id);
        }
        Some(self.graph)
    }
}
