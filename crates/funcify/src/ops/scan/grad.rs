//! The reverse rule of the loop: one loop in the other direction, in the same row coordinates.
//!
//! Its body computes a step of the loop again, from what the forward pass saved ([`saves`](super::saves)), and pulls
//! cotangents back through it. What it carries, for each part of the loop:
//!
//! - a buffer: a full buffer G of the same rows, which starts as the cotangent of the final buffer. A step reads `G[t+k]`
//!   for k in `writes`, as the cotangents of the written rows, and then
//!   `G[t+k] := (k in writes ? 0 : G[t+k]) + (k in reads ? d(read k) : 0)` for k in `reads` and in `writes`: what was
//!   overwritten has no share in what came after. If the buffer started from some given rows, only those are seen at
//!   the end, and the zeros are not written. In PyTensor's reversed coordinates the backward of a sit-sot has reads
//!   (0, 1), writes (1), as its `L_op` has.
//! - a buffer that no step reads: a sequence, the cotangent of its trace.
//! - a sequence: with one tap a nit-sot, placed in zeros; with several a full buffer of sums.
//! - a carry: a carry. An invariant: a carried sum. What is no float has none.
//!
//! A loop that ends early goes back over the steps that ran, one that is truncated over the last ones: see
//! [`span`](super::span). The rows of the backward loop are counted from the first row of these.
//!
//! A buffer or a carry has a cotangent if its final value has or if a step gives it one: see [`reach`](crate::ops::reach).

use super::parts::{BufferPart, Hints, Parts, Rows, SequencePart};
use super::saves::{Saves, State, slice_rows};
use super::span::{Span, tail, with_head};
use super::{Buffer, Scan, Start, Wanted};
use crate::derivative::{Primals, Tape, add};
use crate::graph::{Value, ValueId, concat};
use crate::ops::pad::{Pad, pad_with_zeros};
use crate::ops::reach::Guess;
use crate::types::{Dim, TensorType};

pub(super) fn vjp(scan: &Scan, primals: &Primals<'_>, cotangents: &[Option<Value>]) -> Vec<Option<Value>> {
    let saves = Saves::of(scan, &scan.kept(&primals.choices.residuals));
    let mut of_buffers = Vec::with_capacity(scan.buffers.len());
    for (index, (buffer, cotangent)) in scan.buffers.iter().zip(cotangents).enumerate() {
        of_buffers.push(cotangent.map(|cotangent| match buffer.wanted {
            Wanted::All => cotangent,
            Wanted::Last(count) => {
                let rest = primals.saved[index].dim(0) - count;
                let (low, high) = if scan.reverse { (Dim::from(0), rest) } else { (rest, Dim::from(0)) };
                pad_with_zeros(Pad { axis: 0, low, high, interior: 0 }, cotangent)
            }
        }));
    }
    let of_carries = cotangents[scan.buffers.len()..].to_vec();
    let least: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
    let (_, guess) = scan.pulled(&least, &mut scan.pull(primals.wanted));
    let backward = Backward {
        scan,
        primals,
        span: Span::of(scan),
        active: scan.active_params(primals.wanted),
        buffers: Vec::new(),
        carries: Vec::new(),
        saves,
        of_buffers,
        of_carries,
    };
    backward.vjp(Guess::new(least, guess)).unwrap_or_else(|| primals.none())
}

struct Backward<'a> {
    scan: &'a Scan,
    primals: &'a Primals<'a>,
    /// The steps of the backward loop.
    span: Span,
    saves: Saves,
    /// Which parameters of the body are to get cotangents.
    active: Vec<bool>,
    /// The cotangents of the final buffers.
    of_buffers: Vec<Option<Value>>,
    /// The cotangents of the final carries.
    of_carries: Vec<Option<Value>>,
    /// Which buffers have cotangents.
    buffers: Vec<bool>,
    /// Which carries have cotangents.
    carries: Vec<bool>,
}

/// Where a step of the backward loop finds something.
#[derive(Clone, Copy)]
enum Row {
    Sequence(usize, usize),
    Buffer(usize, usize),
    Carry(usize),
    Captured(Value),
}

