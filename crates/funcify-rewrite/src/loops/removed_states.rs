//! Removes states whose values in all steps are computed outside of the loop. The computed values replace the traces of
//! these states, and the remaining ops of a step read the computed values as a sequence.

use super::*;

/// A state of a loop: a carry, or a buffer that works like one (see [`states()`]).
#[derive(Clone, Copy)]
pub(super) struct State {
    /// The index of the state among the loop's results.
    pub(super) number: usize,
    /// The value in the body that holds the state before a step.
    pub(super) before: ValueId,
    /// The value in the body that holds the state after a step.
    pub(super) after: ValueId,
}

/// Returns the states of a loop: first the buffers that work like carries, and then the carries. A buffer works like a
/// carry if it starts with one row, each step reads its previous row, and the loop returns all its rows.
pub(super) fn states(scan: &Scan) -> Vec<State> {
    let (body, params, results) = (&scan.body, scan.params(), scan.results());
    let state = |(number, param, result): (usize, usize, usize)| State {
        number,
        before: body.inputs()[param].value,
        after: body.outputs()[result].value,
    };
    let buffers = scan.buffers.iter().enumerate().filter_map(|(number, buffer)| {
        let is_state = buffer.start == Start::Given(1) && buffer.reads.len() == 1 && buffer.returned == Returned::All;
        is_state.then(|| (number, params.buffers[number].start, results.buffers[number].start))
    });
    let carries = params.carries.zip(results.carries).enumerate();
    let carries = carries.map(|(carry, (param, result))| (scan.buffers.len() + carry, param, result));
    buffers.chain(carries).map(state).collect()
}

impl State {
    /// Returns `true` if the state is a carry, and `false` if it is a buffer.
    pub(super) fn is_carry(&self, scan: &Scan) -> bool {
        self.number >= scan.buffers.len()
    }

    /// Returns the operand with the initial value of the state. For a buffer, this is a tensor with a single row.
    pub(super) fn start<V: Copy>(&self, scan: &Scan, operands: &[V]) -> Option<V> {
        let places = scan.operands();
        let operand = match places.buffers.get(self.number) {
            Some(operand) => (*operand)?,
            None => places.carries.start + self.number - scan.buffers.len(),
        };
        operands.get(operand).copied()
    }

    /// Concatenates the initial value and the rows of all steps. If the loop runs in reverse, the initial value comes
    /// last.
    pub(super) fn with_start(&self, scan: &Scan, start: Value, steps: Value) -> Value {
        let start = if self.is_carry(scan) { start.unsqueeze(0) } else { start };
        concat(&if scan.reverse { [steps, start] } else { [start, steps] }, 0)
    }
}

/// A state that was removed from a loop, with its remaining uses.
pub(super) struct RemovedState {
    state: State,
    /// The traces of the state. Each entry consists of the index of the result, the rows that the loop returns, and a
    /// flag: `true` if each row holds the state after a step, `false` if it holds the state before a step.
    traces: Vec<(usize, Returned, bool)>,
    reads_before: bool,
    reads_after: bool,
}

impl RemovedState {
    /// Returns `true` if the remaining ops of a step, or a trace, use the state before the step.
    pub(super) fn uses_before(&self) -> bool {
        self.reads_before || self.traces.iter().any(|(.., is_after)| !is_after)
    }
}

/// Removes states and their traces from a loop. Returns each removed state with its remaining uses.
pub(super) fn remove_states(parts: &mut Loop, states: &[State]) -> Vec<RemovedState> {
    let is_removed = |number: Option<usize>| states.iter().any(|state| number == Some(state.number));
    parts.buffers.retain(|part| !is_removed(part.number));
    parts.carries.retain(|part| !is_removed(part.number));
    let mut removed = Vec::new();
    for state in states {
        let mut traces = Vec::new();
        parts.buffers.retain(|part| {
            let is_trace = part.buffer.start == Start::Empty;
            let of = part.written.first().filter(|value| is_trace && [state.before, state.after].contains(value));
            traces.extend(of.zip(part.number).map(|(of, number)| (number, part.buffer.returned, *of == state.after)));
            of.is_none()
        });
        removed.push((*state, traces));
    }
    let needed = parts.needed(&parts.outputs(), |value| states.iter().any(|state| state.after == value));
    let reads = |(state, traces): (State, Vec<_>)| {
        let (reads_before, reads_after) = (needed[state.before.index()], needed[state.after.index()]);
        RemovedState { state, traces, reads_before, reads_after }
    };
    removed.into_iter().map(reads).collect()
}

/// The values of a state in all steps, as the rows of a tensor.
pub(super) struct StateRows {
    pub(super) rows: Value,
    /// The row offset at which a step reads the state before the step.
    pub(super) before: usize,
    /// The row offset at which a step reads the state after the step.
    pub(super) after: usize,
    /// The loop's result for the state: the last value of a carry, or all rows of a buffer.
    pub(super) result: Value,
}

impl StateRows {
    /// Creates the `StateRows` of a state from `rows`, which include the initial value.
    pub(super) fn with_start(scan: &Scan, state: &State, rows: Value) -> StateRows {
        let (before, after) = if scan.reverse { (1, 0) } else { (0, 1) };
        let result = if state.is_carry(scan) { rows.index(0, if scan.reverse { 0 } else { -1 }) } else { rows };
        StateRows { rows, before, after, result }
    }
}

/// Makes the loop read the rows of a removed state as a sequence, if a step still uses the state. Returns the values
/// that replace results of the original loop, each with the index of the result.
pub(super) fn read_as_sequence(
    parts: &mut Loop,
    reverse: bool,
    steps: &Dim,
    removed: RemovedState,
    of: StateRows,
) -> Vec<(usize, Value)> {
    let state = removed.state;
    let mut reads = Vec::new();
    for (value, offset, is_read) in
        [(state.before, of.before, removed.reads_before), (state.after, of.after, removed.reads_after)]
    {
        if is_read {
            reads.push((offset, parts.param_for(value, "running")));
        }
    }
    if !reads.is_empty() {
        parts.sequences.push(SequencePart { value: of.rows, reads });
    }
    let mut given = vec![(state.number, of.result)];
    for (number, returned, is_after) in removed.traces {
        let offset = if is_after { of.after } else { of.before };
        given.push((number, returned_rows(rows(of.rows, offset, steps), returned, reverse)));
    }
    given
}
