//! How rows of steps go through ops that keep nothing from step to step: which ops act on each row alone, and where the
//! rows of their results lie.

use funcify_core::graph::{Graph, Node};
use funcify_core::ops::Op;
use funcify_core::types::Shape;

use super::time::{Label, Rows, Time};

/// Why an op is not one step at a time, and what to do about it.
pub(super) struct Refused {
    pub(super) reason: &'static str,
    pub(super) fix: &'static str,
}

/// What an op gives that acts on each row alone; `None` if it does not, or is not known to.
pub(super) fn results(time: &Time, graph: &Graph, node: &Node, labels: &[Label]) -> Option<Vec<Rows>> {
    let shape = |index: usize| &graph.ty(node.inputs[index]).shape;
    let rows = |index: usize| match labels.get(index) {
        Some(Label::Rows(rows)) => Some(rows),
        _ => None,
    };
    let within = |index: usize| rows(index)?.within(time, shape(index));
    let result = &graph.ty(*node.outputs.first()?).shape;
    let is_fixed = |index: usize| labels.get(index) == Some(&Label::Fixed);
    // Where one axis of operand 0 becomes one of the result.
    let moved = |from: usize, to: usize| rows(0)?.moved((shape(0), from), (result, to));
    let beside = |axis: usize| within(0).filter(|of_rows| *of_rows != axis);
    let one = match &node.op {
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Bits(_)
        | Op::Compare(_)
        | Op::Predicate(_)
        | Op::Select(_)
        | Op::Cast(_)
        | Op::NextAfter(_)
        | Op::Polygamma(_) => all_equal(labels)?,
        Op::Bitcast(_) if shape(0) == result => rows(0)?.clone(),
        Op::Reshape(_) => rows(0)?.clone(),
        Op::Broadcast(_) if is_fixed(0) => repeated(time, result)?,
        Op::Broadcast(_) => {
            let axis = rows(0)?.axis(shape(0))?;
            let repeated = Rows::of(result, axis + result.rank() - shape(0).rank());
            (repeated.rows == rows(0)?.rows && is_once(time, result)).then_some(repeated)?
        }
        Op::Transpose(op) => {
            let axis = within(0)?;
            moved(axis, op.axes.iter().position(|of| *of == axis)?)?
        }
        Op::Slice(op) => beside(op.axis).and_then(|axis| moved(axis, axis))?,
        Op::Pad(op) if is_fixed(1) => beside(op.axis).and_then(|axis| moved(axis, axis))?,
        Op::Reverse(op) => beside(op.axis).and_then(|axis| moved(axis, axis))?,
        Op::Concat(op) => {
            let axis = beside(op.axis)?;
            let of_part = |index: usize| rows(index)?.moved((shape(index), axis), (result, axis));
            let first = of_part(0)?;
            let are_equal =
                (0..labels.len()).all(|part| within(part) == Some(axis) && of_part(part).as_ref() == Some(&first));
            are_equal.then_some(first)?
        }
        Op::Reduce(op) => {
            let axis = within(0).filter(|axis| !op.axes.contains(axis))?;
            moved(axis, axis - op.axes.iter().filter(|reduced| **reduced < axis).count())?
        }
        Op::ArgMax(op) => beside(op.axis).and_then(|axis| moved(axis, axis - usize::from(op.axis < axis)))?,
        Op::Cumulative(op) => beside(op.axis).and_then(|axis| moved(axis, axis))?,
        Op::Sort(op) => beside(op.axis).and_then(|axis| moved(axis, axis))?,
        Op::DynamicSlice(op) if is_fixed(1) => beside(op.axis).and_then(|axis| moved(axis, axis))?,
        Op::MatMul(_) => product(time, [labels.first()?, labels.get(1)?], [shape(0), shape(1)], result)?,
        Op::Take(op) if is_fixed(0) => {
            let axis = within(1)?;
            rows(1)?.moved((shape(1), axis), (result, op.axis + axis))?
        }
        Op::Take(op) if is_fixed(1) => {
            let axis = beside(op.axis)?;
            moved(axis, if axis < op.axis { axis } else { axis + shape(1).rank() - 1 })?
        }
        Op::Gather(_) if is_fixed(0) => rows(1)?.clone(),
        Op::Gather(op) => {
            let axis = beside(op.axis).filter(|axis| within(1) == Some(*axis))?;
            let indices = rows(1)?.moved((shape(1), axis), (result, axis));
            moved(axis, axis).filter(|rows| indices.as_ref() == Some(rows))?
        }
        // The operand's lanes, or its positions, of which a window sees as many as there are for one step.
        Op::Conv(op) if is_fixed(1) => match rows(0)?.axis(shape(0))? {
            0 => moved(0, 0)?,
            1 => return None,
            axis => {
                let is = |dims: &[funcify_core::types::Dim]| dims[axis - 2].constant() == Some(0);
                let slides = op.strides[axis - 2] == 1 && op.input_dilation[axis - 2] == 1;
                (slides && is(&op.low) && is(&op.high)).then(|| Rows::of(result, axis))?
            }
        },
        Op::Threefry(_) => {
            let axis = within(0).filter(|axis| *axis + 1 < shape(0).rank() && within(1) == Some(*axis))?;
            moved(axis, axis).filter(|_| rows(0) == rows(1))?
        }
        _ => return None,
    };
    Some(vec![one; node.outputs.len()])
}

