//! Draws programs with an axis that the planner can divide among threads.
//!
//! These programs exercise the following planner rules: An axis is divided into parts if its indices do not depend on
//! each other (`ParallelAxis`). For a sum over this axis, each part computes a partial sum. Partial sums may be added,
//! moved, carried, and scaled by values that are the same in all parts. The partial sums are combined at the end
//! (`Share`, `initial_share`, `sum_shares`). A nonlinear op on a partial sum prevents the planner from dividing the
//! axis. The axis becomes the innermost axis of loops if it has at least `min_lanes` indices, and if matrix products
//! have at most `MAX_TERMS` terms (`innermost.rs`). A program is divided if its estimated run time is at least
//! `MIN_NS_FOR_THREADS`. In programs with matrix products, each part has at least `MIN_ROWS_PER_PART` rows. In programs
//! with neither matrix products nor batches of matrices, each value has at most `MAX_ELEMENTS_PER_PART` elements per
//! part where possible.

use super::draft::{Draft, shape_from, sizes_of};
use super::*;

/// The sizes of the parallel axis.
const SIZES: [usize; 9] = [8, 4, 2, 3, 9, 7, 12, 16, 24];

/// Draws sums over the parallel axis, and ops on these sums.
pub(super) fn shares(draft: &Draft<'_, '_>) -> Vec<Value> {
    let is_large = draft.one_in(80);
    let size = if is_large { draft.pick(&[4096, 2048, 2049]) } else { draft.pick(&SIZES) };
    let steps = if is_large { draft.pick(&[100, 200]) } else { draft.pick(&[2, 3, 1, 5, 8]) };
    let width = draft.pick(&[2, 1, 3]);
    let shape: Vec<usize> = match draft.below(3) {
        0 => vec![size],
        1 if !is_large => vec![size, width],
        2 if !is_large => vec![width, size],
        _ => vec![size],
    };
    let axis = shape.iter().position(|length| *length == size).expect("every shape above contains the size");
    let xs = draft.input(&[&[steps], shape.as_slice()].concat());
    let scales = draft.input(&[steps]);
    let (start, fixed) = (draft.input(&shape), draft.input(&[]));
    // A sum over the parallel axis has the operand's shape without this axis.
    let rest: Vec<usize> =
        shape.iter().enumerate().filter(|(index, _)| *index != axis).map(|(_, size)| *size).collect();
    let total = draft.input(&rest);
    let is_whole = rest.is_empty() || draft.one_in(2);
    if draft.one_in(2) {
        return single_share(draft, (xs, start, scales, fixed), axis, is_whole);
    }
    let ((last, total), ys) =
        scan_with(draft.direction(), (start, total), (xs, scales), |(state, total), (x, scale)| {
            let next = match draft.below(5) {
                0 => state.sin() + x,
                1 => state * 0.5 + x,
                2 => (state * x).tanh(),
                3 => x - state * scale,
                _ => state.maximum(x) * 0.9,
            };
            let from = draft.pick(&[next, next * x, x, state, next.square()]);
            let counts = draft.one_in(6);
            let sum = |value: Value| if is_whole { value.sum(axis as i64) } else { value.sum(..) };
            let mut share = match counts {
                true => op_on_integers(draft, sum(from.gt(0.1).cast(DType::I64))),
                false => sum(from),
            };
            let other = if draft.one_in(2) { sum(draft.pick(&[x, next * 0.5])) } else { scale };
            for _ in 0..draft.below(4) {
                share = op_on_share(draft, share, draft.fit(other, &sizes_of(share)), fixed, scale);
            }
            let added = draft.fit(share, &rest);
            let total_next = match draft.below(6) {
                0 => total + added,
                1 => added - total,
                2 => total * 0.5 + added,
                3 => total * scale + added,
                4 => added,
                _ => draft.alias(total) + added * 0.5,
            };
            let y = match draft.below(5) {
                0 => total,
                1 => draft.read_with(total_next, scale),
                2 => next,
                _ => share,
            };
            ((next, total_next), y)
        });
    let mut results = vec![last, ys];
    let behind = match draft.below(4) {
        0 => op_on_share(draft, total, draft.fit(fixed, &rest), fixed, fixed),
        1 => draft.read_with(total, fixed),
        _ => total,
    };
    results.push(behind);
    if draft.one_in(3) {
        let whole = op_on_share(draft, ys, draft.fit(fixed, &sizes_of(ys)), fixed, fixed);
        results.push(whole);
    }
    results
}

