//! Decides whether the parallel axis is laid out innermost in memory.

use funcify_core::Graph;
use funcify_core::graph::{Node, ValueId};
use funcify_core::ops::{Movement, Op, OpClass};
use funcify_core::types::Sizes;

use crate::parallel::{Label, ParallelAxis};

/// Element counts of the values inside loops. Only values that have the parallel axis, but not as their last axis, are
/// counted. `long` counts the elements of values whose last axis is longer than the parallel axis, and `short` counts
/// the elements of the other values.
#[derive(Default)]
struct Rows {
    long: usize,
    short: usize,
    /// `true` if an op that is not elementwise reads or computes such a value. Elementwise ops treat a value in
    /// row-major order as a single long row, regardless of its last axis.
    has_axes: bool,
}

impl ParallelAxis {
    /// Returns `true` if the values inside loops should be laid out with the parallel axis innermost. The decision
    /// depends on the values that have this axis, but not as their last axis. At least half of their elements must be
    /// in values whose last axis is at most as long as the parallel axis, and at least one such value must exist. At
    /// least one op on such values must depend on their axes, such as a reduction. In addition, each matrix product
    /// must be small enough to be computed as a sum of rows.
    ///
    /// `max_terms` limits the number of multiplications that a matrix product needs per index of the axis. The first
    /// limit applies if each index multiplies its own pair of matrices, and the second one if all indices share one of
    /// the matrices.
    pub fn belongs_innermost(&self, graph: &Graph, sizes: &Sizes, max_terms: [usize; 2]) -> bool {
        let mut rows = Rows::default();
        let is_allowed = self.allows_innermost(graph, sizes, max_terms, false, &mut rows);
        is_allowed && rows.has_axes && rows.short > 0 && rows.short >= rows.long
    }

    fn allows_innermost(
        &self,
        graph: &Graph,
        sizes: &Sizes,
        max_terms: [usize; 2],
        is_body: bool,
        rows: &mut Rows,
    ) -> bool {
        graph.nodes().iter().all(|node| {
            let labels = |value: &ValueId| (self.of(graph, *value), graph.ty(*value).rank());
            let is_moved = |value: &&ValueId| matches!(labels(value), (Label::Axis(axis), rank) if axis + 1 < rank);
            for value in node.outputs.iter().filter(|_| is_body).filter(is_moved) {
                let shape = graph.ty(*value).shape.value(sizes).unwrap_or_default();
                let is_long = shape.last().is_some_and(|last| *last > self.size());
                let elements = if is_long { &mut rows.long } else { &mut rows.short };
                *elements = elements.saturating_add(shape.iter().product::<usize>().max(1));
            }
            let has_moved = || node.inputs.iter().chain(&node.outputs).any(|value| is_moved(&value));
            rows.has_axes |= is_body && has_moved() && depends_on_axes(graph, node, sizes);
            if matches!(node.op, Op::MatMul(_)) {
                let values = [node.inputs[0], node.inputs[1], node.outputs[0]];
                let is_labelled = values.map(|value| matches!(labels(&value).0, Label::Axis(_)));
                let max = max_terms[usize::from(is_labelled != [true; 3])];
                return !is_labelled.contains(&true)
                    || self.products(graph, node, sizes).is_some_and(|terms| terms <= max);
            }
            node.op.bodies().into_iter().all(|body| self.allows_innermost(body, sizes, max_terms, true, rows))
        })
    }

    /// Returns the number of multiplications that a matrix product needs per index of the parallel axis, or `None` if
    /// `sizes` does not determine the shapes.
    fn products(&self, graph: &Graph, node: &Node, sizes: &Sizes) -> Option<usize> {
        let shape = |value: ValueId| graph.ty(value).shape.value(sizes).ok();
        let terms = shape(node.outputs[0])?.iter().product::<usize>() * shape(node.inputs[0])?.last()?;
        Some(terms / self.size().max(1))
    }
}

/// Returns `true` unless an op treats its operands and its result as lists of elements.
fn depends_on_axes(graph: &Graph, node: &Node, sizes: &Sizes) -> bool {
    let is_single =
        |value: ValueId| graph.ty(value).shape.value(sizes).is_ok_and(|shape| shape.iter().product::<usize>() == 1);
    match node.op.class() {
        OpClass::Elementwise(_) | OpClass::Creation(_) => false,
        OpClass::Movement(Movement::Broadcast(_)) => !is_single(node.inputs[0]),
        OpClass::Movement(_) | OpClass::Indexing(_) | OpClass::Along(_) | OpClass::Product(_) => true,
        // The bodies of a loop are examined on their own.
        OpClass::Control(_) => false,
        OpClass::RandomBits(_) | OpClass::Binding(_) | OpClass::Custom(_) => true,
    }
}
