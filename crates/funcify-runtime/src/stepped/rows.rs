//! Propagates rows through stateless ops: determines which ops act on each row independently, and the layout of the
//! rows in their results.

use funcify_core::ops::{Creation, Indexing, Movement, Product};

use super::time::{Label, RowLayout, Time};
use super::*;

/// Returns the layout of the rows in each result of an op that acts on each row independently. Returns `None` for all
/// other ops.
pub(super) fn result_rows(time: &Time, graph: &Graph, node: &Node, labels: &[Label]) -> Option<Vec<RowLayout>> {
    let shape = |index: usize| &graph.ty(node.inputs[index]).shape;
    let rows = |index: usize| match labels.get(index) {
        Some(Label::Rows(rows)) => Some(rows),
        _ => None,
    };
    let result = &graph.ty(*node.outputs.first()?).shape;
    let is_fixed = |index: usize| labels.get(index) == Some(&Label::Fixed);
    let one = match node.op.class() {
        OpClass::Elementwise(_) => common_rows(labels)?,
        OpClass::Movement(Movement::Reshape(_) | Movement::Bitcast(_)) => rows(0)?.clone(),
        OpClass::Movement(Movement::Broadcast(_)) if is_fixed(0) => repeated_rows(time, result)?,
        OpClass::Movement(Movement::Broadcast(_)) => {
            let axis = rows(0)?.axis(shape(0))?;
            let repeated = RowLayout::of(result, axis + result.rank() - shape(0).rank());
            (repeated.rows == rows(0)?.rows && has_one_step_axis(time, result)).then_some(repeated)?
        }
        OpClass::Product(Product::Conv(op)) if is_fixed(1) && rows(0)?.axis(shape(0))? >= 2 => {
            // With stride 1, no input dilation and no padding, each row of the result depends on a fixed window of
            // rows.
            let axis = rows(0)?.axis(shape(0))?;
            let is = |dims: &[funcify_core::types::Dim]| dims[axis - 2].constant() == Some(0);
            let slides = op.strides[axis - 2] == 1 && op.input_dilation[axis - 2] == 1;
            (slides && is(&op.low) && is(&op.high)).then(|| RowLayout::of(result, axis))?
        }
        OpClass::Movement(_) | OpClass::Indexing(_) | OpClass::Along(_) => rows_by_lanes(time, graph, node, labels)?,
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Custom(_) => rows_by_lanes(time, graph, node, labels)?,
        // These ops may depend on the number of steps, or have bodies that see the rows of all steps.
        OpClass::Creation(_) | OpClass::Binding(_) | OpClass::Control(_) => return None,
    };
    Some(vec![one; node.outputs.len()])
}

/// Returns the layout of the rows in the result of an op that acts on each lane of an axis independently. Returns
/// `None` unless the rows of all operands become rows along the same axis of the result. Operands without lanes must be
/// the same in each step.
fn rows_by_lanes(time: &Time, graph: &Graph, node: &Node, labels: &[Label]) -> Option<RowLayout> {
    let (operands, results) = (graph.types(&node.inputs), graph.types(&node.outputs));
    let (operands, results): (Vec<_>, Vec<_>) = (operands.iter().collect(), results.iter().collect());
    let result = &results[0].shape;
    (0..result.rank()).find_map(|axis| {
        let mut found = None;
        let lanes = node.op.lanes_along(axis, &operands, &results)?;
        for ((label, lane), ty) in labels.iter().zip(lanes).zip(&operands) {
            match (label, lane) {
                (Label::Fixed, None) => {}
                (Label::Rows(rows), Some(from)) if rows.containing_axis(time, &ty.shape) == Some(from) => {
                    let moved = rows.after_move((&ty.shape, from), (result, axis))?;
                    if *found.get_or_insert_with(|| moved.clone()) != moved {
                        return None;
                    }
                }
                (Label::Fixed | Label::Rows(_) | Label::Latest, _) => return None,
            }
        }
        found
    })
}

/// Explains why an op that [`result_rows`] rejects has no single-step form, and suggests a fix. `has_latest` is `true`
/// if an operand has the label `Latest`.
pub(super) fn reason_and_fix(op: &Op, has_latest: bool) -> (&'static str, &'static str) {
    let unknown = ("it is not known to act on each step alone", "move it into the step of the loop");
    let choice = (
        "it selects rows from all steps",
        "slice from a constant row to the end, or take the slice before the program",
    );
    match op.class() {
        _ if has_latest => (
            "each of its rows would need the result of the loop after its last step",
            "use the value inside the step, or move this to a separate program that runs after the last step",
        ),
        OpClass::Along(Along::Reduce(_) | Along::ArgMax(_) | Along::Sort(_)) => {
            ("it works over all steps at once", "keep what it needs in a carry of the loop, or use another axis")
        }
        OpClass::Creation(Creation::Iota(_) | Creation::Size(_)) => (
            "it depends on the number of steps, or on the index of the step",
            "pass it as a sequence, or count in a carry of the loop",
        ),
        OpClass::Movement(Movement::Slice(_)) | OpClass::Indexing(Indexing::DynamicSlice(_)) => choice,
        OpClass::Movement(Movement::Reverse(_)) => ("it reorders the steps", "reverse the sequence before the program"),
        OpClass::Movement(Movement::Pad(_) | Movement::Concat(_)) | OpClass::Product(Product::Conv(_)) => (
            "it needs rows of later steps, or adds rows after the last step",
            "add all new rows before the first step: `pad(axis, rows, 0, number)`",
        ),
        OpClass::Product(Product::MatMul(_)) => {
            ("it sums over steps, or has the steps in both operands", "iterate over the steps in a loop")
        }
        OpClass::Control(_) => {
            ("its steps or its branches see the rows of all steps", "move it into the step of the loop")
        }
        OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) => unknown,
        OpClass::Along(_) | OpClass::RandomBits(_) | OpClass::Binding(_) | OpClass::Custom(_) => unknown,
    }
}

/// Returns the layout of the rows if all operands have rows with the same layout, and `None` otherwise.
fn common_rows(labels: &[Label]) -> Option<RowLayout> {
    match labels.first()? {
        Label::Rows(rows) if labels.iter().all(|label| *label == Label::Rows(rows.clone())) => Some(rows.clone()),
        _ => None,
    }
}

/// Returns the layout of the rows in the result of broadcasting a fixed value to `shape`. All rows are equal. Returns
/// `None` unless exactly one axis of `shape` depends on the number of steps, and its size is the symbol that counts the
/// steps, plus a constant.
fn repeated_rows(time: &Time, shape: &Shape) -> Option<RowLayout> {
    let axis = (0..shape.rank()).find(|axis| time.is_in(&shape[*axis]))?;
    (time.counts_steps(&shape[axis]) && has_one_step_axis(time, shape)).then(|| RowLayout::of(shape, axis))
}

/// Returns `true` if exactly one axis of a shape depends on the number of steps.
fn has_one_step_axis(time: &Time, shape: &Shape) -> bool {
    shape.dims().iter().filter(|dim| time.is_in(dim)).count() == 1
}
