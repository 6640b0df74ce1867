//! Moves reshapes of inputs and outputs out of a program: a contiguous tensor in row-major order has the same elements
//! in either shape, so the program can declare the shape that it needs.
//!
//! A program that divides a sequence into chunks starts with such a reshape, `[T, D]` to `[T/C, C, D]`. Inside the
//! program, it would hide the parallel axis `C`, because no axis of `[T, D]` corresponds to it.

use funcify_core::Graph;
use funcify_core::graph::{Node, Output, ValueId, ValueMap};
use funcify_core::ops::Op;

/// Returns the program without the reshapes at its boundary, or `None` if it has none. The inputs and outputs keep
/// their positions and elements, but some have another shape:
///
/// - An input whose only uses are reshapes to one shape gets that shape.
/// - An output that a reshape computes has the shape of the reshape's operand instead.
pub(super) fn without_boundary_reshapes(graph: &Graph) -> Option<Graph> {
    let live = graph.live_nodes();
    let readers = |value: ValueId| {
        let nodes = graph.nodes().iter().zip(&live).filter(|(_, live)| **live).map(|(node, _)| node);
        nodes.filter(move |node| node.inputs.contains(&value))
    };
    let (mut copy, mut copied) = (Graph::new(graph.name()), ValueMap::new(graph));
    let mut is_changed = false;
    for (index, input) in graph.inputs().iter().enumerate() {
        let is_output = graph.outputs().iter().any(|output| output.value == input.value);
        let reshaped = match is_output || input.is_static {
            true => None,
            false => only_shape(graph, readers(input.value)),
        };
        let ty = reshaped.map_or(graph.ty(input.value), |result| graph.ty(result));
        is_changed |= reshaped.is_some();
        let id = copy.push_input(graph.input_name(index), ty.clone(), input.is_static);
        copied.set_named(&mut copy, input.value, id);
        readers(input.value).filter(|_| reshaped.is_some()).for_each(|node| copied.set(node.outputs[0], id));
    }
    for (node, _) in graph.nodes().iter().zip(&live).filter(|(_, live)| **live) {
        if node.outputs.iter().all(|output| copied.get(*output).is_none()) {
            copied.node(&mut copy, node, node.op.clone())?;
        }
    }
    let mut outputs = Vec::with_capacity(graph.outputs().len());
    for output in graph.outputs() {
        let operand = graph.node_of(output.value).filter(|node| is_reshape(node)).map(|node| node.inputs[0]);
        let operand = operand.filter(|operand| graph.node_of(*operand).is_some());
        is_changed |= operand.is_some();
        outputs.push(Output { name: output.name.clone(), value: copied.get(operand.unwrap_or(output.value))? });
    }
    is_changed.then(|| copy.with_outputs(outputs))
}

fn is_reshape(node: &Node) -> bool {
    matches!(node.op, Op::Reshape(_))
}

/// Returns the result of the first reader if all readers are reshapes whose results have the same type.
fn only_shape<'g>(graph: &Graph, mut readers: impl Iterator<Item = &'g Node>) -> Option<ValueId> {
    let first = readers.next().filter(|node| is_reshape(node))?.outputs[0];
    readers.all(|node| is_reshape(node) && graph.ty(node.outputs[0]) == graph.ty(first)).then_some(first)
}
