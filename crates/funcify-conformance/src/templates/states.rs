//! Draws loops with carries.
//!
//! These loops exercise the following planner rules: An elementwise op may overwrite a carry with its next value if
//! nothing else uses the carry (`Scope::state`, `emit_elementwise`). `dynamic_update` and `scatter` write to the carry
//! in place (`state_or_copy`). Once nothing reads a carry any more, its memory is reused for its next value
//! (`free_state`). An outer product is added to the carry in place, immediately or at the end of a strip of steps
//! (`sink`). A carry that is also a row of a trace stays in the trace (`carry`). At the end of a step, before carries
//! are moved, the planner copies each value that a move would overwrite too early (`emit_moves`).

use std::cell::RefCell;

use funcify::{DType, Recurrence, Value, fori_loop, scan_until_with, scan_with, while_loop_bounded};

use super::draft::{Draft, sizes_of};
use super::step::{StepResults, Update, step};

type Updates = &'static [(usize, Update)];

const ELEMENTWISE: Updates = &[(8, Update::Elementwise), (1, Update::Move), (1, Update::Product)];
const POSITIONS: Updates = &[(6, Update::Position), (2, Update::Elementwise)];
const OUTER: Updates = &[(6, Update::Outer), (2, Update::Elementwise), (1, Update::Move)];
const MOVES: Updates = &[(6, Update::Move), (2, Update::Elementwise)];
const ANY: Updates =
    &[(3, Update::Elementwise), (2, Update::Position), (3, Update::Outer), (2, Update::Product), (2, Update::Move)];

pub(super) fn elementwise(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 9] = [&[3], &[], &[1], &[2, 3], &[3, 3], &[2], &[8], &[1, 2], &[9, 2]];
    states(draft, &SHAPES, ELEMENTWISE)
}

pub(super) fn positions(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 6] = [&[3], &[2, 3], &[1], &[4, 2], &[8], &[3, 3]];
    states(draft, &SHAPES, POSITIONS)
}

pub(super) fn outer_products(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 8] = [&[2, 3], &[3], &[2], &[3, 3], &[2, 2], &[1, 3], &[3, 1], &[8, 4]];
    states(draft, &SHAPES, OUTER)
}

pub(super) fn moves(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 7] = [&[3], &[], &[2, 2], &[3, 2], &[1], &[3, 3], &[4]];
    states(draft, &SHAPES, MOVES)
}

pub(super) fn any(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 8] = [&[3], &[2, 3], &[2], &[3, 3], &[], &[8, 3], &[1, 3], &[12]];
    states(draft, &SHAPES, ANY)
}

/// Draws loops with small carries and up to 200 steps, which the engine compiles to register code and to machine code.
///
/// These loops exercise the following rules of `body/registers/lower.rs`: Values at a fixed address stay in a register
/// (`resident`), values whose address changes in each step are loaded once per step (`loaded`), and a copy to a
/// changing address needs no register (`write`). Reductions and products are unrolled in loops of at least
/// `MIN_ITERATIONS` steps, if the loop writes at most `MAX_WRITTEN_VECTORS` vectors.
pub(super) fn registers(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 8] = [&[1], &[], &[2], &[3], &[1, 1], &[1, 2], &[8], &[11]];
    const UPDATES: Updates =
        &[(4, Update::Move), (6, Update::Elementwise), (1, Update::Product), (1, Update::Position), (1, Update::Outer)];
    const STEPS: [usize; 9] = [4, 5, 6, 3, 8, 12, 40, 70, 200];
    let shapes = pick_shapes(draft, &SHAPES);
    let steps = draft.pick(&STEPS);
    loops(draft, &shapes, steps, UPDATES)
}

