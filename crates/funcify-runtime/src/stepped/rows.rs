//! Propagates rows of steps through ops that keep no state: determines which ops act on each row alone, and where the
//! rows of their results lie.

use funcify_core::ops::{Creation, Indexing, Movement, Product};

use super::time::{Label, RowLayout, Time};
use super::*;

/// The reason why an op has no single-step form, and a fix.
pub(super) struct Refused {
    pub(super) reason: &'static str,
    pub(super) fix: &'static str,
}

/// Returns the rows of the results of an op that acts on each row alone; `None` if it does not, or is not known to.
pub(super) fn results(time: &Time, graph: &Graph, node: &Node, labels: &[Label]) -> Option<Vec<RowLayout>> {
    let shape = |index: usize| &graph.ty(node.inputs[index]).shape;
    let rows = |index: usize| match labels.get(index) {
        Some(Label::Rows(rows)) => Some(rows),
        _ => None,
    };
    let result = &graph.ty(*node.outputs.first()?).shape;
    let is_fixed = |index: usize| labels.get(index) == Some(&Label::Fixed);
    let one = match node.op.class() {
        OpClass::Elementwise(_) => all_equal(labels)?,
        OpClass::Movement(Movement::Reshape(_) | Movement::Bitcast(_)) => rows(0)?.clone(),
        OpClass::Movement(Movement::Broadcast(_)) if is_fixed(0) => repeated(time, result)?,
        OpClass::Movement(Movement::Broadcast(_)) => {
            let axis = rows(0)?.axis(shape(0))?;
            let repeated = RowLayout::of(result, axis + result.rank() - shape(0).rank());
            (repeated.rows == rows(0)?.rows && is_once(time, result)).then_some(repeated)?
        }
        OpClass::Product(Product::Conv(op)) if is_fixed(1) && rows(0)?.axis(shape(0))? >= 2 => {
            // A window sees as many positions as there are for one step.
            let axis = rows(0)?.axis(shape(0))?;
            let is = |dims: &[funcify_core::types::Dim]| dims[axis - 2].constant() == Some(0);
            let slides = op.strides[axis - 2] == 1 && op.input_dilation[axis - 2] == 1;
            (slides && is(&op.low) && is(&op.high)).then(|| RowLayout::of(result, axis))?
        }
        OpClass::Movement(_) | OpClass::Indexing(_) | OpClass::Along(_) => by_lanes(time, graph, node, labels)?,
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Custom(_) => by_lanes(time, graph, node, labels)?,
        // These ops may depend on the number of steps, and bodies see the rows of all steps.
        OpClass::Creation(_) | OpClass::Binding(_) | OpClass::Control(_) => return None,
    };
    Some(vec![one; node.outputs.len()])
}

/// Returns the rows of an op whose operands have their rows along the axes that hold the lanes of an axis of the
/// result; operands without rows are the same in each step.
fn by_lanes(time: &Time, graph: &Graph, node: &Node, labels: &[Label]) -> Option<RowLayout> {
    let (operands, results) = (graph.types(&node.inputs), graph.types(&node.outputs));
    let (operands, results): (Vec<_>, Vec<_>) = (operands.iter().collect(), results.iter().collect());
    let result = &results[0].shape;
    (0..result.rank()).find_map(|axis| {
        let mut found = None;
        let lanes = node.op.lanes_along(axis, &operands, &results)?;
        for ((label, lane), ty) in labels.iter().zip(lanes).zip(&operands) {
            match (label, lane) {
                (Label::Fixed, None) => {}
                (Label::Rows(rows), Some(from)) if rows.within(time, &ty.shape) == Some(from) => {
                    let moved = rows.moved((&ty.shape, from), (result, axis))?;
                    if *found.get_or_insert_with(|| moved.clone()) != moved {
                        return None;
                    }
                }
                (Label::Fixed | Label::Rows(_) | Label::Now, _) => return None,
            }
        }
        found
    })
}

/// Returns the reason for an op that [`results`] does not support.
pub(super) fn refused(op: &Op, has_now: bool) -> Refused {
    let unknown = ("it is not known to act on each step alone", "move it into the step of the loop");
    let choice = (
        "it selects rows from all steps",
        "slice from a constant row to the end, or take the slice before the program",
    );
    let (reason, fix) = match op.class() {
        _ if has_now => (
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
    };
    Refused { reason, fix }
}

/// Returns the rows that all operands share.
fn all_equal(labels: &[Label]) -> Option<RowLayout> {
    match labels.first()? {
        Label::Rows(rows) if labels.iter().all(|label| *label == Label::Rows(rows.clone())) => Some(rows.clone()),
        _ => None,
    }
}

/// Returns the layout of rows that are all the same.
fn repeated(time: &Time, shape: &Shape) -> Option<RowLayout> {
    let axis = (0..shape.rank()).find(|axis| time.is_in(&shape[*axis]))?;
    (time.counts(&shape[axis]) && is_once(time, shape)).then(|| RowLayout::of(shape, axis))
}

/// Returns whether exactly one axis depends on the number of steps.
fn is_once(time: &Time, shape: &Shape) -> bool {
    shape.dims().iter().filter(|dim| time.is_in(dim)).count() == 1
}