/// Draws a single sum, and one or two ops on it. Each op may prevent the planner from dividing the axis.
fn single_share(
    draft: &Draft<'_, '_>,
    (xs, start, scales, fixed): (Value, Value, Value, Value),
    axis: usize,
    is_whole: bool,
) -> Vec<Value> {
    let (last, ys) = scan_with(draft.direction(), start, (xs, scales), |state, (x, scale)| {
        let next = state.sin() + x;
        let from = draft.pick(&[next, x * next]);
        let sum = |value: Value| if is_whole { value.sum(axis as i64) } else { value.sum(..) };
        let mut share = match draft.one_in(4) {
            true => op_on_integers(draft, sum(from.gt(0.1).cast(DType::I64))),
            false => sum(from),
        };
        for _ in 0..1 + draft.below(2) {
            let other = match draft.below(3) {
                0 => sum(x),
                1 => scale,
                _ => fixed,
            };
            share = op_on_share(draft, share, draft.fit(other, &sizes_of(share)), fixed, scale);
        }
        (next, share)
    });
    match draft.below(3) {
        0 => vec![last, ys],
        1 => vec![ys],
        _ => vec![ys, ys.sum(0)],
    }
}

/// Applies a random op to integer sums, and converts the result to floats.
fn op_on_integers(draft: &Draft<'_, '_>, sum: Value) -> Value {
    let value = match draft.below(12) {
        0 => sum,
        1 => sum / 2,
        2 => sum % 3,
        3 => -sum,
        4 => sum * 3,
        5 => sum - 5,
        6 => sum.cast(DType::Bool).cast(DType::I64),
        7 => sum.cast(DType::I32).cast(DType::I64),
        8 => sum.maximum(2),
        9 => sum & 1,
        10 => sum.cast(DType::U8).cast(DType::I64),
        _ => sum + sum / 3,
    };
    value.cast(draft.dtype)
}

/// Applies a randomly chosen op, linear or nonlinear, to a value that may be a partial sum.
fn op_on_share(draft: &Draft<'_, '_>, share: Value, other: Value, fixed: Value, scale: Value) -> Value {
    let shape = sizes_of(share);
    let (rank, dtype) = (shape.len(), share.dtype());
    match draft.below(40) {
        0 => -share,
        1 => share.stop_gradient(),
        2 => share * scale,
        3 => share / 2.0,
        4 => share + other,
        5 => share - other,
        6 => share + fixed,
        7 => share.cast(DType::Bool).cast(dtype),
        8 => share.cast(DType::F16).cast(dtype),
        9 => share.cast(DType::F32).cast(dtype),
        10 => share.cast(DType::BF16).cast(dtype),
        11 => (share * 3.3).cast(DType::I64).cast(dtype),
        12 => share.tanh(),
        13 => share.abs(),
        14 => share * share,
        15 => share.maximum(0.1),
        16 => select(share.gt(0.05), share, share * 0.5),
        17 => (share * 2.2).floor(),
        18 => share.sign(),
        19 => draft.view(share),
        20 if rank > 0 => concat(&[share, share], 0),
        21 if rank > 0 => share.pad(0, 1, 0, 0.25),
        22 if rank > 0 => share.sum(0),
        23 if rank > 0 && !shape.contains(&0) => share.max(0),
        24 => share % 0.7,
        25 => draft.alias(share),
        26 => share.is_finite().cast(dtype) + share,
        27 => share.broadcast_to(shape_from(&[&[2], shape.as_slice()].concat())).sum(0),
        28 => share.broadcast_to(shape_from(&[&[2], shape.as_slice()].concat())).prod(0),
        29 if rank > 0 => share.cumsum(0, draft.one_in(2)),
        30 if rank > 0 => share.take(0, iota(shape[0], DType::I64) / 2),
        31 if rank > 0 && shape[0] > 0 => share.dynamic_update(0, other.slice(0, ..1), constant(0i64)),
        32 if rank > 0 && shape[0] > 0 => {
            let indices = iota(1, DType::I64).reshape(shape_from(&vec![1; rank]));
            let part = other.slice(0, ..1);
            let indices = indices.broadcast_to(part.shape());
            share.scatter(0, indices, part, draft.pick(&[ScatterMode::Add, ScatterMode::Set, ScatterMode::Max]))
        }
        33 => share.copysign(other),
        34 => other / (share * share + 1.0),
        35 if rank == 2 => share.matmul(share.t()),
        36 => share * fixed + other,
        37 => fixed - share * scale,
        38 => (share * scale).exp() * 0.1,
        39 if rank > 0 => share.reverse(0),
        _ => share * 0.5,
    }
}

