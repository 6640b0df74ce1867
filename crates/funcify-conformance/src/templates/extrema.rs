//! Draws loops whose steps compute rows of elements. The next value of the carry contains, for each row, either one of
//! its elements or a value computed by comparing its elements.
//!
//! These loops exercise the following rules of differentiation and of the planner: A backward loop reads a carry from
//! its trace, but recomputes the elements from which the carry was selected (`readable_values`). A product followed by
//! a sum may be rounded once in the forward loop and twice in the backward loop, or vice versa, so the recomputed
//! elements may differ slightly from the carry.

use super::draft::Draft;
use super::*;

pub(super) fn extrema(draft: &Draft<'_, '_>) -> Vec<Value> {
    let (steps, rows, count) = (draft.pick(&[3, 2, 4, 6, 9]), draft.pick(&[3, 2, 1, 8]), draft.pick(&[4, 3, 2, 9, 1]));
    let (xs, start) = (draft.input(&[steps, rows, count]), draft.input(&[rows]));
    let (last, ys) = scan_with(draft.direction(), start, xs, |state, x| {
        let factor = state.unsqueeze(1);
        let product = factor * x;
        let elements = match draft.below(5) {
            0 => product - factor,
            1 => product + x * 0.5,
            2 => (product - x).tanh(),
            3 => x * x - factor * 0.5,
            _ => product,
        };
        let next = select_element(draft, elements, [rows, count]);
        let next = if draft.one_in(4) { draft.alias(next) } else { next };
        let beside = match draft.below(4) {
            0 => product,
            1 => select(elements.eq(next.unsqueeze(1)), product, 0.0),
            2 => (elements - next.unsqueeze(1)).abs() * x,
            _ => elements * next.unsqueeze(1),
        };
        (next, beside)
    });
    vec![last, ys]
}

/// Reduces each row to one of its elements, or to a value computed by comparing its elements with the largest one.
fn select_element(draft: &Draft<'_, '_>, elements: Value, [rows, count]: [usize; 2]) -> Value {
    let largest = || elements.max(1).unsqueeze(1);
    match draft.below(8) {
        0 => elements.max(1),
        1 => elements.min(1),
        2 => elements.cumulative(draft.pick(&[ReduceKind::Max, ReduceKind::Min]), 1, false).index(1, -1),
        3 => {
            let places = iota(count, DType::I64).zeros_like().broadcast_to([rows, count]);
            let mode = draft.pick(&[ScatterMode::Max, ScatterMode::Min]);
            (elements * 0.5).scatter(1, places, elements, mode).index(1, 0)
        }
        4 => elements.sort(1, draft.one_in(2)).0.index(1, 0),
        5 => select(elements.eq(largest()), elements, 0.0).sum(1),
        6 => ((elements - largest()).sign() * elements).sum(1),
        _ => elements.index(1, 0).maximum(elements.index(1, -1)),
    }
}
