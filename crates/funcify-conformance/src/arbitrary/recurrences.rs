//! Adds loops with taps to a random program. Some are built with `Recurrence`. Others are built directly as `Scan` ops,
//! with arbitrary offsets, directions, early exits and numbers of returned rows.

use std::sync::Arc;

use funcify::ops::Scan;
use funcify::ops::scan::{Buffer, Returned, Sequence, Start};
use funcify::recurrence::{self, MitMot, State, Step};
use funcify::{DType, Dim, Graph, Recurrence, Shape, Symbol, TensorType, Value, apply, concat};

use super::program_builder::{Entry, MAX_CARRY, ProgramBuilder};

/// A handle to a sequence, state or buffer of a recurrence. The variants' names give the number of taps: for buffers,
/// first the number of read taps, then the number of write taps.
enum Handle {
    Sequence1(recurrence::Sequence<1>),
    Sequence2(recurrence::Sequence<2>),
    Sequence3(recurrence::Sequence<3>),
    State1(State<1>),
    State2(State<2>),
    State3(State<3>),
    Buffer01(MitMot<0, 1>),
    Buffer11(MitMot<1, 1>),
    Buffer21(MitMot<2, 1>),
    Buffer12(MitMot<1, 2>),
    Buffer22(MitMot<2, 2>),
}

impl Handle {
    fn read(&self, step: &Step<'_>) -> Vec<Value> {
        match self {
            Handle::Sequence1(handle) => step.read(handle).to_vec(),
            Handle::Sequence2(handle) => step.read(handle).to_vec(),
            Handle::Sequence3(handle) => step.read(handle).to_vec(),
            Handle::State1(handle) => step.read(handle).to_vec(),
            Handle::State2(handle) => step.read(handle).to_vec(),
            Handle::State3(handle) => step.read(handle).to_vec(),
            Handle::Buffer01(handle) => step.read(handle).to_vec(),
            Handle::Buffer11(handle) => step.read(handle).to_vec(),
            Handle::Buffer21(handle) => step.read(handle).to_vec(),
            Handle::Buffer12(handle) => step.read(handle).to_vec(),
            Handle::Buffer22(handle) => step.read(handle).to_vec(),
        }
    }

    fn writes(&self) -> usize {
        match self {
            Handle::Sequence1(_) | Handle::Sequence2(_) | Handle::Sequence3(_) => 0,
            Handle::Buffer12(_) | Handle::Buffer22(_) => 2,
            _ => 1,
        }
    }

    fn write(&self, step: &mut Step<'_>, rows: &[Value]) {
        match self {
            Handle::Sequence1(_) | Handle::Sequence2(_) | Handle::Sequence3(_) => {}
            Handle::State1(handle) => step.write(handle, rows[0]),
            Handle::State2(handle) => step.write(handle, rows[0]),
            Handle::State3(handle) => step.write(handle, rows[0]),
            Handle::Buffer01(handle) => step.write(handle, [rows[0]]),
            Handle::Buffer11(handle) => step.write(handle, [rows[0]]),
            Handle::Buffer21(handle) => step.write(handle, [rows[0]]),
            Handle::Buffer12(handle) => step.write(handle, [rows[0], rows[1]]),
            Handle::Buffer22(handle) => step.write(handle, [rows[0], rows[1]]),
        }
    }
}

/// A handle, with the type of its rows and a bound on their magnitude.
struct Part {
    handle: Handle,
    row: TensorType,
    bound: f64,
}

