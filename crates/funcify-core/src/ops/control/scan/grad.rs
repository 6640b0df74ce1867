//! The reverse-mode rule of the loop: builds one loop in the opposite direction, with the same row indices.
//!
//! ```text
//! sequences: the inputs of each step, for recomputing it: rows of sequences and buffers, carries before the step;
//!            the residuals, values of the step that were saved; the cotangents of traces that no step reads
//! buffers:   G, the cotangent of a buffer that steps read; the sums of a sequence with several taps
//! carries:   the cotangents of the carries; a sum for each invariant
//! ->  G and the sums; a nit-sot for each sequence with one tap; the cotangents of the first carries; the sums
//! ```
//!
//! The body of the backward loop recomputes a step of the forward loop from the residuals ([`saves`](super::saves)) and
//! from values in the forward loop's traces ([`readable_values`](super::readable_values)), and pulls cotangents back
//! through the step. The cotangents of the forward loop's buffers, sequences, carries and invariants are stored as
//! follows:
//!
//! - The cotangent of a buffer is stored in a full buffer G with the same rows. Initially, G is the cotangent of the
//!   final buffer. A backward step reads `G[t+k]`, the cotangents of the rows written in step `t`, for k in `writes`.
//!   It then sets `G[t+k] := (k in writes ? 0 : G[t+k]) + (k in reads ? d(read k) : 0)` for each k in `reads` or
//!   `writes`. Here, `d(read k)` is the cotangent of the row that the forward step read at offset k. The first term is
//!   0 for rows that the forward step wrote, because later results do not depend on the contents that the step
//!   overwrote. For a growing buffer, only the cotangents of its initial rows are used after the loop, so the backward
//!   step does not write the zeros. In PyTensor's reversed coordinates, the backward buffer of a sit-sot has the reads
//!   (0, 1) and the writes (1), exactly as in PyTensor's `L_op`.
//! - If no step reads a buffer, the backward loop reads the cotangent of its trace as a sequence instead.
//! - The cotangent of a sequence with one tap is a nit-sot, whose trace is padded with zeros. The cotangent of a
//!   sequence with several taps is a full buffer that accumulates the contributions of all taps.
//! - The cotangent of a carry is a carry of the backward loop. The cotangent of an invariant is a carry that
//!   accumulates the contributions of all steps. Values that are not floats have no cotangents.
//!
//! If the forward loop has an early exit, the backward loop covers only the steps that ran. With gradient truncation,
//! the backward loop covers only the last steps of the forward loop: see [`span`](super::span). Row 0 of the backward
//! loop is the first row of the covered steps.
//!
//! A buffer or a carry has a cotangent if its final value has one, or if a step adds one: see
//! [`reach`](crate::ops::reach).

use super::parts::{BufferPart, Parts, SequencePart, StepReads};
use super::readable_values::readable_values;
use super::saves::{LoopRecord, Trace, can_be_saved, slice_rows};
use super::span::{Span, prepend_rows, rows_from};
use super::*;
use crate::derivative::{add, no_record};

pub(super) fn vjp(scan: &Scan, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
    let Record::Loop(record) = context.record else { return Err(no_record("scan")) };
    let mut of_buffers = Vec::with_capacity(scan.buffers.len());
    for (index, (buffer, cotangent)) in scan.buffers.iter().zip(cotangents).enumerate() {
        of_buffers.push(cotangent.map(|cotangent| match buffer.returned {
            Returned::All => cotangent,
            Returned::Last(count) => {
                let rest = record.buffers[index].dim(0) - count;
                let (low, high) = if scan.reverse { (Dim::from(0), rest) } else { (rest, Dim::from(0)) };
                pad_with_zeros(Pad { axis: 0, low, high, interior: 0 }, cotangent)
            }
        }));
    }
    let of_carries = cotangents[scan.buffers.len()..].to_vec();
    let least: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
    let (_, guess) = scan.states_pulled(&least, &mut scan.cotangent_reach(context.wrt));
    let backward = Backward {
        scan,
        context,
        span: Span::of(scan)?,
        active: scan.active(context.wrt),
        buffers: Vec::new(),
        carries: Vec::new(),
        record,
        of_buffers,
        of_carries,
    };
    backward.vjp(Guess::new(least, guess))
}

