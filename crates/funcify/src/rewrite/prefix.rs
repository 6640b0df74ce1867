//! A loop of whose traces only first rows are read runs no more steps than these need (PyTensor's `scan_save_mem` does so for the
//! number of steps).
//!
//! Precondition: the loop goes upward and is certain, as what a step that is left out would have been refused for is lost; nothing
//! uses a final carry, or a buffer that is given whole; every use of a trace is a slice of rows, which surely end
//! before those that there are. What a graph gives is used whole.

use std::collections::BTreeMap;

use super::trim::with_ops;
use crate::error::Site;
use crate::graph::{Graph, Node, Source, is_certain};
use crate::ops::scan::{Buffer, Returned, Scan, Start};
use crate::ops::{Op, Slice};
use crate::types::{Dim, Sizes};

/// How many steps the uses of a loop need, so far; `None` if all.
type Needed = Option<Dim>;

/// The graph with shorter loops, and the line of the first; `None` if none is.
pub(super) fn shortened(graph: &Graph) -> Option<(Graph, Site)> {
    let steps = needed_steps(graph);
    let first = steps.keys().next()?;
    let site = graph.nodes()[*first].site;
    let op = |index: usize, node: &Node| match (&node.op, steps.get(&index)) {
        (Op::Scan(scan), Some(steps)) => Scan { steps: steps.clone(), ..scan.clone() }.into(),
        (op, _) => op.clone(),
    };
    Some((with_ops(graph, op)?, site))
}

/// The loops that can run fewer steps, and how many.
fn needed_steps(graph: &Graph) -> BTreeMap<usize, Dim> {
    let is_loop = |(_, node): &(usize, &Node)| matches!(&node.op, Op::Scan(scan) if may_be_shorter(scan));
    let loops = graph.nodes().iter().enumerate().filter(is_loop);
    let mut needed: BTreeMap<usize, Needed> = loops.map(|(index, _)| (index, Some(Dim::from(0)))).collect();
    let uses = graph.live().flat_map(|node| node.inputs.iter().map(move |input| (*input, Some(node))));
    for (value, user) in uses.chain(graph.outputs().iter().map(|output| (output.value, None))) {
        let Source::Node(node, result) = graph.source(value) else { continue };
        let Some(so_far) = needed.get_mut(&node.index()) else { continue };
        let Op::Scan(scan) = &graph.node(node).op else { continue };
        let rows = scan.buffers.get(result).zip(user).and_then(|(buffer, user)| first_steps(buffer, user));
        *so_far = so_far.take().zip(rows).and_then(|(so_far, rows)| larger(so_far, rows));
    }
    let is_shorter = |(index, steps): (usize, Needed)| {
        let (node, steps) = (&graph.nodes()[index], steps?);
        let Op::Scan(scan) = &node.op else { return None };
        let is_so = steps != Dim::from(0)
            && steps != scan.steps
            && scan.steps.is_at_least(&steps) == Some(true)
            && steps.is_at_least(&Dim::from(0)) == Some(true)
            && is_certain(graph, node, &Sizes::new());
        is_so.then_some((index, steps))
    };
    needed.into_iter().filter_map(is_shorter).collect()
}

fn may_be_shorter(scan: &Scan) -> bool {
    let is_trace = |buffer: &Buffer| buffer.start != Start::Full && buffer.returned == Returned::All;
    !scan.reverse
        && scan.until.is_none()
        && scan.truncate.is_none()
        && !scan.steps_operand
        && !scan.buffers.is_empty()
        && scan.buffers.iter().all(is_trace)
}

/// How many steps write the rows of a trace that an op reads, if it is a slice of them.
fn first_steps(buffer: &Buffer, user: &Node) -> Option<Dim> {
    let Op::Slice(Slice { axis: 0, limit, .. }) = &user.op else { return None };
    let given = if let Start::Given(rows) = buffer.start { rows } else { 0 };
    Some(limit.clone() - given)
}

/// The larger of two numbers of steps, if one is the larger for all sizes.
fn larger(left: Dim, right: Dim) -> Option<Dim> {
    match (left.is_at_least(&right), right.is_at_least(&left)) {
        (Some(true), _) => Some(left),
        (_, Some(true)) => Some(right),
        _ => None,
    }
}