impl ProgramBuilder<'_> {
    /// Picks a float value of rank 1 to 3. Returns the value and its number of rows, or `None` if no value fits.
    fn float_with_rows(&mut self) -> Option<(Entry, usize)> {
        let entry = self.float_of_rank(1).filter(|entry| entry.value.rank() <= 3)?;
        let rows = self.size(&entry.value.shape()[0])?;
        Some((entry, rows))
    }

    /// Picks `count` initial rows of this shape, and stacks them.
    fn initial_rows(&mut self, row: &Shape, count: usize) -> Value {
        let rows: Vec<Value> = (0..count)
            .map(|_| {
                let entry = self.float_of_shape(row);
                self.limit_magnitude(entry.value, entry.bound, MAX_CARRY).0.unsqueeze(0)
            })
            .collect();
        concat(&rows, 0)
    }

    /// Picks the shape of a state's rows.
    fn row_shape(&mut self) -> Shape {
        let shape = self.float().value.shape();
        let is_fixed = shape.dims().iter().all(|dim| self.size(dim).is_some());
        if is_fixed && shape.rank() <= 2 { shape } else { Shape::scalar() }
    }

    /// Computes a row of type `row` for a step to write. If the old row `old` has this type, the new row often depends
    /// on it.
    fn row_to_write(&mut self, row: &TensorType, old: Option<Value>) -> Value {
        if row.dtype != DType::F64 {
            return match old.filter(|old| old.ty() == *row) {
                Some(old) => self.next_carry(old),
                None => self.integers(&row.shape),
            };
        }
        if let Some(old) = old.filter(|old| old.ty() == *row)
            && !self.choices.one_in(3)
        {
            return self.next_carry(old);
        }
        let entry = self.float_of_shape(&row.shape);
        self.limit_magnitude(entry.value, entry.bound, MAX_CARRY).0
    }
}

/// Adds a loop built with `Recurrence`.
pub(super) fn recurrence(builder: &mut ProgramBuilder<'_>) {
    let mut recurrence = Recurrence::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut most = 3;
    for _ in 0..builder.choices.below(3) {
        if let Some((part, steps)) = sequence(builder, &mut recurrence) {
            parts.push(part);
            most = most.min(steps);
        }
    }
    for _ in 0..builder.choices.below(2) {
        if let Some((part, steps)) = full_buffer(builder, &mut recurrence) {
            parts.push(part);
            most = most.min(steps);
        }
    }
    for _ in 0..builder.choices.below(3) {
        parts.push(state(builder, &mut recurrence));
    }
    let init = if builder.choices.one_in(2) { builder.states() } else { Vec::new() };
    let carry = recurrence.carry(init.clone());
    builder.count("recurrence");
    match builder.choices.below(4) {
        0 | 1 => _ = recurrence.steps(most),
        2 => _ = recurrence.steps(builder.choices.below(most + 1)),
        _ => {
            builder.count("recurrence_computed_steps");
            let steps = builder.integer_to(most);
            recurrence.steps_value(steps);
        }
    }
    if builder.choices.one_in(3) {
        builder.count("backwards");
        recurrence.backwards();
    }
    let has_until = builder.choices.one_in(3);
    let mut bounds = Vec::new();
    let done = recurrence.run(|step| {
        let mut params = Vec::new();
        let mut read = Vec::new();
        for part in &parts {
            let rows = part.handle.read(step);
            params.extend(rows.iter().map(|row| ProgramBuilder::entry(*row, part.bound)));
            read.push(rows);
        }
        let states: Vec<Value> = step.read(&carry);
        params.extend(ProgramBuilder::state_entries(&states));
        builder.build_body(params, |builder| {
            for (part, rows) in parts.iter().zip(&read) {
                let write = |builder: &mut ProgramBuilder<'_>, index: usize| {
                    builder.row_to_write(&part.row, rows.get(index).or(rows.first()).copied())
                };
                let written: Vec<Value> = (0..part.handle.writes()).map(|index| write(builder, index)).collect();
                part.handle.write(step, &written);
            }
            let next = builder.next_carries(&states);
            step.write(&carry, next);
            if has_until {
                builder.count("recurrence_until");
                let stop = builder.boolean();
                step.until(stop);
            }
            let ys = builder.pick_ys(1);
            bounds = ys.iter().map(|entry| entry.bound).collect();
            ys.iter().map(|entry| entry.value).collect::<Vec<_>>()
        })
    });
    for part in &parts {
        let with_init = builder.choices.one_in(2);
        let trace = match &part.handle {
            Handle::State1(state) if with_init => done.trace_with_init(state),
            Handle::State1(state) => done.trace(state),
            Handle::State2(state) if with_init => done.trace_with_init(state),
            Handle::State2(state) => done.trace(state),
            Handle::State3(state) if with_init => done.trace_with_init(state),
            Handle::State3(state) => done.trace(state),
            Handle::Buffer01(buffer) => done.buffer(buffer),
            Handle::Buffer11(buffer) => done.buffer(buffer),
            Handle::Buffer21(buffer) => done.buffer(buffer),
            Handle::Buffer12(buffer) => done.buffer(buffer),
            Handle::Buffer22(buffer) => done.buffer(buffer),
            _ => continue,
        };
        let last_is_there =
            matches!(part.handle, Handle::State1(_) | Handle::State2(_) | Handle::State3(_)) && with_init;
        if last_is_there && builder.choices.one_in(2) {
            builder.count("last_row");
            builder.add(trace.index(0, -1), MAX_CARRY);
        } else {
            builder.add(trace, MAX_CARRY);
        }
    }
    for value in done.last(&carry) {
        builder.add(value, MAX_CARRY);
    }
    for (y, bound) in done.ys.iter().zip(bounds) {
        builder.add(*y, bound);
    }
    if builder.choices.one_in(4) {
        builder.count("steps_that_ran");
        builder.add(done.steps(), 3.0);
    }
}

