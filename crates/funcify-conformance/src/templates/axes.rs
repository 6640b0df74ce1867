//! Draws ops over more axes than a single instruction supports.
//!
//! The generated programs exercise the following planner rules: Axes that are adjacent in all operands merge into one.
//! One of the resulting axes becomes the rows of an instruction, and another becomes its lanes. The longest remaining
//! axes become loops (`push`), nested at most three deep. An axis becomes an outermost loop only if its size is at
//! least 4, and an inner loop only if its size is at least 33. All other axes are unrolled. In a region that is split
//! into columns, an axis becomes a loop only if its stride is a multiple of the row stride (`moves_by_units`).

use funcify::{Value, concat, scan_with, select};

use super::draft::{Draft, shape_of};

pub(super) fn axes(draft: &Draft<'_, '_>) -> Vec<Value> {
    let long = draft.pick_weighted(&[
        (4, [true, true, false, false]),
        (1, [true, false, true, false]),
        (1, [false, true, false, true]),
    ]);
    let sizes =
        long.map(
            |is_long| {
                if is_long { draft.pick(&[33, 34, 35, 33, 36, 34, 32, 4]) } else { draft.pick(&[2, 3, 2, 3, 1, 5]) }
            },
        );
    let value = draft.input(&sizes);
    let moved = permute_axes(draft, value);
    // If an earlier op was rejected, the shape may be unknown.
    let Some(shape) = shape_of(moved).filter(|shape| shape.len() == 4) else { return vec![moved] };
    let other = if draft.one_in(2) { draft.input(&shape) } else { broadcast_input(draft, &shape) };
    let both = combine(draft, moved, other);
    let mut results = vec![both, op_on_axes(draft, both)];
    if draft.one_in(3) {
        results.push(permute_axes(draft, both));
    }
    // The step reads a value whose axes are in a different order than the carry's axes.
    if draft.one_in(2) {
        let steps = draft.pick(&[2, 1, 3]);
        let rows = draft.input(&[steps, shape[3]]);
        let (last, ys) = scan_with(draft.direction(), both, rows, |state, row| {
            let name = if draft.one_in(3) { draft.alias(state) } else { state };
            let next = (name * 0.5 + combine(draft, moved, row.broadcast_to(moved.shape()))).tanh();
            let y = draft.pick(&[state, next]);
            (next, permute_axes(draft, y).sum([0, 1]))
        });
        results.extend([last, ys]);
    }
    results
}

/// Permutes the four axes, and sometimes reverses one. The most frequent order is `[1, 0, 3, 2]`, in which no axes
/// stay adjacent.
fn permute_axes(draft: &Draft<'_, '_>, value: Value) -> Value {
    let mut left = vec![3, 2, 1, 0];
    let order: Vec<usize> = match draft.below(4) {
        0..=2 => vec![1, 0, 3, 2],
        _ => (0..4).map(|_| left.remove(draft.below(left.len()))).collect(),
    };
    let value = value.transpose(order);
    if draft.one_in(3) { value.reverse(draft.below(4) as i64) } else { value }
}

/// Creates an input that has size 1 along some of the axes, and broadcasts it to `shape`.
fn broadcast_input(draft: &Draft<'_, '_>, shape: &[usize]) -> Value {
    let kept = draft.below(1 << 4);
    let sizes: Vec<usize> = (0..4).map(|axis| if kept >> axis & 1 == 1 { shape[axis] } else { 1 }).collect();
    draft.input(&sizes).broadcast_to(super::draft::shape_from(shape))
}

fn combine(draft: &Draft<'_, '_>, one: Value, other: Value) -> Value {
    match draft.below(6) {
        0 => one * other,
        1 => one - other,
        2 => one * other + one,
        3 => select(one.gt(other), one, other * 0.5),
        4 => one.maximum(other),
        _ => (one + other).sin(),
    }
}

/// Applies a random op along one or two axes.
fn op_on_axes(draft: &Draft<'_, '_>, value: Value) -> Value {
    let axis = draft.below(4) as i64;
    let other = (axis + 1 + draft.below(3) as i64) % 4;
    match draft.below(8) {
        0 => value.sum(axis),
        1 => value.sum([axis, other]),
        2 => value.max(axis),
        3 => value.cumsum(axis, draft.one_in(2)),
        4 => value.pad(axis, 1, 2, 0.25),
        5 => concat(&[value.reverse(axis), value], axis),
        6 => value.slice_step(axis, .., 2),
        _ => value.slice(axis, 1..).sum(other),
    }
}