/// What stands in the way of an op that [`results`] does not know.
pub(super) fn refused(op: &Op, has_now: bool) -> Refused {
    let (reason, fix) = match op {
        _ if has_now => (
            "each of its rows would need what the loop gives after its last step",
            "use what a step has in that step, or leave this to a program of its own, after the last step",
        ),
        Op::Reduce(_) | Op::ArgMax(_) | Op::Sort(_) => {
            ("it works over all steps at once", "keep what it needs in a carry of the loop, or go over another axis")
        }
        Op::Iota(_) | Op::Size(_) => (
            "it depends on the number of steps, or on which step it is",
            "give it as a sequence, or count in a carry of the loop",
        ),
        Op::Slice(_) | Op::DynamicSlice(_) => (
            "its rows are chosen among all steps",
            "slice from a fixed number of rows on, to the end, or make the slice before the program",
        ),
        Op::Reverse(_) => ("it puts the steps in another order", "reverse the sequence before the program"),
        Op::Pad(_) | Op::Concat(_) | Op::Conv(_) => (
            "it needs rows of steps that come later, or puts rows behind the last step",
            "put all of the rows that it adds before the first step: `pad(axis, rows, 0, number)`",
        ),
        Op::MatMul(_) => ("it sums over steps, or has the steps in both operands", "go over the steps in a loop"),
        op if !op.bodies().is_empty() => {
            ("its steps or its branches see the rows of all steps", "put it into the step of the loop")
        }
        _ => ("it is not known to act on each step alone", "put it into the step of the loop"),
    };
    Refused { reason, fix }
}

/// The rows that all operands have.
fn all_equal(labels: &[Label]) -> Option<Rows> {
    match labels.first()? {
        Label::Rows(rows) if labels.iter().all(|label| *label == Label::Rows(rows.clone())) => Some(rows.clone()),
        _ => None,
    }
}

/// Rows that are all the same.
fn repeated(time: &Time, shape: &Shape) -> Option<Rows> {
    let axis = (0..shape.rank()).find(|axis| time.is_in(&shape[*axis]))?;
    (time.counts(&shape[axis]) && is_once(time, shape)).then(|| Rows::of(shape, axis))
}

/// Whether one axis only depends on the number of steps.
fn is_once(time: &Time, shape: &Shape) -> bool {
    shape.dims().iter().filter(|dim| time.is_in(dim)).count() == 1
}

/// Products of matrices with steps among their lanes, or along what is left of one operand.
fn product(time: &Time, labels: [&Label; 2], shapes: [&Shape; 2], result: &Shape) -> Option<Rows> {
    let rank = result.rank();
    let within = |index: usize| match labels[index] {
        Label::Rows(rows) => Some((rows, rows.within(time, shapes[index])?)),
        _ => None,
    };
    match labels {
        [Label::Rows(left), Label::Rows(right)] => {
            let ((_, axis), (_, other)) = (within(0)?, within(1)?);
            (axis == other && axis + 2 < rank && left == right).then(|| left.clone())
        }
        [Label::Rows(_), Label::Fixed] => {
            let (rows, axis) = within(0).filter(|(_, axis)| axis + 1 < rank)?;
            rows.moved((shapes[0], axis), (result, axis))
        }
        [Label::Fixed, Label::Rows(_)] => {
            let (rows, axis) = within(1).filter(|(_, axis)| axis + 1 == rank)?;
            rows.moved((shapes[1], axis), (result, axis))
        }
        _ => None,
    }
}
