//! Removes ops that return one of their operands, bit for bit (XLA's algebraic simplifier, PyTensor's `local_useless`
//! rewrites).
//!
//! For every type, `x*1`, `x-0` and `x + -0` equal `x`. Other simplifications would change results: `x*0` is NaN if `x`
//! is infinite, `x+0` is 0 if `x` is -0, and the reference evaluator computes a sum over a single element `x` as `0 +
//! x`, which is 0 if `x` is -0.

use funcify_core::Scalar;
use funcify_core::graph::{ValueId, inline};
use funcify_core::ops::{Binary, Op, Unary};

use super::numbers::{is_additive_identity, is_one, is_zero};
use super::rule::{Patch, RewriteContext};

/// Replaces an op with one of its operands, if the op returns that operand unchanged.
pub(super) fn identity(context: &RewriteContext<'_>) -> Option<Patch> {
    match context.op {
        Op::Binary(op) => binary(context, *op),
        Op::Unary(op) => cancel_inverse(context, *op),
        Op::Select(_) => match context.splat(context.operands[0]) {
            _ if context.operands[1] == context.operands[2] => context.value(context.operands[1]),
            Some(condition) => context.value(context.operands[if condition.as_bool() { 1 } else { 2 }]),
            None => None,
        },
        Op::Cast(op) if op.dtype == context.ty(0).dtype => context.value(context.operands[0]),
        _ => None,
    }
}

fn binary(context: &RewriteContext<'_>, op: Binary) -> Option<Patch> {
    let [left, right]: [ValueId; 2] = context.operands.try_into().ok()?;
    let keeps: fn(Scalar) -> bool = match op {
        Binary::Mul | Binary::Div => is_one,
        Binary::Add => is_additive_identity,
        Binary::Sub => is_zero,
        Binary::And => |scalar| matches!(scalar, Scalar::Bool(true) | Scalar::Int(-1)),
        Binary::Or | Binary::Xor => |scalar| matches!(scalar, Scalar::Bool(false) | Scalar::Int(0)),
        Binary::Max | Binary::Min => |_| false,
        _ => return None,
    };
    let is_idempotent = matches!(op, Binary::And | Binary::Or | Binary::Max | Binary::Min);
    let commutes = !matches!(op, Binary::Div | Binary::Sub);
    if (left == right && is_idempotent) || context.splat(right).is_some_and(keeps) {
        return context.value(left);
    }
    context.value(right).filter(|_| commutes && context.splat(left).is_some_and(keeps))
}

/// Removes two successive applications of an op that is its own inverse.
fn cancel_inverse(context: &RewriteContext<'_>, op: Unary) -> Option<Patch> {
    let inner = context.node(context.operands[0]).filter(|_| matches!(op, Unary::Neg | Unary::Not))?;
    let is_same = matches!(&inner.op, Op::Unary(inner) if *inner == op);
    context.value(*inner.inputs.first()?).filter(|_| is_same)
}

/// Replaces a switch whose index is constant with the selected branch. A switch with a single branch is kept, because
/// it is a checkpoint: it makes the backward pass recompute the branch. If the selected branch binds a size symbol, the
/// switch is also kept, because the symbol's name could clash with a size that another branch binds.
pub(super) fn known_choice(context: &RewriteContext<'_>) -> Option<Patch> {
    let Op::Switch(switch) = context.op else { return None };
    let index = context.constant(context.operands[0]).filter(|_| switch.branches.len() > 1)?.get(0).as_i64();
    let chosen = switch.selected_branch(index);
    if switch.branches[chosen].binds_any() {
        return None;
    }
    let operands = &context.operands[switch.operands().get(chosen)?.clone()];
    context.build(operands, |values| inline(&switch.branches[chosen], values).ok())
}
