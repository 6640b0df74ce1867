//! Concatenations of traces with other rows: the traces are written where they will lie, so that they are not copied.
//!
//! The states of a loop with the first one before them, which a backward loop reads, are a trace that was written behind a free
//! row.

use std::collections::HashMap;

use funcify::Graph;
use funcify::dispatch::Declined;
use funcify::graph::{Source, ValueId};
use funcify::ops::Op as GraphOp;

use super::Scope;
use crate::planner::Planner;
use crate::planner::parallel::Label;
use crate::planner::view::View;

/// The concatenations of a graph.
#[derive(Debug, Default)]
pub(super) struct Joins {
    /// Of what a trace is a part, along which axis, and from which index on.
    parts: HashMap<ValueId, (ValueId, usize, usize)>,
    /// Memory for those of which a part was computed.
    wholes: HashMap<ValueId, View>,
}

impl Joins {
    /// The concatenations of traces that are live. A part of several belongs to the first.
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

    /// The memory of a concatenation, if a part of it may be there.
    pub(super) fn whole(&self, value: ValueId) -> Option<View> {
        self.wholes.get(&value).cloned()
    }
}

impl Scope<'_, '_> {
    /// Says that a value which is computed next is to be written where it will lie as a part of another one.
    pub(super) fn place_part(&mut self, value: ValueId) -> Result<(), Declined> {
        let Some((whole, axis, start)) = self.joins.parts.get(&value).copied() else { return Ok(()) };
        let labels = [value, whole].map(|value| self.planner.label(self.graph, value));
        let has_place = [value, whole].iter().any(|value| self.places[value.index()].is_some());
        if has_place || labels.contains(&Label::Share) {
            return Ok(());
        }
        let level = self.planner.emitter.blocks.depth();
        let (shape, count) = (self.shape_of(whole)?, self.shape_of(value)?[axis]);
        let memory = match self.joins.whole(whole) {
            Some(memory) => memory,
            None => {
                let innermost = self.planner.innermost(self.graph, whole);
                self.planner.emitter.reserve_as(&shape, level, innermost)
            }
        };
        self.joins.wholes.insert(whole, memory.clone());
        self.place(value, memory.part(axis, start, count, 1));
        Ok(())
    }
}