struct Backward<'a> {
    scan: &'a Scan,
    context: &'a VjpContext<'a>,
    /// The steps that the backward loop covers.
    span: Span,
    /// The residuals of the forward pass.
    record: &'a LoopRecord,
    /// Marks the parameters of the body that need cotangents.
    active: Vec<bool>,
    /// The cotangents of the final buffers.
    of_buffers: Vec<Option<Value>>,
    /// The cotangents of the final carries.
    of_carries: Vec<Option<Value>>,
    /// Marks the buffers that have cotangents.
    buffers: Vec<bool>,
    /// Marks the carries that have cotangents.
    carries: Vec<bool>,
}

/// A value that a step of the backward loop reads: a tap of a sequence, or a captured value.
#[derive(Clone, Copy)]
enum BackwardRead {
    Sequence(usize, usize),
    Captured(Value),
}

/// The location of a forward buffer's cotangent in the backward loop.
#[derive(Clone, Copy)]
enum BufferCotangent {
    /// The buffer has no cotangent.
    Nothing,
    /// The cotangent is the sequence with this index, because no forward step reads the buffer.
    Sequence(usize),
    /// The cotangent is the full buffer with this index (G in the module's documentation).
    Full(usize),
}

/// The sources of the values that a backward step reads, and the locations of the cotangents in the backward loop.
struct BackwardLayout {
    /// The sources of the parameters of the forward body.
    arguments: Vec<BackwardRead>,
    /// The sources of the saved values of the forward body.
    residuals: Vec<(ValueId, BackwardRead)>,
    /// For each forward buffer, the location of its cotangent.
    buffers: Vec<BufferCotangent>,
    /// For each forward carry, the index of the backward carry that holds its cotangent, or `None` if it has none.
    carries: Vec<Option<usize>>,
    /// For each sequence, the index and the offsets of the backward buffer that accumulates its cotangents, or `None`
    /// if no buffer does.
    sums: Vec<Option<(usize, Vec<usize>)>>,
    /// For each invariant, the index of the backward carry that accumulates its cotangents, or `None` if it has none.
    invariants: Vec<Option<usize>>,
}

/// The sequences, buffers and carries of the backward loop, collected so far.
#[derive(Default)]
struct Draft {
    sequences: Vec<SequencePart>,
    buffers: Vec<BufferPart>,
    carries: Vec<(String, Value)>,
}

impl Draft {
    /// Adds a tap that reads rows of a tensor. Consecutive calls with the same tensor add taps to the same sequence.
    fn read(&mut self, value: Value, offset: usize, name: String) -> BackwardRead {
        match self.sequences.last_mut().filter(|last| last.value.same_as(value)) {
            Some(last) => last.reads.push((offset, name)),
            None => self.sequences.push(SequencePart { value, reads: vec![(offset, name)] }),
        }
        let last = self.sequences.len() - 1;
        BackwardRead::Sequence(last, self.sequences[last].reads.len() - 1)
    }

    fn buffer(&mut self, part: BufferPart) -> usize {
        self.buffers.push(part);
        self.buffers.len() - 1
    }

    fn carry(&mut self, name: String, value: Value) -> usize {
        self.carries.push((name, value));
        self.carries.len() - 1
    }
}

/// A record of the cotangents that a backward step computes.
#[derive(Default)]
struct Found {
    buffers: Vec<bool>,
    carries: Vec<bool>,
    sums: Vec<bool>,
    invariants: Vec<bool>,
    /// For each sequence that has one tap and a cotangent, the type of a row of the cotangent.
    rows: Vec<Option<TensorType>>,
}

impl<'a> Backward<'a> {
    fn vjp(mut self, states: Guess) -> Result<Cotangents, Failed> {
        let (_, (mut parts, plan, body, found)) = states.confirm(|states, found_states| {
            let (buffers, carries) = states.split_at(self.scan.buffers.len());
            (self.buffers, self.carries) = (buffers.to_vec(), carries.to_vec());
            let (parts, plan) = self.parts();
            let mut found = Found::default();
            let body = parts.trace(|rows| self.step(rows, &plan, &mut found))?;
            found_states.copy_from_slice(&[found.buffers.as_slice(), &found.carries].concat());
            Ok((parts, plan, body, found))
        })?;
        for row in found.rows.iter().flatten() {
            let buffer = Buffer::nit_sot();
            parts.buffers.push(BufferPart { buffer, value: None, row: row.clone(), names: vec![] });
        }
        let first_carry = parts.buffers.len();
        let results = parts.emit(body)?;
        Ok(self.cotangents(&plan, &found, &results, first_carry))
    }

