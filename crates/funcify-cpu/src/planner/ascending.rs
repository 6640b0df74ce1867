//! Turns loops in descending order into loops in ascending order, if a number or an early exit determines how many steps
//! they run.
//!
//! In descending order, the first step depends on the number of steps, and the rows of an early exit come last. In
//! ascending order, neither is the case, so that `capacity` can pad the loop. The sequences, the initial rows and the
//! traces are reversed instead.

use std::sync::Arc;

use funcify_core::Graph;
use funcify_core::graph::{GraphCopy, Node, ValueId};
use funcify_core::ops::scan::{Buffer, Scan, Sequence, Start};
use funcify_core::ops::{BindSize, Op as GraphOp, Reverse, Slice};
use funcify_core::types::Dim;

/// Copies a graph with such loops in the bodies of its ops in ascending order. Loops with full buffers stay as they are.
pub(super) fn with_ascending_loops(graph: &Graph) -> Option<Graph> {
    let mut copy = GraphCopy::with_inputs_of(graph);
    for node in graph.nodes() {
        copy.node(node, with_ascending_bodies(&node.op)?)?;
    }
    copy.finish()
}

fn with_ascending_bodies(op: &GraphOp) -> Option<GraphOp> {
    let bodies = op.bodies().into_iter().map(|body| ascending_body(body).map(Arc::new));
    Some(op.with_bodies(bodies.collect::<Option<_>>()?))
}

fn ascending_body(body: &Graph) -> Option<Graph> {
    let mut copy = GraphCopy::with_inputs_of(body);
    for node in body.nodes() {
        let op = with_ascending_bodies(&node.op)?;
        if let GraphOp::Scan(scan) = &op
            && scan.reverse
            && (scan.until.is_some() || scan.steps_operand)
            && scan.buffers.iter().all(|buffer| buffer.start != Start::Full)
        {
            ascending(&mut copy, node, scan)?;
        } else {
            copy.node(node, op)?;
        }
    }
    copy.finish()
}

/// Adds a loop in ascending order that computes the results of `scan`, a loop in descending order.
fn ascending(copy: &mut GraphCopy<'_>, node: &Node, scan: &Scan) -> Option<()> {
    let operands: Option<Vec<ValueId>> = node.inputs.iter().map(|input| copy.get(*input)).collect();
    let (mut operands, graph) = (operands?, &mut copy.graph);
    let mut push = |op: GraphOp, operand: &[ValueId]| graph.push_node(op, operand, node.site).ok();
    if scan.steps_operand {
        push(BindSize { size: scan.steps.as_symbol()?.clone() }.into(), &[operands.remove(0)])?;
    }
    let counted = Scan { steps_operand: false, reverse: false, ..scan.clone() };
    let places = counted.operands();
    for (sequence, operand) in scan.sequences.iter().zip(places.sequences) {
        // The step with index t reads row t + k. In the reversed rows, this is row t' + reach - k.
        let limit = scan.steps.clone() + sequence.reach();
        let rows = push(Slice { axis: 0, start: Dim::from(0), limit, step: 1 }.into(), &[operands[operand]])?[0];
        operands[operand] = push(Reverse { axis: 0 }.into(), &[rows])?[0];
    }
    for operand in places.buffers.into_iter().flatten() {
        operands[operand] = push(Reverse { axis: 0 }.into(), &[operands[operand]])?[0];
    }
    let sequences = scan.sequences.iter().map(|sequence| {
        let reach = sequence.reach();
        Sequence { reads: sequence.reads.iter().map(|read| reach - read).collect() }
    });
    let buffers = scan.buffers.iter().map(|buffer| {
        // The initial rows follow the trace. In the reversed rows, they precede it.
        let given = if let Start::Given(given) = buffer.start { given } else { 0 };
        let turned = |offsets: &[usize]| offsets.iter().map(|offset| given - offset).collect();
        Buffer { reads: turned(&buffer.reads), writes: turned(&buffer.writes), ..buffer.clone() }
    });
    let turned = Scan { sequences: sequences.collect(), buffers: buffers.collect(), ..counted };
    let mut results = push(turned.into(), &operands)?.to_vec();
    for result in &mut results[..scan.buffers.len()] {
        *result = push(Reverse { axis: 0 }.into(), &[*result])?[0];
    }
    node.outputs.iter().zip(results).for_each(|(output, result)| copy.set(*output, result));
    Some(())
}