fn sequence(builder: &mut ProgramBuilder<'_>, recurrence: &mut Recurrence) -> Option<(Part, usize)> {
    let (x, rows) = builder.float_with_rows()?;
    let (value, bound, row) = (x.value, x.bound, x.value.ty().row()?);
    let (handle, span) = match builder.choices.below(10) {
        0 => (Handle::Sequence1(recurrence.sequence(value, [0])), 0),
        1 if rows > 1 => (Handle::Sequence2(recurrence.sequence(value, [-1, 0])), 1),
        2 if rows > 1 => (Handle::Sequence2(recurrence.sequence(value, [0, 1])), 1),
        3 if rows > 1 => (Handle::Sequence1(recurrence.sequence(value, [1])), 1),
        4 if rows > 2 => (Handle::Sequence2(recurrence.sequence(value, [1, -1])), 2),
        5 if rows > 2 => (Handle::Sequence3(recurrence.sequence(value, [-1, 1, 0])), 2),
        6 if rows > 2 => (Handle::Sequence1(recurrence.sequence(value, [-2])), 2),
        7 if rows > 1 => (Handle::Sequence3(recurrence.sequence(value, [0, 0, 1])), 1),
        8 if rows > 1 => (Handle::Sequence3(recurrence.sequence(value, [-1, 0, -1])), 1),
        9 => (Handle::Sequence2(recurrence.sequence(value, [0, 0])), 0),
        _ => (Handle::Sequence1(recurrence.sequence(value, [0])), 0),
    };
    Some((Part { handle, row, bound }, rows - span))
}

fn state(builder: &mut ProgramBuilder<'_>, recurrence: &mut Recurrence) -> Part {
    let shape = builder.row_shape();
    let kind = builder.choices.below(8);
    let given = [1, 2, 2, 3, 3, 2, 3, 1][kind];
    let mut row = TensorType::new(DType::F64, shape.clone());
    let mut init = builder.initial_rows(&shape, given);
    if builder.choices.one_in(7) {
        row.dtype = DType::I64;
        init = (init * 2.0).floor().cast(DType::I64);
    }
    let handle = match kind {
        0 => Handle::State1(recurrence.sit_sot(init.index(0, 0))),
        1 => Handle::State2(recurrence.mit_sot(init, [-2, -1])),
        2 => Handle::State2(recurrence.mit_sot(init, [-1, -2])),
        3 => Handle::State2(recurrence.mit_sot(init, [-3, -1])),
        4 => Handle::State3(recurrence.mit_sot(init, [-1, -3, -2])),
        5 => Handle::State1(recurrence.mit_sot(init, [-2])),
        6 => Handle::State1(recurrence.mit_sot(init, [-3])),
        _ => Handle::State1(recurrence.mit_sot(init, [-1])),
    };
    let bound = if row.dtype == DType::F64 { MAX_CARRY } else { 9.0 };
    Part { handle, row, bound }
}