    /// Returns `true` if the backward loop only reads the cotangent of a buffer, because no forward step reads the
    /// buffer.
    fn is_read_only(&self, buffer: usize) -> bool {
        let buffer = &self.scan.buffers[buffer];
        buffer.start != Start::Full && buffer.reads.is_empty()
    }

    /// Returns the index of the first row of a buffer that belongs to the covered steps. A growing buffer has rows only
    /// for the steps that ran, and a full buffer has rows for all steps.
    fn first_row(&self, buffer: usize) -> &Dim {
        match self.scan.buffers[buffer].start {
            Start::Full => &self.span.first,
            _ => &self.span.first_that_ran,
        }
    }

    /// Returns the sequences, buffers and carries of the backward loop, and their layout.
    fn parts(&self) -> (Parts, BackwardLayout) {
        let mut draft = Draft::default();
        let mut residuals = Vec::new();
        let plan = BackwardLayout {
            arguments: self.arguments(&mut draft, &mut residuals),
            residuals: self.residuals(&mut draft, residuals),
            buffers: self.cotangents_of_buffers(&mut draft),
            carries: self.cotangents_of_carries(&mut draft),
            sums: self.sums_of_sequences(&mut draft),
            invariants: self.sums_of_invariants(&mut draft),
        };
        let Draft { sequences, buffers, carries } = draft;
        let parts = Parts {
            template: Scan {
                steps: self.span.steps.clone(),
                until: None,
                reverse: !self.scan.reverse,
                truncate: None,
                ..self.scan.clone()
            },
            // If the program computes the number of steps, the forward loop has already bound the symbol for this
            // number.
            count: None,
            sequences,
            buffers,
            carries,
        };
        (parts, plan)
    }

    /// Adds the reads that supply the arguments of a forward step. If the trace of a carry holds the values after each
    /// step, and the backward loop may read them, also adds the value after the current step to `residuals`.
    fn arguments(&self, draft: &mut Draft, residuals: &mut Vec<(ValueId, BackwardRead)>) -> Vec<BackwardRead> {
        let (scan, span, operands, record) = (self.scan, &self.span, self.context.operands, self.record);
        let (layout, places) = (scan.params(), scan.operands());
        let name = |index: usize| scan.body.input_name(index).to_string();
        let mut arguments = Vec::with_capacity(layout.count);
        for (number, operand) in places.sequences.clone().enumerate() {
            let rows = rows_from(operands[operand], &span.first);
            for (offset, index) in scan.sequences[number].reads.iter().zip(layout.sequences[number].clone()) {
                arguments.push(draft.read(rows, *offset, name(index)));
            }
        }
        for (number, buffer) in scan.buffers.iter().enumerate() {
            let last = self.used_rows(number, record.buffers[number]);
            for (position, index) in layout.buffers[number].clone().enumerate() {
                arguments.push(match record.overwritten[number][position] {
                    Some(rows) => draft.read(span.rows_of_steps(rows), 0, name(index)),
                    None => draft.read(last, buffer.reads[position], name(index)),
                });
            }
        }
        let after = |number: usize| scan.body.outputs()[scan.results().carries.start + number].value;
        let saved: Vec<ValueId> = record.values.iter().map(|(value, _)| *value).collect();
        let traced = record.carries.iter().enumerate().filter(|(_, trace)| matches!(trace, Trace::After(_)));
        let candidates = traced.map(|(number, _)| after(number));
        let candidates =
            candidates.filter(|value| can_be_saved(&scan.body, *value) && !saved.contains(value)).collect();
        let readable_values = readable_values(&scan.body, candidates, &saved);
        for (number, (trace, operand)) in record.carries.iter().zip(places.carries.clone()).enumerate() {
            let index = layout.carries.start + number;
            arguments.push(match trace {
                Trace::Before(rows) => draft.read(span.rows_of_steps(*rows), 0, name(index)),
                // The value of a carry before a step is its value after the previous step.
                Trace::After(next) => {
                    let (first, next) = (operands[operand].unsqueeze(0), *next);
                    let rows = concat(&if scan.reverse { [next, first] } else { [first, next] }, 0);
                    let rows = rows_from(rows, &span.first_that_ran);
                    let before = draft.read(rows, usize::from(scan.reverse), name(index));
                    if readable_values.contains(&after(number)) {
                        let row = draft.read(rows, usize::from(!scan.reverse), format!("{}_after", name(index)));
                        residuals.push((after(number), row));
                    }
                    before
                }
            });
        }
        arguments.extend(operands[places.invariants].iter().map(|value| BackwardRead::Captured(*value)));
        arguments
    }

