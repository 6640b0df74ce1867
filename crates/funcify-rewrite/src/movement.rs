//! Merges two successive ops of the same kind that only move elements, and removes ops that move nothing (XLA's
//! algebraic simplifier, tract's `axis_op`).
//!
//! Merging removes the first op, so the first op must not be able to fail (rewrite-c3). An op that moves elements fails
//! if a size of its result is negative for the arguments of a call.

use funcify_core::ops::{Broadcast, Movement, Op, OpClass, Reshape, Transpose};
use funcify_core::types::{Dim, Shape, TensorType};

use super::rule::{Patch, RewriteContext};

/// Removes an op that moves nothing, or merges two successive ops of the same kind that only move elements.
pub(super) fn movement(context: &RewriteContext<'_>) -> Option<Patch> {
    let source = *context.operands.first()?;
    if moves_nothing(context.op, context.ty(0)) || (context.operands.len() == 1 && matches!(context.op, Op::Concat(_)))
    {
        return context.value(source);
    }
    if let Op::Transpose(op) = context.op
        && let Some(shape) = only_ones_move(op, &context.ty(0).shape)
    {
        return context.one_op(Reshape { shape }, &[source]);
    }
    let before = context.node(source)?;
    let origin = *before.inputs.first()?;
    let merged: Op = match (&before.op, context.op) {
        (Op::Transpose(first), Op::Transpose(second)) => {
            Transpose { axes: second.axes.iter().map(|axis| first.axes[*axis]).collect() }.into()
        }
        (Op::Reshape(_), Op::Reshape(second)) => Reshape { shape: second.shape.clone() }.into(),
        (Op::Broadcast(_), Op::Broadcast(second)) => Broadcast { shape: second.shape.clone() }.into(),
        (Op::Reverse(first), Op::Reverse(second)) if first.axis == second.axis => return context.value(origin),
        _ => return None,
    };
    if !context.is_certain(source) {
        return None;
    }
    match moves_nothing(&merged, context.graph.ty(origin)) {
        true => context.value(origin),
        false => context.one_op(merged, &[origin]),
    }
}

/// Returns the shape of the result if a transpose changes only the positions of axes of size 1, and can therefore be
/// replaced by a reshape. Returns `None` for any other transpose.
fn only_ones_move(op: &Transpose, from: &Shape) -> Option<Shape> {
    let others = op.axes.iter().filter(|axis| from[**axis].constant() != Some(1));
    others.is_sorted().then(|| Shape::new(op.axes.iter().map(|axis| &from[*axis])))
}

fn moves_nothing(op: &Op, from: &TensorType) -> bool {
    let shape = &from.shape;
    let OpClass::Movement(op) = op.class() else { return false };
    match op {
        Movement::Transpose(op) => op.axes.iter().enumerate().all(|(to, from)| to == *from),
        Movement::Reshape(op) => op.shape == *shape,
        Movement::Broadcast(op) => op.shape == *shape,
        Movement::Slice(op) => op.start == Dim::from(0) && op.limit == shape[op.axis] && op.step == 1,
        Movement::Pad(op) => op.low == Dim::from(0) && op.high == Dim::from(0) && op.interior == 0,
        // A `concat` of a single operand moves nothing either, but `movement` itself removes it.
        Movement::Concat(_) | Movement::Reverse(_) | Movement::Bitcast(_) => false,
    }
}