/// Which part of the backward loop is what.
struct Plan {
    /// The parameters of the forward body.
    arguments: Vec<Row>,
    /// The values of the forward body that were saved.
    known: Vec<(ValueId, Row)>,
    /// The cotangents of its results.
    cotangents: Vec<Option<Row>>,
    /// For each buffer its G.
    buffers: Vec<Option<usize>>,
    /// For each sequence with several taps the buffer of its sums, and its offsets.
    sums: Vec<Option<(usize, Vec<usize>)>>,
    /// For each invariant the carry of its sum.
    invariants: Vec<Option<usize>>,
}

/// What a step gives.
#[derive(Default)]
struct Found {
    buffers: Vec<bool>,
    carries: Vec<bool>,
    sums: Vec<bool>,
    invariants: Vec<bool>,
    /// The type of a row for each sequence with one tap that has a cotangent.
    rows: Vec<Option<TensorType>>,
}

impl Backward<'_> {
    fn vjp(mut self, mut states: Guess) -> Option<Vec<Option<Value>>> {
        loop {
            let (buffers, carries) = states.flags().split_at(self.scan.buffers.len());
            (self.buffers, self.carries) = (buffers.to_vec(), carries.to_vec());
            let (mut parts, plan) = self.parts();
            let mut found = Found::default();
            let body = parts.trace(|rows| self.step(rows, &plan, &mut found))?;
            if !states.holds([found.buffers.as_slice(), &found.carries].concat()) {
                continue;
            }
            for row in found.rows.iter().flatten() {
                let buffer = Buffer { start: Start::Empty, reads: vec![], writes: vec![0], wanted: Wanted::All };
                parts.buffers.push(BufferPart { buffer, value: None, row: row.clone(), names: vec![] });
            }
            let first_carry = parts.buffers.len();
            let results = parts.emit(body);
            if results.iter().any(|result| result.is_poison()) {
                return None;
            }
            return Some(self.cotangents(&plan, &found, &results, first_carry));
        }
    }

    /// Whether the cotangent of a buffer is only read: no row of it is read by a step of the loop.
    fn is_read_only(&self, buffer: usize) -> bool {
        let buffer = &self.scan.buffers[buffer];
        buffer.start != Start::Full && buffer.reads.is_empty()
    }

    /// The first row of the backward loop in a buffer: one that grows has the rows of the steps that ran, a full one all.
    fn first_row(&self, buffer: usize) -> &Dim {
        match self.scan.buffers[buffer].start {
            Start::Full => &self.span.first,
            _ => &self.span.first_that_ran,
        }
    }

    fn parts(&self) -> (Parts<'_>, Plan) {
        let (scan, span, operands, saved) = (self.scan, &self.span, self.primals.operands, self.primals.saved);
        let (body, layout, results, places) = (&scan.body, scan.params(), scan.results(), scan.operands());
        let name = |index: usize| body.input_name(index).to_string();
        let mut sequences: Vec<SequencePart> = Vec::new();
        let mut arguments = Vec::with_capacity(layout.count);
        let mut read = |value: Value, offset: usize, name: String| {
            // Reads of one tensor are taps of one sequence, as they were.
            match sequences.last_mut().filter(|last| last.value.same_as(value)) {
                Some(last) => last.reads.push((offset, name)),
                None => sequences.push(SequencePart { value, reads: vec![(offset, name)] }),
            }
            Row::Sequence(sequences.len() - 1, sequences[sequences.len() - 1].reads.len() - 1)
        };
        for (number, operand) in places.sequences.clone().enumerate() {
            let rows = tail(operands[operand], &span.first);
            for (offset, index) in scan.sequences[number].reads.iter().zip(layout.sequences[number].clone()) {
                arguments.push(read(rows, *offset, name(index)));
            }
        }
        let seen = |number: usize, value: Value| tail(value, self.first_row(number));
        for (number, buffer) in scan.buffers.iter().enumerate() {
            let last = seen(number, saved[number]);
            for (position, index) in layout.buffers[number].clone().enumerate() {
                arguments.push(match self.saves.overwritten[number][position] {
                    Some(result) => read(span.recent(saved[result]), 0, name(index)),
                    None => read(last, buffer.reads[position], name(index)),
                });
            }
        }
        for ((index, state), operand) in layout.carries.clone().zip(&self.saves.carries).zip(places.carries.clone()) {
            arguments.push(match state {
                State::Before(result) => read(span.recent(saved[*result]), 0, name(index)),
                // The value before a step is that after the step before it.
                State::After(result) => {
                    let (first, next) = (operands[operand].unsqueeze(0), saved[*result]);
                    let rows = concat(&if scan.reverse { [next, first] } else { [first, next] }, 0);
                    read(tail(rows, &span.first_that_ran), usize::from(scan.reverse), name(index))
                }
            });
        }
        arguments.extend(operands[places.invariants.clone()].iter().map(|value| Row::Captured(*value)));
        let known = (self.saves.values.iter().enumerate())
            .map(|(number, (value, result))| (*value, read(span.recent(saved[*result]), 0, format!("saved_{number}"))))
            .collect();

        let mut plan = Plan {
            arguments,
            known,
            cotangents: Vec::new(),
            buffers: vec![None; scan.buffers.len()],
            sums: vec![None; scan.sequences.len()],
            invariants: vec![None; scan.invariants],
        };
        let ct = |name: &str| format!("ct_{name}");
        let mut buffers: Vec<BufferPart> = Vec::new();
        for (number, buffer) in scan.buffers.iter().enumerate() {
            let written = results.buffers[number].clone().map(|index| ct(&body.outputs()[index].name));
            if !self.buffers[number] {
                plan.cotangents.extend(buffer.writes.iter().map(|_| None));
            } else if self.is_read_only(number) {
                let value = seen(number, self.of_buffers[number].unwrap_or_else(|| saved[number].zeros_like()));
                sequences.push(SequencePart { value, reads: buffer.writes.iter().copied().zip(written).collect() });
                let part = sequences.len() - 1;
                plan.cotangents.extend((0..buffer.writes.len()).map(|position| Some(Row::Sequence(part, position))));
            } else {
                let part = buffers.len();
                plan.buffers[number] = Some(part);
                plan.cotangents.extend((0..buffer.writes.len()).map(|position| Some(Row::Buffer(part, position))));
                let params = layout.buffers[number].clone().zip(&buffer.reads);
                let only_read = params.filter(|(_, offset)| !buffer.writes.contains(offset));
                let names = written.chain(only_read.map(|(index, _)| ct(body.input_name(index)))).collect();
                let value = seen(number, self.of_buffers[number].unwrap_or_else(|| saved[number].zeros_like()));
                let row = body.output_type(results.buffers[number].start).clone();
                buffers.push(BufferPart { buffer: backward_buffer(buffer), value: Some(value), row, names });
            }
        }
        let mut carries: Vec<(String, Value)> = Vec::new();
        for (number, index) in layout.carries.enumerate() {
            plan.cotangents.push(self.carries[number].then_some(Row::Carry(carries.len())));
            if self.carries[number] {
                let zeros = || operands[places.carries.start + number].zeros_like();
                carries.push((ct(body.input_name(index)), self.of_carries[number].unwrap_or_else(zeros)));
            }
        }
        for (number, operand) in places.sequences.enumerate() {
            let mut offsets = scan.sequences[number].reads.clone();
            offsets.sort_unstable();
            offsets.dedup();
            if self.is_placed(number) || !layout.sequences[number].clone().any(|index| self.active[index]) {
                continue;
            }
            let names = offsets.iter().map(|offset| format!("sum_{number}_{offset}")).collect();
            let (reads, writes) = (offsets.clone(), offsets.clone());
            let buffer = Buffer { start: Start::Full, reads, writes, wanted: Wanted::All };
            let value = tail(operands[operand], &span.first).zeros_like();
            let row = value.ty().row().unwrap_or_else(|| value.ty());
            plan.sums[number] = Some((buffers.len(), offsets));
            buffers.push(BufferPart { buffer, value: Some(value), row, names });
        }
        for (number, (operand, index)) in places.invariants.zip(layout.invariants).enumerate() {
            if self.active[index] {
                plan.invariants[number] = Some(carries.len());
                carries.push((format!("sum_{}", body.input_name(index)), operands[operand].zeros_like()));
            }
        }
        // The loop of the forward pass binds a number of steps that is a value.
        let (steps, residuals) = (span.steps.clone(), scan.residuals.clone());
        let hints = Hints { residuals, truncate: None };
        let reverse = !scan.reverse;
        (Parts { of: scan, hints, steps, count: None, until: None, reverse, sequences, buffers, carries }, plan)
    }

    /// Whether a sequence's cotangent is one row a step, placed in zeros: it has one tap, and the rows before and after
    /// are surely not fewer than none.
    fn is_placed(&self, sequence: usize) -> bool {
        let reads = &self.scan.sequences[sequence].reads;
        let Some(offset) = reads.first().filter(|first| reads.iter().all(|read| read == *first)) else { return false };
        let runs = self.span.steps.is_at_least(&Dim::from(1)) == Some(true);
        *offset == 0 || runs || self.rest(sequence, *offset).is_at_least(&Dim::from(0)) == Some(true)
    }

    /// The rows of a sequence behind those of one tap.
    fn rest(&self, sequence: usize, offset: usize) -> Dim {
        let rows = self.primals.operands[self.scan.operands().sequences.start + sequence].dim(0);
        rows - &self.span.first - &self.span.steps - offset
    }

    /// One step back: what is written to each buffer, then the next carries.
    fn step(&self, rows: &Rows, plan: &Plan, found: &mut Found) -> Vec<(String, Value)> {
        let (scan, layout) = (self.scan, self.scan.params());
        let at = |row: &Row| match row {
            Row::Sequence(part, position) => rows.sequence(*part)[*position],
            Row::Buffer(part, position) => rows.buffer(*part)[*position],
            Row::Carry(position) => rows.carries()[*position],
            Row::Captured(value) => *value,
        };
        let arguments: Vec<Value> = plan.arguments.iter().map(at).collect();
        let known: Vec<(ValueId, Value)> = plan.known.iter().map(|(value, row)| (*value, at(row))).collect();
        let choices = self.primals.choices;
        let tape = Tape::record_with(&scan.body, &arguments, &self.active, choices, &known);
        let of_results: Vec<Option<Value>> = plan.cotangents.iter().map(|row| row.as_ref().map(at)).collect();
        let pulled = tape.pull(&of_results);

        let mut outputs: Vec<(String, Value)> = Vec::new();
        let mut push = |value: Value| outputs.push((format!("next_{}", outputs.len()), value));
        for (number, buffer) in scan.buffers.iter().enumerate() {
            let params = layout.buffers[number].clone();
            found
                .buffers
                .push(self.of_buffers[number].is_some() || params.clone().any(|index| pulled[index].is_some()));
            let Some(part) = plan.buffers[number] else { continue };
            let backward = backward_buffer(buffer);
            for offset in &backward.writes {
                let here = backward.reads.iter().position(|read| read == offset);
                let here = here.map_or_else(Value::poison, |position| rows.buffer(part)[position]);
                let kept = (!buffer.writes.contains(offset)).then_some(here);
                let read = buffer.reads.iter().position(|read| read == offset);
                let pulled = read.and_then(|position| pulled[params.start + position]);
                push(add(kept, pulled).unwrap_or_else(|| here.zeros_like()));
            }
        }
        for (number, sums) in plan.sums.iter().enumerate() {
            let Some((part, offsets)) = sums else {
                found.sums.push(false);
                continue;
            };
            let mut any = false;
            for (position, offset) in offsets.iter().enumerate() {
                let taps = scan.sequences[number].reads.iter().zip(layout.sequences[number].clone());
                let taps = taps.filter(|(read, _)| *read == offset);
                let pulled = taps.fold(None, |sum, (_, index)| add(sum, pulled[index]));
                any |= pulled.is_some();
                let sum = add(Some(rows.buffer(*part)[position]), pulled);
                push(sum.unwrap_or_else(Value::poison));
            }
            found.sums.push(any);
        }
        for (number, params) in layout.sequences.iter().enumerate() {
            let is_placed = plan.sums[number].is_none();
            let row = params.clone().filter(|_| is_placed).fold(None, |sum, index| add(sum, pulled[index]));
            found.rows.push(row.map(|row| row.ty()));
            row.into_iter().for_each(&mut push);
        }
        for (number, index) in layout.carries.enumerate() {
            found.carries.push(self.of_carries[number].is_some() || pulled[index].is_some());
            if self.carries[number] {
                push(pulled[index].unwrap_or_else(|| arguments[index].zeros_like()));
            }
        }
        for (index, carry) in layout.invariants.zip(&plan.invariants) {
            found.invariants.push(pulled[index].is_some());
            if let Some(carry) = carry {
                push(add(Some(rows.carries()[*carry]), pulled[index]).unwrap_or_else(Value::poison));
            }
        }
        outputs
    }

    /// The cotangents of the operands from the results of the backward loop.
    fn cotangents(&self, plan: &Plan, found: &Found, results: &[Value], first_carry: usize) -> Vec<Option<Value>> {
        let (scan, span, places) = (self.scan, &self.span, self.scan.operands());
        let mut cotangents = self.primals.none();
        let mut rows = plan.buffers.iter().flatten().count() + plan.sums.iter().flatten().count();
        for (number, operand) in places.sequences.enumerate() {
            if let Some((part, _)) = plan.sums[number].as_ref().filter(|_| found.sums[number]) {
                cotangents[operand] = Some(with_head(results[*part], &span.first, None));
            }
            if found.rows[number].is_some() {
                let low = scan.sequences[number].reads[0];
                let high = self.rest(number, low);
                let pad = Pad { axis: 0, low: span.first.clone() + low, high, interior: 0 };
                let is_whole = pad.low == Dim::from(0) && pad.high == Dim::from(0);
                cotangents[operand] = Some(if is_whole { results[rows] } else { pad_with_zeros(pad, results[rows]) });
                rows += 1;
            }
        }
        for (number, operand) in places.buffers.iter().enumerate() {
            let Some(operand) = *operand else { continue };
            let (buffer, head) = (&scan.buffers[number], self.of_buffers[number]);
            let all = plan.buffers[number].map(|part| with_head(results[part], self.first_row(number), head));
            cotangents[operand] = match buffer.start {
                Start::Given(given) => all.or(head).map(|all| {
                    let start = if scan.reverse { span.ran.clone() } else { Dim::from(0) };
                    slice_rows(all, start.clone(), start + given)
                }),
                _ => all.map(|all| span.of_full(buffer, all)),
            };
        }
        let mut next = first_carry;
        for (number, operand) in places.carries.enumerate() {
            if self.carries[number] {
                cotangents[operand] = Some(span.of_start(results[next]));
                next += 1;
            }
        }
        for (number, operand) in places.invariants.enumerate() {
            if let Some(carry) = plan.invariants[number].filter(|_| found.invariants[number]) {
                cotangents[operand] = Some(results[first_carry + carry]);
            }
        }
        cotangents
    }
}

/// G's taps: the written rows are read as cotangents, then those that the step had read; what it had read is written, and
/// zeros are written where it had written, unless nobody sees them.
fn backward_buffer(buffer: &Buffer) -> Buffer {
    let union = |first: &[usize], second: &[usize]| -> Vec<usize> {
        first.iter().chain(second.iter().filter(|offset| !first.contains(offset))).copied().collect()
    };
    let writes = match buffer.start {
        Start::Full => union(&buffer.reads, &buffer.writes),
        _ => buffer.reads.clone(),
    };
    Buffer { start: Start::Full, reads: union(&buffer.writes, &buffer.reads), writes, wanted: Wanted::All }
}