    /// Adds the reads that supply the saved values of a forward step. Returns the sources of these values, followed by
    /// `known`.
    fn residuals(&self, draft: &mut Draft, known: Vec<(ValueId, BackwardRead)>) -> Vec<(ValueId, BackwardRead)> {
        let residuals = self.record.values.iter().enumerate();
        let read = |(number, (value, rows)): (usize, &(ValueId, Value))| {
            (*value, draft.read(self.span.rows_of_steps(*rows), 0, format!("residual_{number}")))
        };
        residuals.map(read).chain(known).collect()
    }

    /// Adds the sequences and buffers that hold the cotangents of the forward buffers.
    fn cotangents_of_buffers(&self, draft: &mut Draft) -> Vec<BufferCotangent> {
        let (scan, body, layout, results) = (self.scan, &self.scan.body, self.scan.params(), self.scan.results());
        let of = |(number, buffer): (usize, &Buffer)| {
            if !self.buffers[number] {
                return BufferCotangent::Nothing;
            }
            let written = results.buffers[number].clone().map(|index| cotangent_of(&body.outputs()[index].name));
            let final_rows = self.of_buffers[number].unwrap_or_else(|| self.record.buffers[number].zeros_like());
            let value = self.used_rows(number, final_rows);
            if self.is_read_only(number) {
                let reads = buffer.writes.iter().copied().zip(written).collect();
                draft.sequences.push(SequencePart { value, reads });
                return BufferCotangent::Sequence(draft.sequences.len() - 1);
            }
            let params = layout.buffers[number].clone().zip(&buffer.reads);
            let only_read = params.filter(|(_, offset)| !buffer.writes.contains(offset));
            let names = written.chain(only_read.map(|(index, _)| cotangent_of(body.input_name(index)))).collect();
            let row = body.output_type(results.buffers[number].start).clone();
            let buffer = backward_buffer(buffer);
            BufferCotangent::Full(draft.buffer(BufferPart { buffer, value: Some(value), row, names }))
        };
        scan.buffers.iter().enumerate().map(of).collect()
    }

    /// Adds the carries that hold the cotangents of the forward carries.
    fn cotangents_of_carries(&self, draft: &mut Draft) -> Vec<Option<usize>> {
        let (layout, places) = (self.scan.params(), self.scan.operands());
        let of = |(number, index): (usize, usize)| {
            let zeros = || self.context.operands[places.carries.start + number].zeros_like();
            self.carries[number].then(|| {
                let name = cotangent_of(self.scan.body.input_name(index));
                draft.carry(name, self.of_carries[number].unwrap_or_else(zeros))
            })
        };
        layout.carries.enumerate().map(of).collect()
    }

