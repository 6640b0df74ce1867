//! Which values of a step the backward loop may take from a trace, beside values that it computes again.
//!
//! What is computed again may differ from what the forward loop had in its last bits, as a compiled loop rounds a product and
//! a sum once or twice by what else is in its program. Where the values only add up, that is as good. But an op that jumps
//! may tell such a value from one that it was equal to: the largest of some elements, read from the trace of a carry, would be
//! none of the elements, and the gradient would be lost. So an op that jumps has all its operands from the trace, or none;
//! and an extremum, whose rule looks for it among the elements, is at hand only with them.

use crate::graph::{Graph, Node, ValueId};
use crate::ops::{Binary, Op, ReduceKind, ScatterMode, Unary};

/// Those of the `candidates`, values after a step, that the backward loop may read beside those that are `saved`.
pub(super) fn at_hand(body: &Graph, mut candidates: Vec<ValueId>, saved: &[ValueId]) -> Vec<ValueId> {
    // Without one of them more is computed again, which may stand against others.
    loop {
        let given = [&candidates, saved].concat();
        let count = candidates.len();
        candidates.retain(|value| !jumps_beside(body, *value, &given));
        if candidates.len() == count {
            return candidates;
        }
    }
}

/// Whether an op that jumps has operands that are made of `value`, and operands that are computed again from others than
/// those `given`.
fn jumps_beside(body: &Graph, value: ValueId, given: &[ValueId]) -> bool {
    let count = body.values().count();
    let (mut of_value, mut again) = (vec![false; count], vec![false; count]);
    of_value[value.index()] = true;
    for node in body.nodes() {
        let any = |of: &[bool]| node.inputs.iter().any(|input| of[input.index()]);
        let (is_of_value, is_again) = (any(&of_value), any(&again));
        let is_found = node.outputs.contains(&value) && is_extremum(&node.op);
        if is_again && (is_found || (is_of_value && jumps(body, node))) {
            return true;
        }
        for output in node.outputs.iter().filter(|output| !given.contains(output)) {
            of_value[output.index()] = is_of_value;
            again[output.index()] = is_again || (!is_of_value && rounds(&node.op));
        }
    }
    false
}

/// Whether a rule compares the op's result with its operands.
fn is_extremum(op: &Op) -> bool {
    use ReduceKind::{Max, Min};
    match op {
        Op::Reduce(op) => matches!(op.kind, Max | Min),
        Op::Cumulative(op) => matches!(op.kind, Max | Min),
        Op::Scatter(op) => matches!(op.mode, ScatterMode::Max | ScatterMode::Min),
        _ => false,
    }
}

/// Whether the result of a node, or its derivative, jumps where operands change a little.
fn jumps(body: &Graph, node: &Node) -> bool {
    let is_float = |value: &ValueId| body.ty(*value).dtype.is_float();
    match &node.op {
        Op::Unary(op) => {
            matches!(op, Unary::Abs | Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc)
        }
        Op::Binary(op) => matches!(op, Binary::Max | Binary::Min | Binary::Rem | Binary::Copysign | Binary::Pow),
        Op::Reduce(_) | Op::Cumulative(_) | Op::Scatter(_) => is_extremum(&node.op),
        Op::NextAfter(_) | Op::Sort(_) => true,
        // Their steps and branches may have such an op.
        Op::Scan(_) | Op::Switch(_) | Op::While(_) | Op::AssociativeScan(_) | Op::Call(_) | Op::Custom(_) => true,
        _ => node.inputs.iter().any(is_float) && !node.outputs.iter().all(is_float),
    }
}

/// Whether an op computes something: elements in other places are the same elements.
fn rounds(op: &Op) -> bool {
    !matches!(
        op,
        Op::Broadcast(_)
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Slice(_)
            | Op::Reverse(_)
            | Op::Concat(_)
            | Op::Pad(_)
            | Op::Iota(_)
            | Op::Size(_)
            | Op::BindSize(_)
            | Op::Constant(_)
            | Op::DynamicSlice(_)
            | Op::Take(_)
            | Op::Gather(_)
            | Op::Threefry(_)
    )
}
