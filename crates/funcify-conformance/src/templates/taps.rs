//! Draws loops whose steps read buffers through taps.
//!
//! These loops exercise the following planner rules: If a buffer is never read as a whole, only its last rows are kept,
//! up to `MAX_ROWS_AT_HAND` of them, and each step shifts them by one row (`AtHand`). Rows of a full buffer are written
//! at the end of a step, and are copied for a strip (`copy_for_strip`). A loop with a single op that combines a row
//! with the previous result becomes one instruction (`recurrence`), if the op's other operands are in another memory
//! region.

use std::sync::Arc;

use funcify::ops::Scan;
use funcify::ops::scan::{Buffer, Returned, Sequence, Start};
use funcify::{Dim, Graph, Recurrence, Value, apply, scan_with};

use super::draft::{Draft, shape_of};

const SHAPES: [&[usize]; 6] = [&[3], &[], &[2, 2], &[1], &[8], &[2, 3]];

/// Draws recurrences with two-tap states and with full buffers.
pub(super) fn buffers(draft: &Draft<'_, '_>) -> Vec<Value> {
    let shape = draft.pick(&SHAPES);
    let steps = draft.steps().clamp(1, 70);
    let mut recurrence = Recurrence::new();
    let xs = recurrence.sequence(draft.input(&[&[steps], shape].concat()), [0]);
    let states = recurrence.mit_sot(draft.input(&[&[2], shape].concat()), [-2, -1]);
    let full = draft.input(&[&[steps + 2], shape].concat());
    let kind = draft.below(4);
    let writes_ahead = recurrence.mit_mot(full, [0, 1], [1, 2]);
    let writes_behind = (kind > 1).then(|| recurrence.mit_mot(full * 0.5, [2, 1], [0, 1]));
    let sums = recurrence.carry(draft.input(&[2, 3]));
    let own = recurrence.carry(draft.input(shape));
    if draft.one_in(2) {
        recurrence.backwards();
    }
    let side = |value: Value, size: usize| draft.fit(value, &[size]);
    let done = recurrence.run(|step| {
        let [x] = step.read(&xs);
        let [far, near] = step.read(&states);
        let [one, two] = step.read(&writes_ahead);
        let carried = step.read(&own);
        let mut pool = vec![x, far, near, one, two, carried];
        let any = |pool: &[Value]| pool[draft.below(pool.len())];
        let next = (far * 0.5 + any(&pool)).tanh();
        pool.push(next);
        step.write(&states, next);
        let (left, right) = (any(&pool), any(&pool));
        let first = draft.alias(one) * 0.5 + x;
        pool.push(first);
        let read = draft.read_with(any(&pool), any(&pool));
        step.write(&writes_ahead, [first, draft.fit(read, shape)]);
        if let Some(buffer) = &writes_behind {
            let [three, four] = step.read(buffer);
            step.write(buffer, [three - four * 0.5, any(&pool) * 0.5]);
            pool.push(three);
        }
        let product = side(left, 2).reshape([2, 1]).matmul(side(right, 3).reshape([1, 3]));
        let sum = step.read(&sums) + product;
        step.write(&sums, sum);
        let kept = draft.alias(any(&pool));
        step.write(&own, kept);
        any(&pool)
    });
    let trace = if draft.one_in(2) { done.trace_with_init(&states) } else { done.trace(&states) };
    let mut results = vec![trace, done.last(&sums), done.last(&own), done.ys, done.buffer(&writes_ahead)];
    results.extend(writes_behind.map(|buffer| done.buffer(&buffer)));
    results
}

/// Draws loops with a single op, which combines a row with the previous result, and loops that almost have this form.
pub(super) fn recurrences(draft: &Draft<'_, '_>) -> Vec<Value> {
    let shape = draft.pick(&SHAPES);
    let steps = draft.pick(&[4, 3, 5, 1, 2, 9, 34, 70, 300]);
    let (xs, scales) = (draft.input(&[&[steps], shape].concat()), draft.input(&[&[steps], shape].concat()));
    let (start, fixed) = (draft.input(shape), draft.input(shape));
    let fold = |h: Value, x: Value, a: Value| match draft.below(12) {
        0 => h + x,
        1 => h * x,
        2 => h.maximum(x),
        3 => h.minimum(x),
        4 => a * h + x,
        5 => x + h * fixed,
        6 => h * fixed * 0.5 + fixed,
        7 => x + h,
        8 => x - h,
        9 => a * h - x,
        10 => x * a + h,
        _ => (h + x) * 0.5,
    };
    if draft.one_in(3) {
        // Both operands of the op are rows of the same buffer, so they are in the same memory region.
        let mut recurrence = Recurrence::new();
        let xs = recurrence.sequence(xs, [0]);
        let taps = draft.below(4);
        let all = draft.input(&[&[if taps < 2 { steps + 2 } else { steps + 1 }], shape].concat());
        let near = (taps < 2).then(|| recurrence.mit_mot(all, [0, 2], [1]));
        let far = (taps >= 2).then(|| recurrence.mit_mot(all, [0, 1], [1]));
        if draft.one_in(2) {
            recurrence.backwards();
        }
        let done = recurrence.run(|step| {
            let [x] = step.read(&xs);
            for buffer in near.iter().chain(&far) {
                let [before, other] = step.read(buffer);
                let row = if draft.one_in(2) { fold(before, other, x) } else { fold(other, before, x) };
                step.write(buffer, [row]);
            }
        });
        return near.iter().chain(&far).map(|buffer| done.buffer(buffer)).collect();
    }
    let xs = match draft.below(4) {
        0 => draft.alias(xs),
        1 => xs.reverse(0),
        _ => xs,
    };
    let kind = draft.below(4);
    let (last, ys) = scan_with(draft.direction(), start, (xs, scales), |h, (x, a)| {
        let next = fold(h, x, a);
        (next, if kind == 0 { draft.alias(next) } else { next })
    });
    match kind {
        0 | 1 => vec![last, ys],
        2 => vec![ys],
        _ => vec![ys, last * 0.5, ys.t()],
    }
}