    /// Adds a buffer that accumulates the cotangent of each sequence, except for sequences whose cotangent can be built
    /// by padding one row per step: see [`is_placed`](Self::is_placed).
    fn sums_of_sequences(&self, draft: &mut Draft) -> Vec<Option<(usize, Vec<usize>)>> {
        let (layout, places) = (self.scan.params(), self.scan.operands());
        let of = |(number, operand): (usize, usize)| {
            if self.is_placed(number) || !layout.sequences[number].clone().any(|index| self.active[index]) {
                return None;
            }
            let mut offsets = self.scan.sequences[number].reads.clone();
            offsets.sort_unstable();
            offsets.dedup();
            let names = offsets.iter().map(|offset| format!("sum_{number}_{offset}")).collect();
            let (reads, writes) = (offsets.clone(), offsets.clone());
            let buffer = Buffer { start: Start::Full, reads, writes, returned: Returned::All };
            let value = rows_from(self.context.operands[operand], &self.span.first).zeros_like();
            Some((draft.buffer(BufferPart { buffer, value: Some(value), row: value.row_type(), names }), offsets))
        };
        places.sequences.enumerate().map(of).collect()
    }

    /// Adds the carries that accumulate the cotangents of invariants.
    fn sums_of_invariants(&self, draft: &mut Draft) -> Vec<Option<usize>> {
        let (layout, places) = (self.scan.params(), self.scan.operands());
        let of = |(operand, index): (usize, usize)| {
            self.active[index].then(|| {
                let name = format!("sum_{}", self.scan.body.input_name(index));
                draft.carry(name, self.context.operands[operand].zeros_like())
            })
        };
        places.invariants.zip(layout.invariants).map(of).collect()
    }

    /// Returns the rows of a buffer, or of its cotangent, starting at the first covered row.
    fn used_rows(&self, buffer: usize, rows: Value) -> Value {
        rows_from(rows, self.first_row(buffer))
    }

    /// Returns `true` if the cotangent of a sequence can be built by stacking one row per step and padding the stack
    /// with rows of zeros. This requires that the sequence has a single tap, and that the padding is provably
    /// non-negative on both sides.
    fn is_placed(&self, sequence: usize) -> bool {
        let reads = &self.scan.sequences[sequence].reads;
        let Some(offset) = reads.first().filter(|first| reads.iter().all(|read| read == *first)) else { return false };
        let runs = self.span.steps.is_at_least(&Dim::from(1)) == Some(true);
        *offset == 0 || runs || self.rows_after_tap(sequence, *offset).is_at_least(&Dim::from(0)) == Some(true)
    }

    /// Returns the number of rows that a sequence has after the last row that the tap at `offset` reads.
    fn rows_after_tap(&self, sequence: usize, offset: usize) -> Dim {
        let rows = self.context.operands[self.scan.operands().sequences.start + sequence].dim(0);
        rows - &self.span.first - &self.span.steps - offset
    }

    /// Traces a backward step. Returns the rows written to each buffer, followed by the next carries. Records in
    /// `found` which cotangents the step computes.
    fn step(&self, rows: &StepReads, plan: &BackwardLayout, found: &mut Found) -> Result<Vec<(String, Value)>, Failed> {
        let (scan, layout) = (self.scan, self.scan.params());
        let at = |row: &BackwardRead| match row {
            BackwardRead::Sequence(part, position) => rows.sequence(*part)[*position],
            BackwardRead::Captured(value) => *value,
        };
        let arguments: Vec<Value> = plan.arguments.iter().map(at).collect();
        let residuals: Vec<(ValueId, Value)> = plan.residuals.iter().map(|(value, row)| (*value, at(row))).collect();
        let tape = Tape::record_with(&scan.body, &arguments, &self.active, self.context.vjp_options, &residuals)?;
        let mut of_results: Vec<Option<Value>> = Vec::with_capacity(scan.results().count);
        for (buffer, cotangent) in scan.buffers.iter().zip(&plan.buffers) {
            of_results.extend((0..buffer.writes.len()).map(|position| match cotangent {
                BufferCotangent::Nothing => None,
                BufferCotangent::Sequence(part) => Some(rows.sequence(*part)[position]),
                BufferCotangent::Full(part) => Some(rows.buffer(*part)[position]),
            }));
        }
        of_results.extend(plan.carries.iter().map(|carry| carry.map(|carry| rows.carries()[carry])));
        let pulled = tape.pull(&of_results)?;

        let mut outputs: Vec<(String, Value)> = Vec::new();
        let mut push = |value: Value| outputs.push((format!("next_{}", outputs.len()), value));
        for (number, buffer) in scan.buffers.iter().enumerate() {
            let params = layout.buffers[number].clone();
            found
                .buffers
                .push(self.of_buffers[number].is_some() || params.clone().any(|index| pulled[index].is_some()));
            let BufferCotangent::Full(part) = plan.buffers[number] else { continue };
            let backward = backward_buffer(buffer);
            // The backward buffer G reads every row that it writes.
            let reads =
                |offset: usize| backward.reads.iter().zip(rows.buffer(part)).filter(move |(k, _)| **k == offset);
            for (offset, here) in backward.writes.iter().flat_map(|offset| reads(*offset)) {
                let kept = (!buffer.writes.contains(offset)).then_some(*here);
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
                push(add_contribution(rows.buffer(*part)[position], pulled));
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
                push(add_contribution(rows.carries()[*carry], pulled[index]));
            }
        }
        Ok(outputs)
    }

