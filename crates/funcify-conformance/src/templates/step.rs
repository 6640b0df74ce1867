//! Draws the step of a loop. Each carry may be read before, by and after the op that computes its next value, directly
//! or through an alias. A carry may also be returned in a trace, or become the next value of another carry.

use funcify::ops::ScatterMode;
use funcify::{DType, Value, constant, select, stack};

use super::draft::{Draft, shape_from, shape_of, sizes_of};

/// A kind of update, which computes the next value of a carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Update {
    /// Elementwise ops.
    Elementwise,
    /// An update of some rows of the carry, at a computed position.
    Position,
    /// The sum of the carry and the outer product of two vectors.
    Outer,
    /// A matrix product.
    Product,
    /// A copy of another carry or of a row, or a shifted, reversed or transposed copy of the carry itself.
    Move,
}

/// The results of a step.
pub(super) struct StepResults {
    pub(super) next: Vec<Value>,
    pub(super) ys: Vec<Value>,
}

/// Draws a step, given the carries, a row for each carry, loop-invariant values, and a weight for each kind of update.
pub(super) fn step(
    draft: &Draft<'_, '_>,
    states: &[Value],
    rows: &[Value],
    fixed: &[Value],
    updates: &[(usize, Update)],
) -> StepResults {
    let pick = |pool: &[Value]| pool[draft.below(pool.len())];
    // The number of uses of a carry decides whether an op may overwrite it. If the step uses an alias, the alias is the
    // only direct use of the carry.
    let names: Vec<Value> =
        states.iter().map(|state| if draft.one_in(2) { draft.alias(*state) } else { *state }).collect();
    let (mut pool, mut ys) = (names.clone(), Vec::new());
    for _ in 0..draft.below(3) {
        let from = pick(&pool);
        let value = match draft.below(3) {
            0 => draft.read_with(from, pick(rows)),
            1 => draft.alias(from),
            _ => draft.view(from),
        };
        pool.push(value);
        ys.extend(draft.one_in(3).then_some(value));
    }
    let first = draft.below(states.len());
    let mut next = names.clone();
    for index in (0..states.len()).map(|index| (first + index) % states.len()) {
        let value = update(draft, index, &names, rows, fixed, &pool, draft.pick_weighted(updates));
        next[index] = value;
        pool.push(value);
        if draft.one_in(2) {
            let from = pick(&pool);
            ys.push(draft.read_with(from, pick(rows)));
        }
    }
    for _ in 0..draft.below(3) {
        let from = pick(&pool);
        let other = if draft.one_in(2) { pick(&pool) } else { pick(rows) };
        ys.push(draft.read_with(from, other));
    }
    // The next value of a carry may be an alias of the computed value.
    if draft.one_in(6) {
        let index = draft.below(next.len());
        next[index] = draft.alias(next[index]);
    }
    if ys.is_empty() || draft.one_in(4) {
        ys.push(pick(&pool));
    }
    if draft.one_in(4) {
        ys.extend(&next);
    }
    StepResults { next, ys }
}

/// Computes the next value of a carry with an update of kind `kind`.
fn update(
    draft: &Draft<'_, '_>,
    index: usize,
    states: &[Value],
    rows: &[Value],
    fixed: &[Value],
    pool: &[Value],
    kind: Update,
) -> Value {
    let state = states[index];
    let shape = sizes_of(state);
    let base = if draft.one_in(5) { draft.alias(state) } else { state };
    let other = match draft.below(5) {
        0..=2 => rows[index],
        3 => pool[draft.below(pool.len())],
        _ => fixed[draft.below(fixed.len())],
    };
    let other = draft.fit(other, &shape);
    match kind {
        Update::Elementwise => elementwise(draft, state, base, other, draft.fit(rows[index], &shape)),
        Update::Position if !shape.is_empty() && shape[0] > 0 => position(draft, base, other, rows[index]),
        Update::Outer if shape.len() == 2 => outer(draft, base, &shape, states, rows, pool),
        Update::Product if shape.len() == 2 || shape.len() == 1 => {
            let size = shape[shape.len() - 1];
            let matrix = draft.fit(fixed[draft.below(fixed.len())], &[size, size]) * (0.5 / size.max(1) as f64);
            let product = base.matmul(matrix);
            match draft.below(5) {
                0 => (product + other).tanh(),
                1 => product + other + rows[index],
                2 => (other + product + base.matmul(matrix.t())).sigmoid(),
                3 => product,
                _ => product - other * base,
            }
        }
        _ => move_value(draft, base, other, states, rows, &shape),
    }
}