/// Draws values whose parallel axis may become the innermost axis, and small matrix products of these values.
pub(super) fn innermost(draft: &Draft<'_, '_>) -> Vec<Value> {
    let size = draft.pick(&[8, 7, 9, 2, 3, 16]);
    let width = draft.pick(&[2, 3, 1, 4, 5, 8]);
    let steps = draft.pick(&[3, 2, 5, 8]);
    let has_own = draft.one_in(2);
    let shape = if draft.one_in(2) { vec![size, width] } else { vec![size, 1, width] };
    let rank = shape.len();
    let xs = draft.input(&[&[steps], shape.as_slice()].concat());
    let start = draft.input(&shape);
    let weight = draft.input(&[width, width]) * (0.7 / width as f64);
    let own = draft.input(&[size, width, width]) * (0.7 / width as f64);
    let options = draft.direction();
    let ((last, sums), ys) = scan_with(options, (start, weight), xs, |(state, sums), x| {
        let product = match draft.below(4) {
            0 if has_own && rank == 3 => state.matmul(own),
            1 if rank == 3 => state.matmul(sums),
            2 if rank == 2 => state.matmul(weight.t()),
            _ => state.matmul(weight),
        };
        let next = match draft.below(5) {
            0 => (product + x).tanh(),
            1 => product + x * 0.5,
            2 => x - product * state,
            3 => draft.alias(state) * 0.5 + x * product,
            _ => product.maximum(x) * 0.9,
        };
        let flat = |value: Value| value.reshape([size, width]);
        let outer = flat(state).t().matmul(flat(next)) * 0.1;
        let sums = match draft.below(3) {
            0 => sums + outer,
            1 => sums * 0.5 + outer.t() * 0.5,
            _ => sums,
        };
        let y = match draft.below(7) {
            0 => next,
            1 => next.sum(-1),
            2 => next.t(),
            3 => concat(&[next, x], -1),
            4 => next.softmax(-1),
            5 => draft.read_with(next, x),
            _ => next.sum(0),
        };
        ((next, sums), (y, state))
    });
    let joined = concat(&[start.unsqueeze(0), ys.1], 0);
    let again = scan_with(draft.direction(), start * 0.5, joined, |state, row| {
        let next = state * 0.5 + row;
        (next, if rank == 2 { next.t() } else { next.reshape([width, size]) })
    });
    vec![last, sums, ys.0, if draft.one_in(2) { ys.1 } else { ys.1.move_axis(1, 0) }, again.1]
}

/// Draws matrix products before and after a loop. The parallel axis forms the rows or the columns of these products.
/// Each part reads a range of columns of an input, and no instruction may span several rows of the input
/// (`lies_within_units`).
pub(super) fn products_beside_loops(draft: &Draft<'_, '_>) -> Vec<Value> {
    let size = draft.pick(&SIZES);
    let (rows, inner) = (draft.pick(&[1, 2, 3]), draft.pick(&[4, 1, 2, 5]));
    let steps = draft.pick(&[3, 1, 2, 5]);
    let weight = if draft.one_in(3) { draft.input(&[size, inner]).t() } else { draft.input(&[inner, size]) };
    let side = draft.input(&[rows, inner]);
    let product = |left: Value| match draft.below(4) {
        0 => weight.t().matmul(left.move_axis(-1, -2)).move_axis(-1, -2),
        1 => (left.matmul(weight) + draft.input(&[size])).tanh(),
        2 => left.matmul(weight) + (left * 0.5).matmul(weight.sin()),
        _ => left.matmul(weight),
    };
    let mut start = product(side);
    if rows == 1 && draft.one_in(2) {
        start = start.reshape([size]);
    } else if draft.one_in(3) {
        start = start.t();
    }
    let shape = sizes_of(start);
    let xs = match draft.below(3) {
        0 => product(draft.input(&[steps, rows, inner])).reshape(shape_from(&[&[steps], shape.as_slice()].concat())),
        1 => draft.input(&[steps]),
        _ => draft.input(&[&[steps], shape.as_slice()].concat()),
    };
    let fixed = draft.input(&[size]);
    let (last, ys) = scan_with(draft.direction(), start, xs, |state, x| {
        let x = draft.fit(x, &shape);
        let next = match draft.below(3) {
            0 if shape.last() == Some(&size) => state * x + fixed,
            1 => (state + x).sin(),
            _ => state * 0.5 + x,
        };
        (next, if draft.one_in(3) { draft.read_with(next, state) } else { next })
    });
    let behind = match (shape.len(), draft.below(5)) {
        (1, 0) => weight.matmul(last),
        (1, 1) => last.matmul(weight.t()),
        (1, _) => side.t().matmul(last.unsqueeze(0)),
        (_, 0) => last.t().matmul(last),
        (_, 1) => last.matmul(last.t()),
        (_, 2) if shape.get(1) == Some(&size) => last.matmul(weight.t()),
        (_, 3) if shape.get(1) == Some(&size) => side.t().matmul(last),
        _ => draft.read_with(last, fixed),
    };
    let more = if draft.one_in(2) { weight * 0.5 } else { product(side * 2.0) };
    vec![last, ys, behind, more]
}