    /// Returns the cotangents of the forward loop's operands, given the results of the backward loop.
    fn cotangents(&self, plan: &BackwardLayout, found: &Found, results: &[Value], first_carry: usize) -> Cotangents {
        let (scan, span, places) = (self.scan, &self.span, self.scan.operands());
        let mut cotangents = self.context.no_cotangents();
        let is_full = |of: &&BufferCotangent| matches!(of, BufferCotangent::Full(_));
        let mut rows = plan.buffers.iter().filter(is_full).count() + plan.sums.iter().flatten().count();
        for (number, operand) in places.sequences.enumerate() {
            if let Some((part, _)) = plan.sums[number].as_ref().filter(|_| found.sums[number]) {
                cotangents[operand] = Some(prepend_rows(results[*part], &span.first, None));
            }
            if found.rows[number].is_some() {
                let low = scan.sequences[number].reads[0];
                let high = self.rows_after_tap(number, low);
                let pad = Pad { axis: 0, low: span.first.clone() + low, high, interior: 0 };
                let is_whole = pad.low == Dim::from(0) && pad.high == Dim::from(0);
                cotangents[operand] = Some(if is_whole { results[rows] } else { pad_with_zeros(pad, results[rows]) });
                rows += 1;
            }
        }
        for (number, operand) in places.buffers.iter().enumerate() {
            let Some(operand) = *operand else { continue };
            let (buffer, head) = (&scan.buffers[number], self.of_buffers[number]);
            let all = match plan.buffers[number] {
                BufferCotangent::Full(part) => Some(prepend_rows(results[part], self.first_row(number), head)),
                BufferCotangent::Nothing | BufferCotangent::Sequence(_) => None,
            };
            cotangents[operand] = match buffer.start {
                Start::Given(given) => all.or(head).map(|all| {
                    let start = if scan.reverse { span.ran.clone() } else { Dim::from(0) };
                    slice_rows(all, start.clone(), start + given)
                }),
                _ => all.map(|all| span.full_buffer_cotangent(buffer, all)),
            };
        }
        for (operand, carry) in places.carries.zip(&plan.carries) {
            if let Some(carry) = carry {
                cotangents[operand] = Some(span.initial_carry_cotangent(results[first_carry + carry]));
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

/// Adds the contribution to the sum, or returns the sum unchanged if the contribution is `None`.
fn add_contribution(sum: Value, contribution: Option<Value>) -> Value {
    contribution.map_or(sum, |contribution| sum + contribution)
}

fn cotangent_of(name: &str) -> String {
    format!("ct_{name}")
}

/// Returns the full buffer G that holds the cotangent of a forward buffer (see the module's documentation). G reads at
/// the offsets that the forward step writes, followed by the offsets that the forward step only reads. G writes at the
/// offsets that the forward step reads. If the forward buffer is a full buffer, these are followed by the offsets that
/// the forward step only writes.
fn backward_buffer(buffer: &Buffer) -> Buffer {
    let union = |first: &[usize], second: &[usize]| -> Vec<usize> {
        first.iter().chain(second.iter().filter(|offset| !first.contains(offset))).copied().collect()
    };
    let writes = match buffer.start {
        Start::Full => union(&buffer.reads, &buffer.writes),
        _ => buffer.reads.clone(),
    };
    Buffer { start: Start::Full, reads: union(&buffer.writes, &buffer.reads), writes, returned: Returned::All }
}
