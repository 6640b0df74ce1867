//! Draws branches in loops, loops with an early exit, and loops in branches.
//!
//! The generated programs exercise the following planner rules: Both branches of a `cond` write their results to the
//! same registers (`choice`). If the index of a `cond` or `switch` is static, or if there is only one branch, only the
//! selected branch is planned. After a branch, the planner drops the branch's cache entries for packed and laid-out
//! operands (`forget`). A loop with an early exit reserves rows for its maximum number of steps and counts the steps
//! that run (`steps_until`). Cumulative reductions become loops.

use funcify::ops::ReduceKind;
use funcify::{DType, Value, checkpoint, cond, constant, scan_until_with, scan_with, switch, while_loop_bounded};

use super::draft::{Draft, sizes_of};

pub(super) fn choices(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 5] = [&[3], &[2, 3], &[], &[8], &[4, 4]];
    let shape = draft.pick(&SHAPES);
    let steps = draft.pick(&[3, 2, 4, 5, 9, 34]);
    let (xs, start) = (draft.input(&[&[steps], shape].concat()), draft.input(shape));
    let size = shape.last().copied().unwrap_or(1);
    let weights = [draft.input(&[size, size]), draft.input(&[size, size])];
    let (fixed, flag) = (draft.input(shape), draft.input(&[]));
    // A `cond` outside the loop reads the same values as the loop.
    let before = cond(flag.gt(0.0), || product(draft, start, weights[0]), || start * 0.5);
    let ((last, other), ys) = scan_with(draft.direction(), (start, before), xs, |(state, other), x| {
        let total = if shape.is_empty() { x } else { x.sum(..) };
        let name = if draft.one_in(2) { draft.alias(state) } else { state };
        let holds = match draft.below(4) {
            0 => total.gt(0.0),
            1 => flag.gt(0.0),
            2 => total.lt(if shape.is_empty() { state } else { state.max(..) }),
            _ => constant(draft.one_in(2)),
        };
        let branch = || {
            let value = match draft.below(9) {
                0 => name + x,
                1 => product(draft, name, weights[0]),
                2 => product(draft, x, weights[draft.below(2)]),
                3 => name,
                4 => other * x,
                5 => cumulative_reduction(draft, name),
                6 => fixed * x,
                7 => scan_with(draft.direction().length(2), name, (), |state, ()| (state * 0.5 + x, ())).0,
                _ => cond(flag.lt(0.2), || name * 0.5, || name - x),
            };
            draft.fit(value, shape)
        };
        let next = match draft.below(5) {
            0..=2 => cond(holds, branch, branch),
            3 => checkpoint(branch),
            _ => switch((total * 2.0).floor().cast(DType::I64), [&branch, &branch]),
        };
        let after = match draft.below(5) {
            0 => name,
            1 => product(draft, x, weights[draft.below(2)]),
            2 => next * x,
            3 => draft.read_with(state, next),
            _ => other,
        };
        let kept = if draft.one_in(2) { name } else { next };
        ((next.tanh(), (other * 0.5 + kept).tanh()), after)
    });
    vec![last, other, ys, product(draft, before, weights[0])]
}

/// Multiplies a value by a matrix, or by the sum of the matrix's elements if the value is a scalar.
fn product(draft: &Draft<'_, '_>, value: Value, weight: Value) -> Value {
    match value.rank() {
        0 => value * weight.sum(..),
        _ => value.matmul(if draft.one_in(3) { weight.t() } else { weight }) * 0.3,
    }
}

/// Applies a random cumulative reduction.
fn cumulative_reduction(draft: &Draft<'_, '_>, value: Value) -> Value {
    if value.rank() == 0 {
        return value;
    }
    let kind = draft.pick(&[ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min, ReduceKind::Prod]);
    value.cumulative(kind, draft.below(value.rank()) as i64, draft.one_in(3))
}

/// Draws cumulative reductions of captured values and of computed values, in branches and in bodies of loops.
pub(super) fn running_reductions(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 5] = [&[3], &[2, 3], &[1], &[9], &[4, 2]];
    let shape = draft.pick(&SHAPES);
    let (x, y, flag) = (draft.input(shape), draft.input(shape), draft.input(&[]));
    let own = || {
        let value = draft.pick(&[x, y, x * y]);
        cumulative_reduction(draft, value)
    };
    let chosen = match draft.below(4) {
        0 => cond(flag.gt(0.0), own, || x),
        1 => cond(flag.gt(0.0), || y * 0.5, own),
        2 => switch((flag * 2.0).floor().cast(DType::I64), [&own, &|| x, &own]),
        _ => own(),
    };
    let bound = draft.pick(&[2, 1, 3]);
    let carried = while_loop_bounded(
        bound,
        (constant(0i64), x),
        |(count, _)| count.lt(draft.pick(&[2i64, 0, 5])),
        |(count, value)| (count + 1, cumulative_reduction(draft, value).tanh()),
    );
    let steps = draft.pick(&[2, 3, 5]);
    let rows = draft.input(&[&[steps], shape].concat());
    let (last, ys) = scan_with(draft.direction(), x, rows, |state, row| {
        let next =
            cond(flag.gt(0.1), || cumulative_reduction(draft, row), || cumulative_reduction(draft, state)).tanh();
        (next, cumulative_reduction(draft, state))
    });
    vec![chosen, carried.1, last, ys]
}

/// Draws loops with an early exit. The sizes of their traces and of other values depend on the trip count.
pub(super) fn early_ends(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 5] = [&[], &[3], &[1], &[2, 2], &[8]];
    let shape = draft.pick(&SHAPES);
    let steps = draft.pick(&[5, 3, 4, 8, 1, 16, 40, 70]);
    let (xs, start) = (draft.input(&[&[steps], shape].concat()), draft.input(shape));
    let limit = draft.pick(&[0.4, 0.9, 1.7, 20.0, -1.0]);
    let ((last, count), ys) = scan_until_with(draft.direction(), (start, constant(0i64)), xs, |(state, count), x| {
        let name = if draft.one_in(2) { draft.alias(state) } else { state };
        let next = match draft.below(5) {
            0 => name + x,
            1 => name * x + x,
            2 => (name + x).tanh(),
            3 => name.maximum(x),
            _ => x - name,
        };
        let watched = draft.pick(&[next, name, x]);
        let total = if shape.is_empty() { watched } else { watched.sum(..) };
        let stop = match draft.below(3) {
            0 => total.abs().gt(limit),
            1 => count.gt(draft.pick(&[1i64, 0, 3, 7])),
            _ => total.gt(limit) | count.gt(4i64),
        };
        let y = draft.pick(&[next, name, x, next * name]);
        let ys = if draft.one_in(2) { vec![y] } else { vec![y, draft.read_with(name, next)] };
        ((next, count + 1), ys, stop)
    });
    let mut results = vec![last, count.cast(draft.dtype)];
    for y in &ys {
        results.push(*y);
        results.push(match draft.below(4) {
            0 => y.sum(0),
            1 => y.index(0, -1) * 0.5,
            2 => y.reverse(0).sum(0),
            _ => y.sum(..) * 0.25,
        });
    }
    // A second loop over a trace of the first one has the same trip count.
    if draft.one_in(3) {
        let row = sizes_of(start);
        let first = ys[0];
        if first.shape().rank() == row.len() + 1 {
            let (last, _) = scan_with(draft.direction(), start, first, |state, row| (state * 0.5 + row, ()));
            results.push(last);
        }
    }
    results
}
