//! Copies nodes between graphs.

use super::*;

/// A map from the values of a graph to their copies in a different graph.
pub struct ValueMap<'a> {
    from: &'a Graph,
    ids: Vec<Option<ValueId>>,
}

impl<'a> ValueMap<'a> {
    /// Creates an empty map for the values of `from`.
    pub fn new(from: &'a Graph) -> Self {
        ValueMap { from, ids: vec![None; from.values().count()] }
    }

    /// Returns the copy of a value, or `None` if it has none yet.
    pub fn get(&self, value: ValueId) -> Option<ValueId> {
        self.ids[value.index()]
    }

    /// Records `id` as the copy of a value.
    pub fn set(&mut self, value: ValueId, id: ValueId) {
        self.ids[value.index()] = Some(id);
    }

    /// Records `id`, a value of `to`, as the copy of a value. Gives the copy the name of the original, unless the copy
    /// already has a name.
    pub fn set_named(&mut self, to: &mut Graph, value: ValueId, id: ValueId) {
        self.set(value, id);
        if let Some(name) = self.from.value_name(value).filter(|_| to.value_name(id).is_none()) {
            to.set_value_name(id, name);
        }
    }

    /// Adds an input to `to` as the copy of a value. The input gets the value's name, or `name` if the value has none.
    pub fn input(&mut self, to: &mut Graph, value: ValueId, name: &str) {
        let name = self.from.value_name(value).unwrap_or(name);
        self.ids[value.index()] = Some(to.push_input(name, self.from.ty(value).clone(), false));
    }

    /// Copies a node, replacing its op with `op`. Results that already have a copy keep it. Returns `None` if an
    /// operand has no copy or if `op` rejects the operands.
    pub fn node(&mut self, to: &mut Graph, node: &Node, op: Op) -> Option<()> {
        let operands: Vec<ValueId> = node.inputs.iter().map(|input| self.get(*input)).collect::<Option<_>>()?;
        let results = to.push_node(op, &operands, node.site).ok()?;
        for (output, id) in node.outputs.iter().zip(results) {
            if self.get(*output).is_none() {
                self.set_named(to, *output, id);
            }
        }
        Some(())
    }

    /// Adds the copies of the outputs to `to`, with their original names. Returns `None` if an output has no copy.
    pub fn outputs(&self, to: &mut Graph) -> Option<()> {
        self.from.outputs().iter().try_for_each(|output| {
            to.push_output(&output.name, self.get(output.value)?);
            Some(())
        })
    }
}

/// A graph that is built by copying the nodes of an existing graph. It has the inputs and outputs of that graph.
pub struct GraphCopy<'a> {
    /// The graph built so far.
    pub graph: Graph,
    copied: ValueMap<'a>,
}

impl<'a> GraphCopy<'a> {
    /// Starts a copy of `from` that contains only the inputs.
    pub fn with_inputs_of(from: &'a Graph) -> Self {
        let mut copy = GraphCopy { graph: Graph::new(from.name()), copied: ValueMap::new(from) };
        for (index, input) in from.inputs().iter().enumerate() {
            let ty = from.input_type(index).clone();
            let id = copy.graph.push_input(from.input_name(index), ty, input.is_static);
            copy.set(input.value, id);
        }
        copy
    }

    /// Returns the copy of a value, or `None` if it has none yet.
    pub fn get(&self, value: ValueId) -> Option<ValueId> {
        self.copied.get(value)
    }

    /// Records `id` as the copy of a value. Gives the copy the name of the original, unless the copy already has a
    /// name.
    pub fn set(&mut self, value: ValueId, id: ValueId) {
        self.copied.set_named(&mut self.graph, value, id);
    }

    /// Copies a node, replacing its op with `op`. Returns `None` if an operand has no copy or if `op` rejects the
    /// operands.
    pub fn node(&mut self, node: &Node, op: Op) -> Option<()> {
        self.copied.node(&mut self.graph, node, op)
    }

    /// Adds the outputs and returns the graph. Returns `None` if an output has no copy.
    pub fn finish(mut self) -> Option<Graph> {
        self.copied.outputs(&mut self.graph)?;
        Some(self.graph)
    }
}
