//! Shortens a loop whose last steps are not needed: if only the first rows of its traces are read, the loop runs only
//! the steps that write these rows (as in PyTensor's `scan_save_mem`).
//!
//! Precondition: the loop runs forward and cannot fail; otherwise, the errors of the removed steps would be lost.
//! Nothing uses a final carry or a full buffer. Every use of a trace is a slice that provably ends before the end of
//! the trace; a trace that is an output of the graph counts as read in full. If the new number of steps can be
//! negative, the shortened loop must fail in the same cases as the original program. For example, if the first `T-1` of
//! `T` rows are read, the original slice of the trace fails at run time when `T` is 0. The rewrite therefore slices the
//! sequences to the rows that the shortened loop reads, and one of these slices must also fail if `T` is 0.

use super::*;
use funcify_core::ops::scan::{Buffer, Start};

/// The steps that a loop must run, according to the uses of its results that have been examined so far.
#[derive(Default)]
struct Needed {
    /// The number of needed steps, or `None` if no use has been examined yet or if all steps are needed.
    steps: Option<Dim>,
    /// The end index of each examined slice.
    limits: Vec<Dim>,
    needs_all: bool,
}

impl Needed {
    fn add(&mut self, rows: Option<(Dim, Dim)>) {
        let Some((steps, limit)) = rows.filter(|_| !self.needs_all) else {
            *self = Needed { needs_all: true, ..Needed::default() };
            return;
        };
        self.steps = match self.steps.take() {
            None => Some(steps),
            Some(so_far) => larger(so_far, steps),
        };
        self.needs_all = self.steps.is_none();
        self.limits.push(limit);
    }
}

/// Shortens every loop whose last steps are not needed. Returns the new graph, and the source line of the first
/// shortened loop. Returns `None` if no loop can be shortened.
pub(super) fn shorten_loops(graph: &Graph) -> Option<(Graph, Site)> {
    let steps = needed_steps(graph);
    let site = graph.nodes()[*steps.keys().next()?].site;
    let mut copy = GraphCopy::with_inputs_of(graph);
    for (index, node) in graph.nodes().iter().enumerate() {
        match (&node.op, steps.get(&index)) {
            (Op::Scan(scan), Some(steps)) => add_shorter(&mut copy, node, scan, steps)?,
            (op, _) => copy.node(node, op.clone())?,
        }
    }
    Some((copy.finish()?, site))
}

/// Adds the shortened loop to the copy of the graph. If the new number of steps may be negative, also slices the loop's
/// sequences to the rows that the shortened loop reads. Such a slice fails if the number of steps is negative.
fn add_shorter(copy: &mut GraphCopy<'_>, node: &Node, scan: &Scan, steps: &Dim) -> Option<()> {
    let mut operands: Vec<ValueId> = node.inputs.iter().map(|input| copy.get(*input)).collect::<Option<_>>()?;
    if !is_natural(steps) {
        for (sequence, operand) in scan.sequences.iter().zip(scan.operands().sequences) {
            let limit = steps.clone() + sequence.reach();
            if copy.graph.ty(operands[operand]).shape[0] != limit {
                let slice = Slice { axis: 0, start: Dim::from(0), limit, step: 1 };
                operands[operand] =
                    *copy.graph.push_node(slice.into(), &[operands[operand]], node.site).ok()?.first()?;
            }
        }
    }
    let scan = Scan { steps: steps.clone(), ..scan.clone() };
    let results = copy.graph.push_node(scan.into(), &operands, node.site).ok()?;
    node.outputs.iter().zip(results).for_each(|(output, id)| copy.set(*output, id));
    Some(())
}

fn is_natural(steps: &Dim) -> bool {
    steps.is_at_least(&Dim::from(0)) == Some(true)
}

/// Returns `true` if both programs fail for a negative number of steps: the original one when it slices a trace, and
/// the shortened one when it slices a sequence.
fn is_negative_rejected(scan: &Scan, steps: &Dim, limits: &[Dim]) -> bool {
    scan.sequences.iter().any(|sequence| sequence.reach() == 0)
        && limits.iter().any(|limit| steps.is_at_least(limit) == Some(true))
}

/// Returns the new number of steps of each loop that can be shortened, keyed by node index.
fn needed_steps(graph: &Graph) -> BTreeMap<usize, Dim> {
    let is_loop = |(_, node): &(usize, &Node)| matches!(&node.op, Op::Scan(scan) if may_be_shorter(scan));
    let loops = graph.nodes().iter().enumerate().filter(is_loop);
    let mut needed: BTreeMap<usize, Needed> = loops.map(|(index, _)| (index, Needed::default())).collect();
    if needed.is_empty() {
        return BTreeMap::new();
    }
    let uses = graph.live().flat_map(|node| node.inputs.iter().map(move |input| (*input, Some(node))));
    for (value, user) in uses.chain(graph.outputs().iter().map(|output| (output.value, None))) {
        let Source::Node(node, result) = graph.source(value) else { continue };
        let Some(so_far) = needed.get_mut(&node.index()) else { continue };
        let Op::Scan(scan) = &graph.node(node).op else { continue };
        so_far.add(scan.buffers.get(result).zip(user).and_then(|(buffer, user)| first_steps(buffer, user)));
    }
    let shorter = |(index, needed): (usize, Needed)| {
        let (node, steps) = (&graph.nodes()[index], needed.steps?);
        let Op::Scan(scan) = &node.op else { return None };
        let is_shorter = steps != Dim::from(0)
            && steps != scan.steps
            && scan.steps.is_at_least(&steps) == Some(true)
            && (is_natural(&steps) || is_negative_rejected(scan, &steps, &needed.limits))
            && cannot_fail(graph, node, &Sizes::new());
        is_shorter.then_some((index, steps))
    };
    needed.into_iter().filter_map(shorter).collect()
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

/// Returns the number of steps needed to write the rows that a slice of a trace reads, and the end index of the slice.
/// Returns `None` if `user` is not a slice along axis 0.
fn first_steps(buffer: &Buffer, user: &Node) -> Option<(Dim, Dim)> {
    let Op::Slice(Slice { axis: 0, limit, .. }) = &user.op else { return None };
    let given = if let Start::Given(rows) = buffer.start { rows } else { 0 };
    Some((limit.clone() - given, limit.clone()))
}

/// Returns the larger of two numbers of steps, or `None` if the comparison depends on the sizes of a call.
fn larger(left: Dim, right: Dim) -> Option<Dim> {
    match (left.is_at_least(&right), right.is_at_least(&left)) {
        (Some(true), _) => Some(left),
        (_, Some(true)) => Some(right),
        _ => None,
    }
}
