//! Moves running sums, products, minima and maxima of a sequence out of the loop, and computes them with the op
//! `cumulative` (JAX's `cumsum`; PyTensor's `CumOp`).
//!
//! In such a loop, each step combines a state with a value `x_t` that depends only on sequences. The values of the
//! state are then the rows of a running reduction over `[s, x_0, x_1, ..]`, where `s` is the initial value. The op
//! combines the rows in the same order as the loop, so integers, minima and maxima are exact. Sums and products of
//! floats differ from those of the loop by at most the rounding error of the backend's op. Traces of the state are
//! taken from the rows of the result, and the remaining ops of a step read these rows as a sequence.
//!
//! Precondition: the loop cannot fail, and runs all its steps. The op that combines the state with `x_t` is one that
//! `cumulative` supports. The state is a buffer, or other ops of the step read its values. A carry is left unchanged if
//! only its final value is used. If such a carry is a sum over steps, another rule moves the sum out of the loop. The
//! rows of all replaced states together take at most 64 KiB, or at most as much memory as the data that the loop
//! already reads and writes.

use funcify_core::graph::emit_value;

use super::removed_states::{RemovedState, State, StateRows, read_as_sequence, remove_states, states};
use super::*;
use crate::numbers::is_same;

/// A state that is a running reduction.
struct Running {
    kind: ReduceKind,
    state: State,
    /// The value that each step combines with the state.
    addend: ValueId,
    /// `true` if the state is a carry whose initial value is the neutral element of the reduction.
    starts_at_identity: bool,
}

/// Replaces states that are running reductions with `cumulative` ops.
pub(crate) fn cumulative(context: &RewriteContext<'_>) -> Option<Patch> {
    let scan = whole_loop(context)?;
    let states = running_states(context, scan);
    if states.is_empty() {
        return None;
    }
    context.build(context.operands, |operands| emit_as_cumulative(scan, &states, operands))
}

fn running_states(context: &RewriteContext<'_>, scan: &Scan) -> Vec<Running> {
    let mut running: Vec<Running> =
        states(scan).into_iter().filter_map(|state| combination(context, scan, state)).collect();
    if running.is_empty() {
        return running;
    }
    let (uses, classes, present) = (uses(&scan.body), classes(scan), bytes_of_step(scan));
    let mut held = Dim::from(0);
    running.retain(|Running { state, addend, .. }| {
        let is_read = !state.is_carry(scan) || uses[state.before.index()] > 1 || uses[state.after.index()] > 1;
        let with = held.clone() + bytes(scan.body.ty(state.before));
        let is_moved =
            is_read && classes[addend.index()] == Class::FromSequences && is_bounded(&with, &present, 1, &scan.steps);
        if is_moved {
            held = with;
        }
        is_moved
    });
    running
}

/// Recognises a state that is a running reduction. Returns `None` for any other state.
fn combination(context: &RewriteContext<'_>, scan: &Scan, state: State) -> Option<Running> {
    let State { before, after, .. } = state;
    let (Op::Binary(op), &[left, right]) = defining_op(&scan.body, after)? else { return None };
    let addend = if left == before { right } else { left };
    let dtype = scan.body.ty(before).dtype;
    let kind = ReduceKind::of(*op, dtype).filter(|_| left == before || right == before)?;
    let start = state.start(scan, context.operands).filter(|_| state.is_carry(scan));
    let identity = kind.identity(dtype);
    let starts_at_identity = start.and_then(|start| context.splat(start)).is_some_and(|start| is_same(start, identity));
    Some(Running { kind, state, addend, starts_at_identity })
}

/// Computes the given states with `cumulative` ops, and removes them from the loop. The remaining loop reads the values
/// of these states as sequences.
fn emit_as_cumulative(scan: &Scan, running: &[Running], operands: &[Value]) -> Option<Vec<Value>> {
    let mut parts = Loop::of(scan, operands);
    let addends: Vec<ValueId> = running.iter().map(|running| running.addend).collect();
    let addends = compute_for_all_steps(&parts, &scan.steps, &[], &addends)?;
    let states: Vec<State> = running.iter().map(|running| running.state).collect();
    let mut given = Vec::new();
    for ((running, addends), removed) in running.iter().zip(addends).zip(remove_states(&mut parts, &states)) {
        let rows = running.rows(scan, running.state.start(scan, operands)?, addends, &removed);
        given.extend(read_as_sequence(&mut parts, scan.reverse, &scan.steps, removed, rows));
    }
    let mut results = parts.emit_rest()?.old;
    given.into_iter().for_each(|(number, value)| results[number] = Some(value));
    results.into_iter().collect()
}

impl Running {
    fn rows(&self, scan: &Scan, start: Value, addends: Value, removed: &RemovedState) -> StateRows {
        let (kind, reverse) = (self.kind, scan.reverse);
        if self.starts_at_identity && !removed.uses_before() {
            let rows = addends.cumulative(kind, 0, reverse);
            let result = match scan.steps.is_at_least(&Dim::from(1)) {
                Some(true) => rows.index(0, if reverse { 0 } else { -1 }),
                _ => {
                    let all = addends.emit(Reduce { kind, axes: vec![0] });
                    emit_value(kind.binary(), &[start, all], Site::Unknown)
                }
            };
            return StateRows { rows, before: 0, after: 0, result };
        }
        let rows = self.state.with_start(scan, start, addends).cumulative(kind, 0, reverse);
        StateRows::with_start(scan, &self.state, rows)
    }
}