/// Picks the shapes of one to three carries.
fn pick_shapes(draft: &Draft<'_, '_>, shapes: &[&'static [usize]]) -> Vec<&'static [usize]> {
    let first = draft.pick(shapes);
    let mut all = vec![first];
    for _ in 0..draft.below(3) {
        all.push(if draft.one_in(3) { draft.pick(shapes) } else { first });
    }
    all
}

fn states(draft: &Draft<'_, '_>, shapes: &[&'static [usize]], updates: Updates) -> Vec<Value> {
    let shapes = pick_shapes(draft, shapes);
    let steps = draft.steps();
    loops(draft, &shapes, steps, updates)
}

/// Draws a loop with carries of these shapes. The kind of loop is random.
fn loops(draft: &Draft<'_, '_>, shapes: &[&[usize]], steps: usize, updates: Updates) -> Vec<Value> {
    let starts: Vec<Value> = shapes.iter().map(|shape| draft.input(shape)).collect();
    let all: Vec<Value> = shapes.iter().map(|shape| draft.input(&[&[steps], *shape].concat())).collect();
    let fixed: Vec<Value> = (0..1 + draft.below(2)).map(|_| draft.input(shapes[draft.below(shapes.len())])).collect();
    // Several carries may start from the same tensor.
    let shared = draft.one_in(4);
    let starts: Vec<Value> = (0..starts.len())
        .map(|index| if shared && shapes[index] == shapes[0] { starts[0] } else { starts[index] })
        .collect();
    let mut results = match draft.below(8) {
        5 => {
            let limit = draft.pick(&[5.0, 0.3, 0.9]);
            let (last, ys) = scan_until_with(draft.direction(), starts.clone(), all.clone(), |states, rows| {
                let StepResults { next, ys } = step(draft, &states, &rows, &fixed, updates);
                let stop = total(next[draft.below(next.len())]).abs().gt(limit);
                (next, ys, stop)
            });
            [last, ys].concat()
        }
        6 if steps > 0 => counted(draft, starts.clone(), &all, &fixed, steps, updates),
        7 => recurrence(draft, starts.clone(), &all, &fixed, updates),
        _ => {
            let (last, ys) = scan_with(draft.direction(), starts.clone(), all.clone(), |states, rows| {
                let StepResults { next, ys } = step(draft, &states, &rows, &fixed, updates);
                (next, ys)
            });
            [last, ys].concat()
        }
    };
    if draft.one_in(4) {
        // An op after the loop reads the initial value of a carry.
        results.push(draft.alias(starts[0]) * 0.5);
    }
    results
}

fn total(value: Value) -> Value {
    if value.rank() == 0 { value } else { value.sum(..) }
}

/// Draws a loop without traces: a bounded while loop, or a `fori_loop`.
fn counted(
    draft: &Draft<'_, '_>,
    starts: Vec<Value>,
    all: &[Value],
    fixed: &[Value],
    steps: usize,
    updates: Updates,
) -> Vec<Value> {
    let body = |index: Value, states: Vec<Value>| {
        let rows: Vec<Value> = all.iter().map(|rows| rows.dynamic_index(0, index)).collect();
        let StepResults { next, ys } = step(draft, &states, &rows, fixed, updates);
        // The loop has no trace, so the first y of the step is added to a carry.
        let mut next = next;
        let shape = sizes_of(next[0]);
        next[0] = next[0] * 0.5 + draft.fit(ys[0], &shape) * 0.5;
        next
    };
    match draft.below(2) {
        0 => {
            let most = draft.pick(&[steps as i64, (steps / 2) as i64, 100]);
            let start = (funcify::constant(0i64), starts);
            let (count, last) = while_loop_bounded(
                steps,
                start,
                |(count, _)| count.lt(most),
                |(count, states)| {
                    let next = body(count, states);
                    (count + 1, next)
                },
            );
            [last, vec![count.cast(DType::F64)]].concat()
        }
        _ => fori_loop(0, steps, starts, body),
    }
}

/// Draws a recurrence whose first state is read from its trace. The other states are carries.
fn recurrence(
    draft: &Draft<'_, '_>,
    starts: Vec<Value>,
    all: &[Value],
    fixed: &[Value],
    updates: Updates,
) -> Vec<Value> {
    let mut recurrence = Recurrence::new();
    let sequences: Vec<_> = all.iter().map(|rows| recurrence.sequence(*rows, [0])).collect();
    let state = recurrence.sit_sot(starts[0]);
    let carry = recurrence.carry(starts[1..].to_vec());
    if draft.one_in(3) {
        recurrence.backwards();
    }
    let nexts = RefCell::new(Vec::new());
    let done = recurrence.run(|own| {
        let rows: Vec<Value> = sequences.iter().map(|sequence| own.read(sequence)[0]).collect();
        let [first] = own.read(&state);
        let states = [vec![first], own.read(&carry)].concat();
        let StepResults { next, ys } = step(draft, &states, &rows, fixed, updates);
        own.write(&state, next[0]);
        own.write(&carry, next[1..].to_vec());
        nexts.borrow_mut().push(next.len());
        ys
    });
    let trace = if draft.one_in(2) { done.trace_with_init(&state) } else { done.trace(&state) };
    [vec![trace], done.last(&carry), done.ys].concat()
}
