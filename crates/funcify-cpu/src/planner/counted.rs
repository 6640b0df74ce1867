//! Turns loops whose number of steps follows from values into while loops that count their steps.
//!
//! An example is a triangular loop, in which an inner loop runs as many steps as the outer loop has already run. A plan
//! has memory for a known number of rows, so only loops without sequences and buffers are converted.

use std::sync::Arc;

use funcify_analysis::{Possible, Ranges};
use funcify_core::graph::{GraphCopy, Node, ValueId, ValueMap};
use funcify_core::ops::scan::Scan;
use funcify_core::ops::{Binary, Compare, Constant, Op, While};
use funcify_core::types::{Dim, Sizes, TensorType};
use funcify_core::{DType, Graph, HostTensor};

/// Converts each scan that an operand gives its number of steps, if the number is known to be 0 or more, nothing else
/// has this size, and the scan only has carries and invariants. Returns `None` if there is no such scan.
pub(super) fn with_while_loops(graph: &Graph, sizes: &Sizes) -> Option<Graph> {
    if !has_counted(graph) {
        return None;
    }
    let ranges = Ranges::find(graph, sizes, DType::F64, false);
    converted(graph, &ranges)
}

/// Returns `true` if a scan of the graph, or of a body in it, only has carries and invariants, and an operand gives it
/// its number of steps.
fn has_counted(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| match &node.op {
        Op::Scan(scan) if is_counted(scan) => true,
        op => op.bodies().into_iter().any(|body| has_counted(body)),
    })
}

fn is_counted(scan: &Scan) -> bool {
    scan.steps_operand && scan.until.is_none() && scan.sequences.is_empty() && scan.buffers.is_empty()
}

/// Returns `true` if the size that `scan`, the op of `node`, binds to its number of steps also occurs elsewhere: in a type,
/// in another op, or in a body.
fn is_size_elsewhere(graph: &Graph, node: &Node, scan: &Scan) -> bool {
    let Some(steps) = scan.steps.as_symbol() else { return true };
    let (dims, mut all) = (node.op.own_dims(), 0);
    let own = dims.iter().flat_map(Dim::symbols).chain(node.op.binds()).filter(|symbol| *symbol == steps).count();
    graph.visit_symbols(&mut |symbol| all += usize::from(symbol == steps));
    all > own
}

fn converted(graph: &Graph, ranges: &Ranges) -> Option<Graph> {
    let mut copy = GraphCopy::with_inputs_of(graph);
    for node in graph.nodes() {
        match &node.op {
            Op::Scan(scan)
                if is_counted(scan)
                    && !is_size_elsewhere(graph, node, scan)
                    && is_at_least_zero(graph, node.inputs[0], ranges) =>
            {
                let body = converted(&scan.body, ranges)?;
                push_while(&mut copy, graph, node, &body)?;
            }
            op if op.bodies().into_iter().any(|body| has_counted(body)) => {
                let bodies = op.bodies().into_iter().map(|body| converted(body, ranges).map(Arc::new));
                copy.node(node, op.with_bodies(bodies.collect::<Option<_>>()?))?;
            }
            op => copy.node(node, op.clone())?,
        }
    }
    copy.finish()
}

/// Returns `true` if an integer is known to be 0 or more: by its range, or because it is the difference `max(x, y) - y`,
/// with which `fori_loop` computes its number of steps.
fn is_at_least_zero(graph: &Graph, number: ValueId, ranges: &Ranges) -> bool {
    let is_difference = || {
        let Some((Op::Binary(Binary::Sub), [greater, lower])) = binary(graph, number) else { return false };
        let Some((Op::Binary(Binary::Max), operands)) = binary(graph, greater) else { return false };
        operands.contains(&lower)
    };
    match ranges.of(graph, number) {
        Possible::Nothing => true,
        Possible::Within(low, _) => low >= 0 || is_difference(),
        // The difference may overflow.
        Possible::Anything => false,
    }
}

/// Returns the op that computes a value, and its operands, if there are two.
fn binary(graph: &Graph, value: ValueId) -> Option<(&Op, [ValueId; 2])> {
    let node = graph.node_of(value)?;
    Some((&node.op, node.inputs[..].try_into().ok()?))
}

/// Adds a while loop that runs `body`, the body of the scan `node`, as often as the scan does. Its first carry counts
/// the steps.
fn push_while(copy: &mut GraphCopy<'_>, graph: &Graph, node: &Node, body: &Graph) -> Option<()> {
    let steps = copy.get(node.inputs[0])?;
    let count = graph.ty(node.inputs[0]).clone();
    let zero = push_number(&mut copy.graph, &count, 0, node)?;
    let Op::Scan(scan) = &node.op else { return None };
    let carries = 0..scan.carries;

    let mut condition = Graph::new("condition");
    let counted = condition.push_input("count", count.clone(), false);
    for index in carries.clone() {
        condition.push_input(body.input_name(index), body.input_type(index).clone(), false);
    }
    let limit = condition.push_input("steps", count.clone(), false);
    let holds = condition.push_node(Compare::Lt.into(), &[counted, limit], node.site).ok()?;
    condition.push_output("holds", holds[0]);

    let (mut step, mut copied) = (Graph::new(body.name()), ValueMap::new(body));
    let counted = step.push_input("count", count.clone(), false);
    for (index, input) in body.inputs().iter().enumerate() {
        copied.input(&mut step, input.value, body.input_name(index));
    }
    for node in body.nodes() {
        copied.node(&mut step, node, node.op.clone())?;
    }
    let one = push_number(&mut step, &count, 1, node)?;
    let next = step.push_node(Binary::Add.into(), &[counted, one], node.site).ok()?;
    step.push_output("count", next[0]);
    copied.outputs(&mut step)?;

    let operands = node.inputs[1..].iter().map(|input| copy.get(*input)).collect::<Option<Vec<ValueId>>>()?;
    let (initial, captured) = operands.split_at(scan.carries);
    let operands = [&[zero], initial, &[steps], captured].concat();
    let op = While { condition: Arc::new(condition), body: Arc::new(step), bound: None };
    let results = copy.graph.push_node(op.into(), &operands, node.site).ok()?;
    for (output, result) in node.outputs.iter().zip(&results[1..]) {
        copy.set(*output, *result);
    }
    Some(())
}

/// Adds a constant of type `ty`, which must be a scalar integer type.
fn push_number(graph: &mut Graph, ty: &TensorType, number: i64, node: &Node) -> Option<ValueId> {
    let value = Arc::new(HostTensor::scalar(number).cast(ty.dtype));
    Some(graph.push_node(Constant { value }.into(), &[], node.site).ok()?[0])
}
