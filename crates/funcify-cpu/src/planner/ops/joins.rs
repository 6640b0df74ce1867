//! Plans concatenations of traces with other rows. To avoid copies, a trace is written directly to its position in the
//! concatenation, or the steps of a loop read all parts of the concatenation in place.
//!
//! For example, a backward loop reads the initial state followed by the states of the forward loop. The forward loop
//! therefore leaves a row free before its trace. If the trace is an input instead, the backward loop reads it and the
//! initial state as two separate tensors.

use std::collections::HashMap;

use super::*;

/// The concatenations that contain a trace, and the memory that is assigned to them.
#[derive(Debug, Default)]
pub(super) struct Joins {
    /// For each trace: the concatenation that contains it, the concatenated axis, and the start index of the trace.
    parts: HashMap<ValueId, (ValueId, usize, usize)>,
    /// The memory of each concatenation to which at least one part has been written.
    wholes: HashMap<ValueId, View>,
}

impl Joins {
    /// Finds the live concatenations that contain a trace. If a trace is in several concatenations, it is assigned to
    /// the first.
    pub(super) fn of(planner: &Planner, graph: &Graph) -> Self {
        let mut parts = HashMap::new();
        let live = graph.live_nodes();
        for (node, _) in graph.nodes().iter().zip(live).filter(|(_, live)| *live) {
            let GraphOp::Concat(op) = &node.op else { continue };
            let mut start = 0;
            for input in &node.inputs {
                let Ok(shape) = planner.shape(graph, *input) else { break };
                let is_of_loop = matches!(graph.source(*input), Source::Node(node, _) if matches!(graph.node(node).op, GraphOp::Scan(_)));
                if is_of_loop {
                    parts.entry(*input).or_insert((node.outputs[0], op.axis, start));
                }
                start += shape[op.axis];
            }
        }
        Joins { parts, wholes: HashMap::new() }
    }

    /// Returns the memory of a concatenation, or `None` if no part has been written to it yet.
    pub(super) fn whole(&self, value: ValueId) -> Option<View> {
        self.wholes.get(&value).cloned()
    }
}

impl Scope<'_, '_> {
    /// Sets the destination of a value to its position in a concatenation, if the value is part of one. Must be called
    /// before the value is computed.
    pub(super) fn place_part(&mut self, value: ValueId) -> Result<()> {
        let Some((whole, axis, start)) = self.joins.parts.get(&value).copied() else { return Ok(()) };
        let labels = [value, whole].map(|value| self.planner.label(self.graph, value));
        if self.places[value.index()].is_some() || labels.contains(&Label::Share) {
            return Ok(());
        }
        let level = self.planner.emitter.blocks.depth();
        let (shape, count) = (self.shape_of(whole)?, self.shape_of(value)?[axis]);
        let innermost = self.planner.innermost(self.graph, whole);
        let memory = match (self.joins.whole(whole), &self.places[whole.index()]) {
            (Some(memory), _) => memory,
            // Steps of a loop may also read the concatenation, so its destination must have the layout that the loop
            // requires.
            (None, Some(place)) if place.level == level && innermost.is_none_or(|axis| place.strides[axis] == 1) => {
                place.clone()
            }
            (None, Some(_)) => return Ok(()),
            (None, None) => {
                let ty = self.planner.representation(self.graph, whole);
                self.planner.emitter.reserve_as(&shape, level, innermost, ty)
            }
        };
        self.planner.emitter.fired.note(Transformation::Joined);
        self.joins.wholes.insert(whole, memory.clone());
        self.place(value, memory.part(axis, start, count, 1));
        Ok(())
    }

    /// Returns `true` if a concatenation of rows should be read in place, part by part. This requires that only the
    /// steps of loops read the concatenation, that no part was written directly to its final position, and that the
    /// concatenation has two parts, one of which is a single row. Almost all steps then read the same part.
    pub(super) fn is_read_by_steps(&self, value: ValueId, parts: &[View]) -> bool {
        let is_sequence = |node: &Node, index: usize| match &node.op {
            GraphOp::Scan(scan) => scan.until.is_none() && scan.operands().sequences.contains(&index),
            _ => false,
        };
        let all_read_rows = self.graph.nodes().iter().all(|node| {
            node.inputs.iter().enumerate().all(|(index, input)| *input != value || is_sequence(node, index))
        });
        let is_apart = self.joins.whole(value).is_none() && self.places[value.index()].is_none();
        let has_one_row = parts.iter().any(|part| part.shape[0] == 1);
        is_apart && has_one_row && parts.len() == 2 && all_read_rows && !self.is_output(value)
    }

    /// Returns a concatenation as a single tensor. Does not copy traces that were written directly to their position in
    /// this tensor.
    pub(super) fn concat(&mut self, axis: usize, parts: Vec<View>, value: ValueId) -> Result<View> {
        let shape = self.shape_of(value)?;
        let to = match self.joins.whole(value) {
            Some(whole) => whole,
            None => self.target(value, &shape, level_of(&parts)),
        };
        let mut start = 0;
        for part in parts {
            let count = part.shape[axis];
            let place = to.part(axis, start, count, 1);
            if !part.is_same_view(&place) {
                self.planner.emitter.copy(&place, &part)?;
            }
            start += count;
        }
        Ok(to)
    }
}