fn full_buffer(builder: &mut ProgramBuilder<'_>, recurrence: &mut Recurrence) -> Option<(Part, usize)> {
    let (x, rows) = builder.float_with_rows()?;
    let (mut value, _) = builder.limit_magnitude(x.value, x.bound, MAX_CARRY);
    let mut rows = rows;
    if rows < 3 {
        value = concat(&[value, value * 0.5, value * -0.8], 0);
        rows *= 3;
    }
    if rows < 3 {
        return None;
    }
    let (handle, span) = match builder.choices.below(12) {
        0 => (Handle::Buffer11(recurrence.mit_mot(value, [0], [0])), 0),
        1 => (Handle::Buffer11(recurrence.mit_mot(value, [0], [1])), 1),
        2 => (Handle::Buffer11(recurrence.mit_mot(value, [1], [0])), 1),
        3 => (Handle::Buffer21(recurrence.mit_mot(value, [0, 1], [0])), 1),
        4 => (Handle::Buffer21(recurrence.mit_mot(value, [0, 1], [1])), 1),
        5 => (Handle::Buffer21(recurrence.mit_mot(value, [1, 0], [2])), 2),
        6 => (Handle::Buffer12(recurrence.mit_mot(value, [0], [0, 1])), 1),
        7 => (Handle::Buffer12(recurrence.mit_mot(value, [1], [2, 0])), 2),
        8 => (Handle::Buffer22(recurrence.mit_mot(value, [0, 1], [1, 0])), 1),
        9 => (Handle::Buffer22(recurrence.mit_mot(value, [-1, 1], [0, 1])), 2),
        10 => (Handle::Buffer01(recurrence.mit_mot(value, [], [1])), 0),
        _ => (Handle::Buffer22(recurrence.mit_mot(value, [0, 2], [1, 2])), 2),
    };
    Some((Part { handle, row: value.ty().row()?, bound: MAX_CARRY }, rows - span))
}

