//! Moves reshapes of inputs and outputs out of a program: a contiguous tensor in row-major order has the same elements
//! in either shape, so the program can declare the shape that it needs.
//!
//! A program that divides a sequence into chunks starts with such a reshape, `[T, D]` to `[T/C, C, D]`. Inside the
//! program, it would hide the parallel axis `C`, because no axis of `[T, D]` corresponds to it.

use funcify_core::Graph;
use funcify_core::graph::{Node, Output, Source, ValueId, ValueMap};
use funcify_core::ops::Op;

/// Returns the program without the reshapes at its boundary, or `None` if it has none. The inputs and outputs keep
/// their positions and elements, but some have another shape:
///
/// - An input whose only uses are reshapes to one shape gets that shape.
/// - An output that a reshape computes has the shape of the reshape's operand instead.
pub(super) fn without_boundary_reshapes(graph: &Graph) -> Option<Graph> {
    let shapes = input_shapes(graph);
    let operand_of_reshape = |output: &Output| {
        let node = graph.node_of(output.value).filter(|node| is_reshape(node))?;
        graph.node_of(node.inputs[0]).map(|_| node.inputs[0])
    };
    if shapes.iter().all(Option::is_none) && graph.outputs().iter().all(|output| operand_of_reshape(output).is_none()) {
        return None;
    }
    let (mut copy, mut copied) = (Graph::new(graph.name()), ValueMap::new(graph));
    for (index, (input, shape)) in graph.inputs().iter().zip(&shapes).enumerate() {
        let ty = graph.ty(shape.unwrap_or(input.value)).clone();
        let id = copy.push_input(graph.input_name(index), ty, input.is_static);
        copied.set_named(&mut copy, input.value, id);
    }
    for node in graph.live() {
        let reshaped = node.inputs.first().and_then(|operand| input_index(graph, *operand));
        match reshaped.filter(|index| shapes[*index].is_some()).and_then(|_| copied.get(node.inputs[0])) {
            Some(input) => copied.set(node.outputs[0], input),
            None => copied.node(&mut copy, node, node.op.clone())?,
        }
    }
    let outputs = graph.outputs().iter().map(|output| {
        let value = copied.get(operand_of_reshape(output).unwrap_or(output.value))?;
        Some(Output { name: output.name.clone(), value })
    });
    Some(copy.with_outputs(outputs.collect::<Option<_>>()?))
}

/// Returns, for each input whose only uses are reshapes to one shape, the result of such a reshape.
fn input_shapes(graph: &Graph) -> Vec<Option<ValueId>> {
    let mut shapes = vec![None; graph.inputs().len()];
    let mut has_other_use: Vec<bool> = graph.inputs().iter().map(|input| input.is_static).collect();
    for node in graph.live() {
        for operand in &node.inputs {
            let Some(index) = input_index(graph, *operand) else { continue };
            let first = *shapes[index].get_or_insert(node.outputs.first().copied().unwrap_or(*operand));
            has_other_use[index] |= !is_reshape(node) || graph.ty(node.outputs[0]) != graph.ty(first);
        }
    }
    for index in graph.outputs().iter().filter_map(|output| input_index(graph, output.value)) {
        has_other_use[index] = true;
    }
    shapes.into_iter().zip(has_other_use).map(|(shape, is_used)| shape.filter(|_| !is_used)).collect()
}

/// Returns the index of the input that a value is, or `None` for the result of a node.
fn input_index(graph: &Graph, value: ValueId) -> Option<usize> {
    match graph.source(value) {
        Source::Input(index) => Some(index),
        Source::Node(..) => None,
    }
}

fn is_reshape(node: &Node) -> bool {
    matches!(node.op, Op::Reshape(_))
}
