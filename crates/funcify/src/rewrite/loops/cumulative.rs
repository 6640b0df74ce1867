//! States that are running sums, products or extremes of a sequence leave the loop: they are the op `cumulative` (JAX writes
//! `cumsum` for what a loop adds up; PyTensor's `CumOp`).
//!
//! A state whose next value is itself combined with a value that depends on sequences only has, before and after step t, the rows
//! of one running reduction over the initial value and those values: `[s, x_0, x_1, ..]`. So nothing is combined in another order
//! than the loop did, integers and extremes are exact, and floats differ by how a library rounds within its op. Traces of the state
//! are rows of it; what else a step does with the state reads them as a sequence.
//!
//! Precondition: the loop is certain and runs all its steps; the combination is a monoid of the op, in which the state takes part
//! once; something reads the rows of the state, or it is a buffer: a final value alone is a sum over steps. The rows are no more
//! than what the loop moves anyway.

use super::cost::{bytes, bytes_of_step, is_bounded};
use super::cut::{Class, classes, lifted};
use super::{Loop, SequencePart, made_by, returned_rows, rows, uses, whole_loop};
use crate::error::Site;
use crate::graph::{ValueId, emit_value};
use crate::ops::scan::{Returned, Scan, Start};
use crate::ops::{Op, Reduce, ReduceKind};
use crate::rewrite::numbers::is_same;
use crate::rewrite::rule::{Here, Patch};
use crate::types::Dim;
use crate::value::{Value, concat};

/// A state that is a running reduction.
struct Running {
    kind: ReduceKind,
    /// Which result of the loop it is.
    number: usize,
    /// The value before a step, and after it.
    before: ValueId,
    after: ValueId,
    /// What the step combines it with.
    addend: ValueId,
    /// Whether it starts as what adds nothing.
    from_nothing: bool,
}

/// States of a loop that are running reductions.
pub(in crate::rewrite) fn cumulative(here: &Here<'_>) -> Option<Patch> {
    let scan = whole_loop(here)?;
    let states = running(here, scan);
    if states.is_empty() {
        return None;
    }
    here.build(here.operands, |operands| moved(scan, &states, operands))
}

fn running(here: &Here<'_>, scan: &Scan) -> Vec<Running> {
    let mut states = combined(here, scan);
    if states.is_empty() {
        return states;
    }
    let (uses, classes, present) = (uses(&scan.body), classes(scan), bytes_of_step(scan));
    let mut held = Dim::from(0);
    states.retain(|Running { number, before, after, addend, .. }| {
        let is_read = *number < scan.buffers.len() || uses[before.index()] > 1 || uses[after.index()] > 1;
        let with = held.clone() + bytes(scan.body.ty(*before));
        let is_moved =
            is_read && classes[addend.index()] == Class::Steady && is_bounded(&with, &present, 1, &scan.steps);
        if is_moved {
            held = with;
        }
        is_moved
    });
    states
}

/// The states whose next value is themselves combined with another value.
fn combined(here: &Here<'_>, scan: &Scan) -> Vec<Running> {
    let (body, params, results, places) = (&scan.body, scan.params(), scan.results(), scan.operands());
    let buffers = scan.buffers.iter().enumerate().filter_map(|(number, buffer)| {
        let is_state = buffer.start == Start::Given(1) && buffer.reads.len() == 1 && buffer.returned == Returned::All;
        is_state.then(|| (number, params.buffers[number].start, results.buffers[number].start))
    });
    let carries = params.carries.clone().zip(results.carries.clone()).enumerate();
    let carries = carries.map(|(carry, (param, result))| (scan.buffers.len() + carry, param, result));
    let combination = |(number, param, result): (usize, usize, usize)| {
        let (before, after) = (body.inputs()[param].value, body.outputs()[result].value);
        let (Op::Binary(op), &[left, right]) = made_by(body, after)? else { return None };
        let addend = if left == before { right } else { left };
        let kind = ReduceKind::of(*op, body.ty(before).dtype).filter(|_| left == before || right == before)?;
        let start = number.checked_sub(scan.buffers.len()).map(|carry| here.operands[places.carries.start + carry]);
        let nothing = kind.identity(body.ty(before).dtype);
        let from_nothing = start.and_then(|start| here.splat(start)).is_some_and(|start| is_same(start, nothing));
        Some(Running { kind, number, before, after, addend, from_nothing })
    };
    buffers.chain(carries).filter_map(combination).collect()
}