/// Draws loops that return only the last rows of a buffer. The loops are built directly as `Scan` ops, in either
/// direction and with arbitrary taps.
pub(super) fn last_rows(draft: &Draft<'_, '_>) -> Vec<Value> {
    let shape = draft.pick(&SHAPES);
    let steps = draft.pick(&[4, 3, 6, 1, 2, 9, 70]);
    let is_down = draft.one_in(2);
    let given = draft.pick(&[1, 2, 3, 5, 63, 64, 65]);
    let ends = draft.one_in(4);
    let returned = match draft.below(4) {
        0 => Returned::All,
        1 => Returned::Last(1),
        2 => Returned::Last(given.min(steps)),
        _ => Returned::Last((given + if ends { 1 } else { steps }).min(66)),
    };
    let reads: Vec<usize> = draft.pick(&[vec![0], vec![0, given - 1], vec![given - 1], vec![given / 2, 0]]);
    let reads: Vec<usize> = reads.into_iter().map(|offset| offset + usize::from(is_down)).collect();
    let xs = draft.input(&[&[steps + 1], shape].concat());
    let rows = draft.input(&[&[given], shape].concat());
    let start = draft.input(shape);
    let whole = draft.pick(&[0, steps + 1]);
    let full = (whole > 0).then(|| draft.input(&[&[whole], shape].concat()));
    let row = start.ty();
    let body = Graph::build("step", |g| {
        let x = [g.input("x", &row), g.input("x1", &row)];
        let before: Vec<Value> = (0..reads.len()).map(|index| g.input(&format!("r{index}"), &row)).collect();
        let full = full.map(|_| [g.input("f0", &row), g.input("f1", &row)]);
        let carry = g.input("c", &row);
        let mut pool = [&x[..], &before, &[carry]].concat();
        pool.extend(full.into_iter().flatten());
        let any = |pool: &[Value]| pool[draft.below(pool.len())];
        let next = before.iter().fold(x[0] * 0.5, |sum, row| sum + *row * 0.25);
        pool.push(next);
        let mut results = vec![if draft.one_in(4) { draft.alias(any(&pool)) } else { next }];
        results.extend(full.map(|[one, two]| one * 0.5 - two));
        results.push(draft.alias(any(&pool)));
        let value = draft.read_with(any(&pool), any(&pool));
        results.push(draft.fit(value, shape) * 0.5);
        let total = if shape.is_empty() { next } else { next.sum(..) };
        results.extend(ends.then(|| total.gt(0.5)));
        results
    });
    let Ok(body) = body else { return vec![start] };
    let all = |start, reads, writes, returned| Buffer { start, reads, writes, returned };
    let mut buffers = vec![all(Start::Given(given), reads, vec![if is_down { 0 } else { given }], returned)];
    if full.is_some() {
        buffers.push(all(Start::Full, vec![0, 1], vec![usize::from(draft.one_in(2))], Returned::All));
    }
    buffers.push(all(Start::Empty, vec![], vec![0], draft.pick(&[Returned::All, Returned::Last(1)])));
    let scan = Scan {
        body: Arc::new(body),
        steps: Dim::from(steps),
        steps_operand: false,
        // A symbol can be bound only once, so each loop of a program needs its own symbol.
        until: ends.then(|| funcify::Symbol::new(&format!("$ran{}", draft.requested_inputs().len()))),
        reverse: is_down,
        sequences: vec![Sequence { reads: vec![0, 1] }],
        buffers,
        carries: 1,
        invariants: 0,
        unroll: 1,
        policy: None,
        truncate: None,
    };
    let operands: Vec<Value> = [xs, rows].into_iter().chain(full).chain([start]).collect();
    debug_assert!(shape_of(start).is_some());
    apply(scan, &operands)
}
