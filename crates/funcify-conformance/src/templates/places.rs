//! Draws traces that are stored in different memory locations and read in different ways.
//!
//! The generated programs exercise the following planner rules: A step writes its result directly into the trace if the
//! op can write to any memory location (`place`), even through a reshape or a transpose of the trace. A trace that is
//! an output or part of a concatenation is written directly to its final location (`Joins`). A carry that is also a y
//! is read from that y's trace, and the first step is planned separately (`carry`, `all_steps`). If only the steps of
//! loops read a concatenation of two tensors, the tensors stay separate (`is_read_by_steps`, `ends_of_parts`). If a
//! buffer is never read as a whole, only its last rows are kept, up to `MAX_ROWS_AT_HAND` of them (`rows`).

use funcify::{Recurrence, Value, concat, scan_with};

use super::draft::{Draft, shape_of, sizes_of};

pub(super) fn traces(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 7] = [&[3], &[2, 3], &[], &[1], &[2, 2], &[4, 1], &[9]];
    let shape = draft.pick(&SHAPES);
    let steps = draft.steps().clamp(1, 70);
    let (xs, start) = (draft.input(&[&[steps], shape].concat()), draft.input(shape));
    let first_loop = |start: Value, xs: Value| {
        scan_with(draft.direction(), start, xs, |h, x| {
            let next = draft.pick(&[0, 1, 2, 3, 4]);
            let next = match next {
                0 => (h + x).tanh(),
                1 => h * 0.5 + x,
                2 => x - h * x,
                3 => h * x,
                _ => draft.alias(x),
            };
            let ys = match draft.below(6) {
                0 => vec![next],
                1 => vec![next, next],
                2 => vec![h, next],
                3 => vec![draft.alias(next), draft.read_with(h, x)],
                4 => vec![draft.view(next), next],
                _ => vec![draft.alias(h)],
            };
            (next, ys)
        })
    };
    let (last, ys) = first_loop(start, xs);
    let mut results = vec![last];
    let mut traces: Vec<Value> = ys.clone();
    for _ in 0..1 + draft.below(3) {
        let trace = traces[draft.below(traces.len())];
        // If an earlier op was rejected, the trace may have an unknown shape or rank 0.
        let Some(own) = shape_of(trace).filter(|own| !own.is_empty()) else { continue };
        let value = match draft.below(11) {
            0 => trace,
            1 => trace.t(),
            2 => trace.reshape([own.iter().product::<usize>()]),
            3 => concat(&[draft.input(&[&[1], &own[1..]].concat()), trace], 0),
            4 => concat(&[trace, draft.input(&[&[2], &own[1..]].concat())], 0),
            5 => concat(&[trace, trace.reverse(0)], 0).slice(0, 1..),
            6 if own.len() > 1 => concat(&[trace, trace], -1),
            7 => trace.move_axis(0, -1),
            8 => trace.reverse(0),
            9 => trace.slice(0, own[0] / 2..),
            _ => trace.cumsum(0, draft.one_in(2)),
        };
        let value = match shape_of(value) {
            // An unknown shape means that the op was rejected. Use the trace itself in that case.
            Some(_) => value,
            None => trace,
        };
        traces.push(value);
        if !draft.one_in(3) {
            results.push(value);
        }
    }
    // A second loop reads each row of a trace together with the previous row.
    let read = traces[draft.below(traces.len())];
    results.extend(second_loop(draft, read));
    results.extend(if draft.one_in(2) { ys } else { Vec::new() });
    results
}

/// Draws a loop that reads the rows of a tensor through two taps.
fn second_loop(draft: &Draft<'_, '_>, rows: Value) -> Vec<Value> {
    let shape = sizes_of(rows);
    if shape.len() < 2 || shape[0] < 2 {
        return Vec::new();
    }
    let before = draft.input(&[&[1], &shape[1..]].concat());
    let joined = match draft.below(4) {
        0 => rows,
        1 => concat(&[before, rows], 0),
        2 => concat(&[rows, before], 0),
        _ => concat(&[before, rows], 0).slice(0, ..shape[0]),
    };
    let mut recurrence = Recurrence::new();
    let taps = recurrence.sequence(joined, [-1, 0]);
    let carry = recurrence.carry(draft.input(&shape[1..]));
    if draft.one_in(2) {
        recurrence.backwards();
    }
    let done = recurrence.run(|step| {
        let [one, two] = step.read(&taps);
        let state = step.read(&carry);
        let next = match draft.below(4) {
            0 => state * 0.5 + one * two,
            1 => (one - two) + state * 0.25,
            2 => one * 0.5 + two.tanh() * state,
            _ => two,
        };
        step.write(&carry, next);
        draft.read_with(next, one)
    });
    vec![done.ys, done.last(&carry)]
}
