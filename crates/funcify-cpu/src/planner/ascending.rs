//! Turns loops in descending order into loops in ascending order, if a number or an early exit determines how many steps
//! they run.
//!
//! In descending order, the first step depends on the number of steps, and the rows of an early exit come last. In
//! ascending order, neither is the case, so that `capacity` can pad the loop. The sequences, the initial rows, the traces
//! and the full buffers are reversed instead.

use std::sync::Arc;

use funcify_core::Graph;
use funcify_core::graph::{GraphCopy, Node, ValueId};
use funcify_core::ops::scan::{Buffer, Returned, Scan, Sequence, Start};
use funcify_core::ops::{BindSize, Concat, Op as GraphOp, Reverse, Slice};
use funcify_core::types::Dim;

/// Copies a graph with such loops in the bodies of its ops in ascending order.
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
        {
            ascending(&mut copy, body, node, scan)?;
        } else {
            copy.node(node, op)?;
        }
    }
    copy.finish()
}

/// Returns the greatest offset at which a step accesses a buffer.
fn reach_of(buffer: &Buffer) -> usize {
    buffer.reads.iter().chain(&buffer.writes).copied().max().unwrap_or(0)
}

/// Adds a loop in ascending order that computes the results of `scan`, a loop in descending order in the graph `types`.
fn ascending(copy: &mut GraphCopy<'_>, types: &Graph, node: &Node, scan: &Scan) -> Option<()> {
    let operands: Option<Vec<ValueId>> = node.inputs.iter().map(|input| copy.get(*input)).collect();
    let (mut operands, graph) = (operands?, &mut copy.graph);
    let mut push = |op: GraphOp, operand: &[ValueId]| graph.push_node(op, operand, node.site).ok();
    if scan.steps_operand {
        push(BindSize { size: scan.steps.as_symbol()?.clone() }.into(), &[operands.remove(0)])?;
    }
    let own = usize::from(scan.steps_operand);
    let rows = |operand: &ValueId| types.ty(*operand).shape.dims().first().cloned();
    let counted = Scan { steps_operand: false, reverse: false, ..scan.clone() };
    let places = counted.operands();
    let slice = |start: Dim, limit: Dim| Slice { axis: 0, start, limit, step: 1 }.into();
    for (sequence, operand) in scan.sequences.iter().zip(places.sequences) {
        // The step with index t reads row t + k. In the reversed rows, this is row t' + reach - k.
        let rows = push(slice(Dim::from(0), scan.steps.clone() + sequence.reach()), &[operands[operand]])?[0];
        operands[operand] = push(Reverse { axis: 0 }.into(), &[rows])?[0];
    }
    let mut beyond = vec![None; scan.buffers.len()];
    for (index, (buffer, operand)) in scan.buffers.iter().zip(places.buffers).enumerate() {
        let Some(operand) = operand else { continue };
        if buffer.start == Start::Full {
            // No step accesses the rows from `limit` on.
            let (limit, rows) = (scan.steps.clone() + reach_of(buffer), rows(&node.inputs[operand + own])?);
            beyond[index] = Some(push(slice(limit.clone(), rows), &[operands[operand]])?[0]);
            operands[operand] = push(slice(Dim::from(0), limit), &[operands[operand]])?[0];
        }
        operands[operand] = push(Reverse { axis: 0 }.into(), &[operands[operand]])?[0];
    }
    let sequences = scan.sequences.iter().map(|sequence| {
        let reach = sequence.reach();
        Sequence { reads: sequence.reads.iter().map(|read| reach - read).collect() }
    });
    let buffers = scan.buffers.iter().map(|buffer| {
        // The initial rows follow the trace. In the reversed rows, they precede it.
        let (first, returned) = match buffer.start {
            Start::Empty => (0, buffer.returned),
            Start::Given(given) => (given, buffer.returned),
            Start::Full => (reach_of(buffer), Returned::All),
        };
        let turned = |offsets: &[usize]| offsets.iter().map(|offset| first - offset).collect();
        Buffer { reads: turned(&buffer.reads), writes: turned(&buffer.writes), returned, ..buffer.clone() }
    });
    let turned = Scan { sequences: sequences.collect(), buffers: buffers.collect(), ..counted };
    let mut results = push(turned.into(), &operands)?.to_vec();
    for ((result, buffer), beyond) in results.iter_mut().zip(&scan.buffers).zip(beyond) {
        *result = push(Reverse { axis: 0 }.into(), &[*result])?[0];
        if let Some(beyond) = beyond {
            *result = push(Concat { axis: 0 }.into(), &[*result, beyond])?[0];
        }
        if let (Start::Full, Returned::Last(last)) = (buffer.start, buffer.returned) {
            *result = push(slice(Dim::from(0), Dim::from(last)), &[*result])?[0];
        }
    }
    node.outputs.iter().zip(results).for_each(|(output, result)| copy.set(*output, result));
    Some(())
}
