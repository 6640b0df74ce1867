//! Draws programs that compute sizes: lengths of slices, numbers of steps, and traces of loops that end early. Some
//! compute them in the steps of a loop, others outside, and some do both. The sizes are 0, as large as the operands
//! allow, or anything between.

use funcify::{bind_size, scan_until_with, while_loop};

use super::draft::sizes_of;
use super::*;

/// Draws a loop whose steps compute sizes, and sometimes values of computed sizes outside of this loop.
pub(super) fn sizes(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 4] = [&[], &[3], &[1], &[2, 2]];
    let (shape, rows) = (draft.pick(&SHAPES), draft.pick(&[4, 3, 1, 6, 9, 63, 65, 70]));
    let (outer, most) = (draft.pick(&[3, 2, 1, 4]), draft.pick(&[rows, 2.min(rows), 1, 0]) as i64);
    let (xs, start) = (draft.input(&[&[rows], shape].concat()), draft.input(shape));
    let numbers = draft.input_of(DType::I64, &[outer], Fill::Integers(0, most));
    let number = numbers.index(0, 0);
    let before = if draft.one_in(3) { of_a_number(draft, number, start, xs) } else { start };
    let (last, ys) = scan_with(draft.direction(), before, numbers, |state, number| {
        let first = of_a_number(draft, number, state, xs);
        let next = if draft.one_in(3) { of_a_number(draft, number, first, xs) } else { first };
        // Keep the state small, and let every step depend on the previous one.
        let next = (next * 0.5 + state * 0.25).tanh();
        (next, draft.pick(&[next, first.tanh(), state]))
    });
    let after = if draft.one_in(3) { of_a_number(draft, number, last, xs) } else { last };
    vec![after, ys]
}

/// Computes a value of the shape of `state` from values whose size is `number`. `xs` has at least `number` rows.
fn of_a_number(draft: &Draft<'_, '_>, number: Value, state: Value, xs: Value) -> Value {
    let shape = sizes_of(state);
    let steps = || draft.direction().length(bind_size(number));
    let step = |state: Value| match draft.below(4) {
        0 => state * 0.5,
        1 => (state + xs.index(0, -1)).tanh(),
        2 => state.sin() * state,
        _ => draft.alias(state) * 0.75,
    };
    let total = |rows: Value| match draft.below(4) {
        0 => rows.reverse(0).sum(0),
        1 => (rows * rows).sum(0),
        2 => draft.fit(rows.sum(..), &shape),
        _ => rows.sum(0),
    };
    match draft.below(9) {
        0 => total(xs.slice(0, ..bind_size(number))),
        1 => total(xs.slice(0, bind_size(number)..)),
        2 => scan_with(steps(), state, (), |state, ()| (step(state), ())).0,
        3 => total(scan_with(steps(), state, (), |state, ()| (step(state), state)).1),
        4 => {
            let rows = scan_with(steps(), state, (), |state, ()| (step(state), state)).1;
            scan_with(draft.direction(), state, rows, |state, row| (state * 0.5 + step(row), ())).0
        }
        5 | 6 => {
            let ((last, _), rows) =
                scan_until_with(draft.direction(), (state, constant(1i64)), xs, |(state, count), x| {
                    let next = step(state) + x * 0.5;
                    ((next, count + 1), draft.pick(&[next, state, x]), count.ge(number))
                });
            if draft.one_in(2) { last + total(rows) } else { last }
        }
        7 => while_loop((state, number), |(_, left)| left.gt(0i64), |(state, left)| (step(state), left - 1)).0,
        _ => {
            let weights = iota(bind_size(number), draft.dtype) * 0.125;
            state + draft.fit(weights.sum(0), &shape)
        }
    }
}
