//! Draws loops whose steps add outer products to a carry.
//!
//! These loops exercise the following planner rules: If a step only adds an outer product to a carry, and nothing else
//! reads the carry, the additions are delayed until the end of a strip of steps (`sink`, `close_strips`). If the rows
//! that hold the two vectors stay unchanged until then, the planner reads the vectors from these rows. Otherwise, it
//! copies the vectors for the strip, once for each distinct view (`copy_for_strip`). Rows of full buffers change, so
//! they are always copied. A strip has at most `rows_of_strip` rows and `MAX_BLOCKS` steps (`strip_of`), and the last
//! strip consists of the remaining steps. Sums whose float type is narrower than the plan's are rounded in each step.

use funcify::{Recurrence, Value, concat, scan_with};

use super::draft::Draft;

pub(super) fn strips(draft: &Draft<'_, '_>) -> Vec<Value> {
    let [m, n] = [draft.pick(&[2, 3, 1, 4]), draft.pick(&[2, 3, 1, 9])];
    let k = draft.pick(&[1, 2, 1, 3]);
    let steps = draft.pick(&[2, 3, 5, 6, 7, 12, 13, 1, 40, 86, 129, 257]);
    let xs = draft.input(&[steps, k, n]);
    let (state, other) = (draft.input(&[k, m]), draft.input(&[k, n]));
    let sums: Vec<Value> = (0..draft.pick(&[3, 4, 2, 3, 4, 1])).map(|_| draft.input(&[m, n])).collect();
    let full = draft.input(&[steps + 2, k, m]);
    let fixed = draft.input(&[k, n]);
    let mut recurrence = Recurrence::new();
    let rows = recurrence.sequence(xs, [0]);
    let buffer = draft.one_in(3).then(|| recurrence.mit_mot(full, [0, 1], [1, 2]));
    let traced = draft.one_in(3).then(|| recurrence.sit_sot(state * 0.5));
    let carry = recurrence.carry(vec![state, other]);
    let added = recurrence.carry(sums);
    if draft.one_in(2) {
        recurrence.backwards();
    }
    let done = recurrence.run(|step| {
        let [x] = step.read(&rows);
        let states = step.read(&carry);
        let (state, other) = (states[0], states[1]);
        let (mut lefts, mut rights) = (vec![state], vec![x, other, fixed, x * 0.5]);
        if let Some(buffer) = &buffer {
            let [one, two] = step.read(buffer);
            step.write(buffer, [one * 0.5 - two, two * 0.5 + state]);
            lefts.extend([one, two]);
        }
        if let Some(traced) = &traced {
            let [before] = step.read(traced);
            let next = (before * 0.5 + state).tanh();
            step.write(traced, next);
            lefts.extend([before, next]);
        }
        let sums = step.read(&added);
        let mut seen = Vec::new();
        let mut next_sums = Vec::new();
        let half = sums.len() / 2;
        let mut add = |sum: Value, lefts: &[Value], rights: &[Value]| {
            // Often use the same two vectors for several sums. The planner then copies each vector only once per strip.
            let (left, right) = match draft.below(4) {
                0..=2 => (lefts[0], rights[1]),
                _ => (lefts[draft.below(lefts.len())], rights[draft.below(rights.len())]),
            };
            let left = if draft.one_in(5) { draft.alias(left) } else { left };
            let left = if m == n && draft.one_in(6) { right } else { left };
            let product = left.t().matmul(right);
            let next = match draft.below(16) {
                0..=11 => sum + product,
                12 => product + sum,
                13 => sum * 0.5 + product,
                14 => sum + product * 0.5,
                _ => sum - product,
            };
            match draft.below(24) {
                21 => seen.push(draft.read_with(next, right)),
                22 => seen.push(draft.read_with(sum, right)),
                23 => seen.push(draft.alias(next)),
                _ => {}
            }
            next
        };
        for sum in &sums[..sums.len() - half] {
            next_sums.push(add(*sum, &lefts, &rights));
        }
        // The update is elementwise, so the planner may compute it in place, over the carry.
        let name = if draft.one_in(2) { draft.alias(state) } else { state };
        let row = x.sum(..);
        let next = match draft.below(6) {
            0 => -(name + row),
            1 => name * row,
            2 => (name + row).tanh(),
            3 => name - row,
            4 => name * 0.5,
            _ => name.tanh() + row,
        };
        lefts.push(next);
        rights.push(other.tanh());
        for sum in &sums[sums.len() - half..] {
            next_sums.push(add(*sum, &lefts[lefts.len().min(2) - 1..], &rights));
        }
        if draft.one_in(4) {
            next_sums.reverse();
        }
        let next_other = if draft.one_in(2) { x } else { other * x };
        step.write(&carry, vec![next, next_other]);
        step.write(&added, next_sums);
        seen
    });
    let mut results = done.last(&added);
    results.extend(done.last(&carry));
    results.extend(done.ys.iter().copied());
    results.extend(buffer.map(|buffer| done.buffer(&buffer)));
    results.extend(traced.map(|traced| done.trace(&traced)));
    results
}

/// Draws loops that copy small carries to rows of a trace. The next values of the carries may use slices of these rows.
///
/// These loops exercise the following rules of `body/registers/lower.rs`: A copy to an address that changes in each
/// step needs no register of its own. A loaded or copied value is read from its register until the register, or the row
/// in memory that holds the value, is overwritten (`write`, `read`).
pub(super) fn copies(draft: &Draft<'_, '_>) -> Vec<Value> {
    let size = draft.pick(&[1, 2, 3, 8]);
    let steps = draft.pick(&[4, 5, 3, 8, 40, 200]);
    let xs = draft.input(&[steps, size]);
    let starts: Vec<Value> = (0..2 + draft.below(2)).map(|_| draft.input(&[size])).collect();
    let (last, ys) = scan_with(draft.direction(), starts, xs, |states, x| {
        let any = || states[draft.below(states.len())];
        let from = any();
        let row = match draft.below(9) {
            0 => from.pad(0, 0, 1, 0.0),
            1 => from.pad(0, 1, 0, 0.5),
            2 => concat(&[from, any()], 0),
            3 => from.reverse(0),
            4 => from.broadcast_to([2, size]).reshape([2 * size]),
            5 => from.unsqueeze(0).sum(0),
            6 => concat(&[from, x], 0),
            7 => from.take(0, funcify::iota(size, funcify::DType::I64)),
            _ => from,
        };
        let width = super::draft::shape_of(row).and_then(|shape| shape.first().copied()).unwrap_or(size);
        let part = if width > size && draft.one_in(2) { row.slice(0, width - size..) } else { row.slice(0, ..size) };
        let next = |index: usize| match draft.below(9) {
            0 => part,
            1 => x.sin(),
            2 => part + x,
            3 => any(),
            4 => any() * x,
            5 => x,
            6 => draft.alias(part),
            7 => (part * any()).tanh(),
            _ => states[index] * 0.5,
        };
        let next: Vec<Value> = (0..states.len()).map(next).collect();
        let mut ys = vec![row];
        if draft.one_in(3) {
            ys.push(next[draft.below(next.len())]);
        }
        if draft.one_in(4) {
            ys.push(part);
        }
        (next, ys)
    });
    [last, ys].concat()
}
