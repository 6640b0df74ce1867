//! Moves the padding of sums over steps out of the loop. For example, if each step of a loop reads the elements of `w`
//! one by one, then each step of the backward loop pads one scalar per element of `w` to the shape of `w`, and adds the
//! padded values to a carry. This rule lets each step add scalars, and pads the final sums after the loop.
//!
//! If a carry starts at zero, each step adds only values that are padded with zeros, and nothing else reads the carry,
//! then a separate carry accumulates each value before padding. The final values are padded and added after the loop.
//!
//! Precondition: as in [`sink`](super::sink), the carry is an integer, or a float that is known to start at 0.
//! Together, the new carries have at most [`MAX_GROWTH`] times as many elements as the old carry. Floats are summed in
//! a different order.

use funcify_core::graph::emit_value;
use funcify_core::ops::{Movement, OpClass};
use funcify_core::types::{Shape, TensorType};

use super::sink::{addends, is_certain_value, split_addend};
use super::*;
use crate::numbers::{is_zero, splat};

/// The limit on the total number of elements of the new carries, as a multiple of the number of elements of the old
/// carry.
const MAX_GROWTH: i64 = 2;

/// A value before padding, and the ops that pad it to the shape of a carry, outermost first.
struct Padded {
    value: ValueId,
    moves: Vec<Op>,
}

/// Replaces carries that accumulate padded values with carries that accumulate the values before padding.
pub(crate) fn padded_sums(context: &RewriteContext<'_>) -> Option<Patch> {
    let scan = whole_loop(context).filter(|scan| !scan.body.binds_any())?;
    let sums: Vec<Option<Vec<Padded>>> = (0..scan.carries).map(|carry| padded(context, scan, carry)).collect();
    if sums.iter().all(Option::is_none) {
        return None;
    }
    context.build(context.operands, |operands| emit_padded_after(scan, &sums, operands))
}

/// Returns the values that each step pads and adds to a carry, or `None` if the rule does not apply to the carry.
fn padded(context: &RewriteContext<'_>, scan: &Scan, carry: usize) -> Option<Vec<Padded>> {
    let body = &scan.body;
    let (param, next) = (scan.params().carries.start + carry, scan.results().carries.start + carry);
    let (param, next) = (body.inputs()[param].value, body.outputs()[next].value);
    let start = context.operands[scan.operands().carries.start + carry];
    let ty = body.ty(param);
    if !(ty.dtype.is_int() || context.splat(start).is_some_and(is_zero)) {
        return None;
    }
    let uses = uses(body);
    let mut values = Vec::new();
    for addend in addends(body, &uses, next, param, 0)? {
        split_addend(body, &uses, addend, &mut values);
    }
    let sum = values.into_iter().map(|value| unpadded(body, value)).collect::<Option<Vec<Padded>>>()?;
    let elements = |ty: &TensorType| ty.shape.dims().iter().try_fold(1, |product, dim| Some(product * dim.constant()?));
    let all = sum.iter().try_fold(0, |all, padded| Some(all + elements(body.ty(padded.value))?))?;
    (!sum.is_empty() && all <= MAX_GROWTH * elements(ty)?).then_some(sum)
}

/// Strips the ops that pad a value with zeros or move its elements. Returns `None` if no op pads the value.
fn unpadded(body: &Graph, mut value: ValueId) -> Option<Padded> {
    let mut moves = Vec::new();
    while let Some((op, operands)) = defining_op(body, value).filter(|_| moves_terms(body, value)) {
        moves.push(op.clone());
        value = operands[0];
    }
    moves.iter().any(|op| matches!(op, Op::Pad(_))).then_some(Padded { value, moves })
}

/// Returns `true` if a value is computed by an op that cannot fail, and that only moves the elements of its first
/// operand or pads them with zeros.
fn moves_terms(body: &Graph, value: ValueId) -> bool {
    let Some((op, operands)) = defining_op(body, value) else { return false };
    let is_movement = match op.class() {
        OpClass::Movement(Movement::Transpose(_) | Movement::Reshape(_)) => true,
        OpClass::Movement(Movement::Pad(_)) => splat(body, operands[1]).is_some_and(is_zero),
        OpClass::Movement(_) | OpClass::Elementwise(_) | OpClass::Creation(_) | OpClass::Indexing(_) => false,
        OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => false,
        OpClass::Control(_) | OpClass::Custom(_) => false,
    };
    is_movement && is_certain_value(body, value)
}

/// Applies the ops in `moves` to a value, from last to first. Each op moves the elements of its operand or pads it with
/// zeros.
fn apply_moves(value: Value, moves: &[Op]) -> Value {
    let moved = |value: Value, op: &Op| match op {
        Op::Pad(_) => emit_value(op.clone(), &[value, full(Shape::scalar(), value.dtype(), 0.0)], Site::Unknown),
        op => value.emit(op.clone()),
    };
    moves.iter().rev().fold(value, moved)
}

fn emit_padded_after(scan: &Scan, sums: &[Option<Vec<Padded>>], operands: &[Value]) -> Option<Vec<Value>> {
    let starts = &operands[scan.operands().carries];
    let mut parts = Loop::of(scan, operands);
    let number = |carry: usize| scan.buffers.len() + carry;
    let is_sum = |index: usize| index >= scan.buffers.len() && sums[index - scan.buffers.len()].is_some();
    parts.carries.retain(|part| !part.number.is_some_and(is_sum));
    let kept = parts.carries.len();
    for padded in sums.iter().flatten().flatten() {
        let ty = parts.body.ty(padded.value).clone();
        let param = parts.body.push_input("sum", ty.clone(), false);
        let next = parts.body.push_node(Binary::Add.into(), &[param, padded.value], Site::Unknown).ok()?;
        let value = full(ty.shape, ty.dtype, 0.0);
        parts.carries.push(CarryPart { value, param, next: *next.first()?, number: None });
    }
    let mut results = parts.emit()?;
    let mut totals = results.carries.split_off(kept).into_iter();
    for (carry, sum) in sums.iter().enumerate() {
        for padded in sum.iter().flatten() {
            let total = apply_moves(totals.next()?, &padded.moves);
            let before = results.old[number(carry)].unwrap_or(starts[carry]);
            results.old[number(carry)] = Some(before + total);
        }
    }
    results.old.into_iter().collect()
}