/// The loop without these states, whose rows it reads as sequences.
fn moved(scan: &Scan, states: &[Running], operands: &[Value]) -> Option<Vec<Value>> {
    let (uses, places) = (uses(&scan.body), scan.operands());
    let mut parts = Loop::of(scan, operands);
    let addends: Vec<ValueId> = states.iter().map(|state| state.addend).collect();
    let addends = lifted(&parts, &scan.steps, &[], &addends)?;
    let mut given = vec![None; scan.buffers.len() + scan.carries];
    for (state, addends) in states.iter().zip(addends) {
        let start = match places.buffers.get(state.number) {
            Some(operand) => operands[(*operand)?],
            None => operands[places.carries.start + state.number - scan.buffers.len()],
        };
        // One use of each is the combination, and what the state is next.
        let (mut before_uses, mut after_uses) = (uses[state.before.index()] - 1, uses[state.after.index()] - 1);
        let trace = Trace::of(scan, state, start, addends, before_uses > 0);
        given[state.number] = Some(trace.result);
        parts.buffers.retain(|part| part.number != Some(state.number));
        parts.carries.retain(|part| part.number != Some(state.number));
        let mut reads = Vec::new();
        for (value, offset, uses) in
            [(state.before, trace.before, &mut before_uses), (state.after, trace.after, &mut after_uses)]
        {
            parts.buffers.retain(|part| {
                let number = part.number.filter(|_| part.buffer.start == Start::Empty && part.written == [value]);
                let Some(number) = number else { return true };
                given[number] =
                    Some(returned_rows(rows(trace.rows, offset, &scan.steps), part.buffer.returned, scan.reverse));
                *uses -= 1;
                false
            });
            if *uses > 0 {
                reads.push((offset, parts.param_for(value, "running")));
            }
        }
        if !reads.is_empty() {
            parts.sequences.push(SequencePart { value: trace.rows, reads });
        }
    }
    let mut results = parts.emit_rest()?.old;
    results.iter_mut().zip(given).for_each(|(result, given)| *result = given.or(*result));
    results.into_iter().collect()
}

/// The rows of a state.
struct Trace {
    rows: Value,
    /// At which offset a step reads the state before it, and after it.
    before: usize,
    after: usize,
    /// What the state gives in the end.
    result: Value,
}

impl Trace {
    fn of(scan: &Scan, state: &Running, start: Value, addends: Value, is_read_before: bool) -> Trace {
        let (kind, reverse) = (state.kind, scan.reverse);
        let is_carry = state.number >= scan.buffers.len();
        let last = |rows: Value| rows.index(0, if reverse { 0 } else { -1 });
        if is_carry && state.from_nothing && !is_read_before {
            let rows = addends.cumulative(kind, 0, reverse);
            let result = match scan.steps.is_at_least(&Dim::from(1)) {
                Some(true) => last(rows),
                _ => {
                    let all = addends.emit(Reduce { kind, axes: vec![0] });
                    emit_value(kind.binary(), &[start, all], Site::Unknown)
                }
            };
            return Trace { rows, before: 0, after: 0, result };
        }
        let start = if is_carry { start.unsqueeze(0) } else { start };
        let rows = concat(&if reverse { [addends, start] } else { [start, addends] }, 0).cumulative(kind, 0, reverse);
        let (before, after) = if reverse { (1, 0) } else { (0, 1) };
        Trace { rows, before, after, result: if is_carry { last(rows) } else { rows } }
    }
}