/// Adds a loop that the user-facing functions cannot build: it may run in reverse from given initial rows, have
/// arbitrary offsets, and return only the last rows.
pub(super) fn raw_loop(builder: &mut ProgramBuilder<'_>) {
    let reverse = builder.choices.one_in(2);
    let mut most = 3;
    let (mut sequences, mut sequence_values) = (Vec::new(), Vec::new());
    for _ in 0..builder.choices.below(3) {
        let Some((x, rows)) = builder.float_with_rows() else { continue };
        let reads: Vec<usize> = builder.choices.pick(&[
            vec![0],
            vec![1],
            vec![1, 0],
            vec![0, 2],
            vec![2, 0, 1],
            vec![0, 0],
            vec![0, 0, 1],
            vec![1, 0, 1],
        ]);
        let reach = reads.iter().copied().max().expect("a sequence has at least one tap");
        if rows >= reach {
            most = most.min(rows - reach);
            sequences.push(Sequence { reads });
            sequence_values.push(x);
        }
    }
    let (mut buffers, mut buffer_values) = (Vec::new(), Vec::new());
    for _ in 0..1 + builder.choices.below(2) {
        if builder.choices.one_in(3) {
            let given = 1 + builder.choices.below(3);
            let shape = builder.row_shape();
            buffer_values.push(builder.initial_rows(&shape, given));
            let mut reads: Vec<usize> = (0..given).filter(|_| !builder.choices.one_in(3)).collect();
            if builder.choices.one_in(2) {
                reads.reverse();
            }
            let reads = reads.into_iter().map(|offset| offset + usize::from(reverse)).collect();
            let write = if reverse { 0 } else { given };
            buffers.push((Start::Given(given), reads, vec![write], 0));
        } else if let Some((x, rows)) = builder.float_with_rows() {
            const TAPS: [(&[usize], &[usize]); 9] = [
                (&[0], &[0]),
                (&[0], &[1]),
                (&[1], &[0]),
                (&[0, 1], &[1, 0]),
                (&[1, 0, 2], &[1]),
                (&[0], &[2, 1]),
                (&[], &[0]),
                (&[2, 0], &[0, 1, 2]),
                (&[2], &[1]),
            ];
            let (reads, writes) = builder.choices.pick(&TAPS);
            let reach = reads.iter().chain(writes).copied().max().expect("a buffer has at least one write tap");
            if rows >= reach {
                most = most.min(rows - reach);
                buffer_values.push(builder.limit_magnitude(x.value, x.bound, MAX_CARRY).0);
                buffers.push((Start::Full, reads.to_vec(), writes.to_vec(), rows));
            }
        }
    }
    let steps = if builder.choices.one_in(5) { builder.choices.below(most + 1) } else { most };
    let init = if builder.choices.one_in(2) { builder.states() } else { Vec::new() };
    let captured: Vec<Entry> = (0..1 + builder.choices.below(2)).map(|_| builder.float()).collect();
    if captured.iter().any(|entry| !builder.has_known_sizes(&entry.value.ty())) {
        return;
    }
    // An early exit binds a symbol, and loops in a separate graph must not bind symbols.
    let ends = !builder.is_separate_graph && builder.choices.one_in(3);
    // The body is a separate graph, so every value that it uses must be an input.
    let row = |value: &Value| value.ty().row().unwrap_or_else(|| value.ty());
    let mut params: Vec<(TensorType, f64)> = Vec::new();
    for (sequence, x) in sequences.iter().zip(&sequence_values) {
        params.extend(sequence.reads.iter().map(|_| (row(&x.value), x.bound)));
    }
    let buffer_rows: Vec<TensorType> = buffer_values.iter().map(row).collect();
    for ((_, reads, ..), row) in buffers.iter().zip(&buffer_rows) {
        params.extend(reads.iter().map(|_: &usize| (row.clone(), MAX_CARRY)));
    }
    let carries_at = params.len();
    params.extend(init.iter().map(|value| (value.ty(), MAX_CARRY)));
    params.extend(captured.iter().map(|entry| (entry.value.ty(), entry.bound)));
    let outside = std::mem::take(&mut builder.scope);
    let is_separate_graph = std::mem::replace(&mut builder.is_separate_graph, true);
    let mut bounds = Vec::new();
    let body = Graph::build("step", |g| {
        let inputs: Vec<Entry> = (params.iter().enumerate())
            .map(|(index, (ty, bound))| ProgramBuilder::entry(g.input(&format!("p{index}"), ty), *bound))
            .collect();
        let states: Vec<Value> = inputs[carries_at..carries_at + init.len()].iter().map(|entry| entry.value).collect();
        let mut first = sequences.iter().map(|sequence| sequence.reads.len()).sum();
        builder.build_body(inputs.clone(), |builder| {
            let mut results = Vec::new();
            for ((_, reads, writes, _), row) in buffers.iter().zip(&buffer_rows) {
                let old = inputs[first..first + reads.len()].to_vec();
                first += reads.len();
                for index in 0..writes.len() {
                    let old = old.get(index).or(old.first()).map(|entry| entry.value);
                    results.push(builder.row_to_write(row, old));
                }
            }
            let ys = builder.pick_ys(2);
            bounds = ys.iter().map(|entry| entry.bound).collect();
            results.extend(ys.iter().map(|entry| entry.value));
            results.extend(builder.next_carries(&states));
            results.extend(ends.then(|| builder.boolean()));
            results
        })
    });
    builder.scope = outside;
    builder.is_separate_graph = is_separate_graph;
    let body = match body {
        Ok(body) => body,
        Err(error) => return builder.error = Some(error),
    };
    let mut all: Vec<Buffer> = Vec::new();
    let empty = bounds.iter().map(|_| (Start::Empty, Vec::new(), vec![0], 0));
    for (start, reads, writes, rows) in buffers.into_iter().chain(empty) {
        // With an early exit, only one step is certain to run.
        let ran = if ends { steps.min(1) } else { steps };
        let rows = match start {
            Start::Given(given) => ran + given,
            Start::Full => rows,
            Start::Empty => ran,
        };
        let mut returned = Returned::All;
        if rows > 0 && builder.choices.one_in(3) {
            builder.count("last_k");
            returned = Returned::Last(1 + builder.choices.below(rows));
        }
        all.push(Buffer { start, reads, writes, returned });
    }
    builder.count(if reverse { "raw_loop_reverse" } else { "raw_loop" });
    if ends {
        builder.count("raw_loop_until");
    }
    let scan = Scan {
        body: Arc::new(body),
        steps: Dim::from(steps),
        steps_operand: false,
        until: ends.then(|| Symbol::new(&format!("$ran{}", builder.parts["raw_loop_until"]))),
        reverse,
        sequences,
        buffers: all,
        carries: init.len(),
        invariants: captured.len(),
        unroll: 1,
        policy: builder.choices.one_in(6).then(|| super::transforms::policy(builder)),
        truncate: None,
    };
    let operands: Vec<Value> = (sequence_values.iter().map(|entry| entry.value))
        .chain(buffer_values.iter().copied())
        .chain(init.iter().copied())
        .chain(captured.iter().map(|entry| entry.value))
        .collect();
    let results = apply(scan, &operands);
    for (index, result) in results.into_iter().enumerate() {
        let y = index.checked_sub(buffer_values.len()).and_then(|index| bounds.get(index));
        builder.add(result, y.copied().unwrap_or(MAX_CARRY));
    }
}
