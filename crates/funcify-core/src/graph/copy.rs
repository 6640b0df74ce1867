//! Nodes of one graph in another one.

use super::*;

/// What the values of a graph are in another one, of which they become a part.
pub struct Copied<'a> {
    from: &'a Graph,
    ids: Vec<Option<ValueId>>,
}

impl<'a> Copied<'a> {
    /// Nothing yet.
    pub fn new(from: &'a Graph) -> Self {
        Copied { from, ids: vec![None; from.values().count()] }
    }

    /// What a value is. `None` if nothing gives it yet.
    pub fn get(&self, value: ValueId) -> Option<ValueId> {
        self.ids[value.index()]
    }

    /// Says what a value is.
    pub fn set(&mut self, value: ValueId, id: ValueId) {
        self.ids[value.index()] = Some(id);
    }

    /// Says what a value is, and gives it the name that it had, unless it has one.
    pub fn set_named(&mut self, to: &mut Graph, value: ValueId, id: ValueId) {
        self.set(value, id);
        if let Some(name) = self.from.value_name(value).filter(|_| to.value_name(id).is_none()) {
            to.set_value_name(id, name);
        }
    }

    /// Makes a value an input of the other graph, with its name, or this one if it has none.
    pub fn input(&mut self, to: &mut Graph, value: ValueId, name: &str) {
        let name = self.from.value_name(value).unwrap_or(name);
        self.ids[value.index()] = Some(to.push_input(name, self.from.ty(value).clone(), false));
    }

    /// Adds a node, or another op in its place. Results that are there stay what they are. `None` if an operand is not there, or
    /// does not fit the op.
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

    /// Adds outputs that the other graph is to have.
    pub fn outputs(&self, to: &mut Graph) -> Option<()> {
        self.from.outputs().iter().try_for_each(|output| {
            to.push_output(&output.name, self.get(output.value)?);
            Some(())
        })
    }
}

/// A graph that is put together from the nodes of another one, with the same inputs and outputs.
pub struct Copy<'a> {
    /// The graph so far.
    pub graph: Graph,
    copied: Copied<'a>,
}

impl<'a> Copy<'a> {
    /// The inputs alone.
    pub fn of(from: &'a Graph) -> Self {
        let mut copy = Copy { graph: Graph::new(from.name()), copied: Copied::new(from) };
        for (index, input) in from.inputs().iter().enumerate() {
            let ty = from.input_type(index).clone();
            let id = copy.graph.push_input(from.input_name(index), ty, input.is_static);
            copy.set(input.value, id);
        }
        copy
    }

    /// What a value is in the graph. `None` if nothing gives it yet.
    pub fn get(&self, value: ValueId) -> Option<ValueId> {
        self.copied.get(value)
    }

    /// Says what a value is, and gives it the name that it had.
    pub fn set(&mut self, value: ValueId, id: ValueId) {
        self.copied.set_named(&mut self.graph, value, id);
    }

    /// Adds a node as it is, or with another op in its place.
    pub fn node(&mut self, node: &Node, op: Op) -> Option<()> {
        self.copied.node(&mut self.graph, node, op)
    }

    /// The graph with the outputs.
    pub fn finished(mut self) -> Option<Graph> {
        self.copied.outputs(&mut self.graph)?;
        Some(self.graph)
    }
}
