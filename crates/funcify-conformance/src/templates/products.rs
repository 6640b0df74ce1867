//! Draws loops whose steps compute matrix products.
//!
//! These loops exercise the following planner rules: A product is delayed until the planner knows which terms are added
//! to it and which function is applied to the sum. The sum may consist of one initial value and up to `MAX_FACTORS`
//! products (`sum`, `finish`). The operand that changes less often is packed, and the other one is read row by row
//! (`factors`). A matrix-vector product becomes a sum of elementwise products if both operands change in each step
//! (`emit_as_folds`). A reshape of a product is delayed with the product (`reshape`). An outer product is delayed until
//! it is added to a value (`Outer`). Matrices that no step changes are packed once (`packed`). An elementwise product
//! is delayed until a sum, a difference, an exponential or a reduction uses it (`ElementProduct`).

use funcify::{Value, cond, scan_with};

use super::draft::{Draft, shape_of};

/// The sizes of the axes of matrices: below, at and above the size of a SIMD vector and of a packed panel.
const SIZES: [usize; 10] = [3, 2, 1, 4, 5, 8, 9, 16, 17, 33];

pub(super) fn products(draft: &Draft<'_, '_>) -> Vec<Value> {
    let [rows, size] = [draft.pick(&SIZES[..6]), draft.pick(&SIZES)];
    let steps = draft.pick(&[3, 2, 1, 5, 8, 16]);
    let xs = draft.input(&[steps, rows, size]);
    let start = draft.input(&[rows, size]);
    let weights: Vec<Value> = (0..3).map(|_| draft.input(&[size, size]) * (0.7 / size as f64)).collect();
    let bias = draft.input(&[size]);
    let truth = draft.input(&[]).gt(0.0);
    let (last, ys) = scan_with(draft.direction(), (start, start), xs, |(h, g), x| {
        let weight = || {
            let weight = weights[draft.below(3)];
            if draft.one_in(3) { weight.t() } else { weight }
        };
        let left = || draft.pick(&[h, x, g, x * 0.5, h * g]);
        let one = || {
            let (left, weight) = (left(), weight());
            match draft.below(7) {
                0..=2 => left.matmul(weight),
                3 => weight.matmul(left.t()).t(),
                4 => left.reshape([rows * size]).reshape([rows, size]).matmul(weight),
                5 => left.matmul(weight).reshape([rows * size]).reshape([rows, size]),
                _ => left.index(0, 0).matmul(weight).broadcast_to([rows, size]),
            }
        };
        let mut sum = one();
        let mut seen = Vec::new();
        for _ in 0..draft.below(5) {
            let term = match draft.below(6) {
                0..=2 => one(),
                3 => bias.broadcast_to([rows, size]),
                4 => draft.pick(&[h, g, x]),
                _ => h * x,
            };
            if draft.one_in(5) {
                seen.push(sum);
            }
            sum = if draft.one_in(4) { sum - term } else { sum + term };
        }
        let next = match draft.below(5) {
            0 => sum,
            1 => sum.tanh(),
            2 => sum.sigmoid(),
            3 => (sum.tanh() * 0.5) + sum * 0.1,
            _ => -sum,
        };
        let chosen = match draft.below(6) {
            0 => cond(truth, || one() + next * 0.5, || one() * 0.5),
            _ => draft.alias(next),
        };
        seen.extend([next, h.matmul(h.t()).matmul(x) * 0.1]);
        let ys: Vec<Value> = (0..1 + draft.below(2)).map(|_| seen[draft.below(seen.len())]).collect();
        ((next.tanh(), (chosen * 0.5 + g * 0.25).tanh()), ys)
    });
    [vec![last.0, last.1], ys].concat()
}

/// Draws elementwise products that the planner may delay, and batched matrix products.
pub(super) fn terms(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 9] = [&[3], &[2, 3], &[], &[8], &[2, 2, 3], &[65], &[64, 2], &[4, 9], &[1, 5]];
    let shape = draft.pick(&SHAPES);
    let steps = draft.pick(&[3, 2, 4, 7, 33]);
    let xs = draft.input(&[&[steps], shape].concat());
    let (start, fixed) = (draft.input(shape), draft.input(shape));
    let (last, ys) = scan_with(draft.direction(), start, xs, |h, x| {
        let any = || draft.pick(&[h, x, fixed, h * 0.5, x * fixed]);
        let product = any() * any();
        let again = if draft.one_in(3) { product.tanh() } else { any() };
        let next = match draft.below(10) {
            0 => product + again,
            1 => again + product,
            2 => again - product,
            3 => product - again,
            4 => product.exp() * 0.5,
            5 => product + product,
            6 => any() * any() + product,
            7 => product - any() * any(),
            8 => (product.exp() + product) * 0.25,
            _ => draft.alias(product) + again,
        };
        let folded = |value: Value| match shape.len() {
            0 => value,
            rank => value.sum(draft.below(rank) as i64),
        };
        let y = match draft.below(6) {
            0 => folded(any() * any()),
            1 => (any() * any()).sum(..),
            2 => folded(product),
            3 if shape.len() >= 2 => any().matmul(any().t()),
            4 if shape.len() == 1 => any().matmul(any()),
            _ => product,
        };
        let limit = if draft.one_in(2) { next.tanh() } else { next * 0.5 };
        debug_assert!(shape_of(limit).is_some());
        (limit, (y, draft.read_with(next, h)))
    });
    vec![last, ys.0, ys.1]
}