fn elementwise(draft: &Draft<'_, '_>, state: Value, base: Value, other: Value, row: Value) -> Value {
    match draft.below(24) {
        0 => base + row,
        1 => base * row,
        2 => base - row,
        3 => row - base,
        4 => base.maximum(row),
        5 => base.minimum(other),
        6 => base * row + other,
        7 => other - base * row,
        8 => base * row - other,
        9 => other * row + base,
        10 => select(row.gt(0.0), base, other),
        11 => select(base.gt(row), base, other),
        12 => base.tanh(),
        13 => -base,
        14 => base + other,
        15 => base.sin(),
        16 => (base + other).tanh(),
        17 => base * 0.5 + other,
        18 => (base * row).sin(),
        19 => state * 0.5 + base * 0.25,
        20 => (state - base) + other.tanh(),
        21 => (base * row).exp() * 0.5,
        22 => base - draft.fit(draft.view(base), &sizes_of(base)) * 0.5,
        _ => (base.minimum(row) - other).cos(),
    }
}

/// Computes an index from a row, or picks a constant index. The index may be out of range.
fn position_index(draft: &Draft<'_, '_>, row: Value, size: usize) -> Value {
    let sum = if row.rank() == 0 { row } else { row.sum(..) };
    match draft.below(3) {
        0 => (sum.gt(0.0)).cast(DType::I64),
        1 => constant(draft.below(size + 1) as i64),
        _ => (sum * 3.7).floor().cast(DType::I64),
    }
}

fn position(draft: &Draft<'_, '_>, base: Value, other: Value, row: Value) -> Value {
    let shape = sizes_of(base);
    // If an earlier op was rejected, the carry may have rank 0.
    let Some(&size) = shape.first() else { return base };
    match draft.below(3) {
        0 => base.dynamic_update(0, other.slice(0, ..1), position_index(draft, row, size)),
        1 => {
            let count = 1 + draft.below(size);
            base.dynamic_update(0, other.slice(0, ..count), position_index(draft, row, size))
        }
        _ => {
            let mode =
                draft.pick(&[ScatterMode::Set, ScatterMode::Add, ScatterMode::Max, ScatterMode::Mul, ScatterMode::Min]);
            let places = stack(&[position_index(draft, row, size)], 0);
            let lanes: Vec<usize> = shape[1..].to_vec();
            // Scatter all elements of the source row to the same row of the carry.
            let indices = places.reshape(shape_from(&vec![1; lanes.len() + 1]));
            let indices = indices.broadcast_to(shape_from(&[&[1], lanes.as_slice()].concat()));
            base.scatter(0, indices, other.slice(0, ..1) * 0.5, mode)
        }
    }
}

/// Picks a value with `size` elements from the carries, the rows and the computed values. If none has this size,
/// converts a row to a vector of this size.
fn outer_operand(draft: &Draft<'_, '_>, size: usize, states: &[Value], rows: &[Value], pool: &[Value]) -> Value {
    let fits = |value: &&Value| shape_of(**value).is_some_and(|shape| shape.iter().product::<usize>() == size);
    let all: Vec<&Value> = states.iter().chain(pool).chain(rows).filter(fits).collect();
    if all.is_empty() {
        return draft.fit(rows[draft.below(rows.len())], &[size]);
    }
    let value = *all[draft.below(all.len())];
    match draft.below(3) {
        0 => value.tanh(),
        _ => value,
    }
}

fn outer(
    draft: &Draft<'_, '_>,
    base: Value,
    shape: &[usize],
    states: &[Value],
    rows: &[Value],
    pool: &[Value],
) -> Value {
    let [left, right] = [0, 1].map(|axis| outer_operand(draft, shape[axis], states, rows, pool));
    let product = left.reshape([shape[0], 1]).matmul(right.reshape([1, shape[1]]));
    match draft.below(5) {
        0 => base + product,
        1 => product + base,
        2 => base * 0.5 + product,
        3 => base + left.reshape([1, shape[0]]).t().matmul(right.reshape([1, shape[1]])),
        _ => base - product,
    }
}

fn move_value(
    draft: &Draft<'_, '_>,
    base: Value,
    other: Value,
    states: &[Value],
    rows: &[Value],
    shape: &[usize],
) -> Value {
    let partner = states[draft.below(states.len())];
    let rank = shape.len();
    match draft.below(8) {
        0 => draft.fit(partner, shape),
        1 => draft.fit(rows[draft.below(rows.len())], shape),
        2 if rank > 0 => base.reverse(draft.below(rank) as i64),
        3 if rank > 0 && shape[0] > 1 => funcify::concat(&[base.slice(0, 1..), other.slice(0, ..1)], 0),
        4 if rank == 2 && shape[0] == shape[1] => base.t(),
        5 if rank > 0 && shape[0] > 1 => base.slice(0, 1..).pad(0, 0, 1, 0.5),
        6 => other,
        _ => draft.fit(draft.view(partner), shape),
    }
}
