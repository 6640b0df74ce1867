//! Rewrites a loop as an outer loop over segments, whose body is an inner loop over the steps of a segment.
//!
//! If the policy saves only the states between segments, reverse mode differentiates the rewritten loop. Reverse mode
//! needs no special case for segments: the backward pass of the outer loop runs the inner loop again, and pulls
//! cotangents back through it. The steps that do not fill a segment form a separate loop, which runs last.
//!
//! A segment receives from the previous segment: the carries; the last rows of each growing buffer, as many as the
//! buffer has initial rows; and the rows of each full buffer that both segments may read or write. The other rows of a
//! full buffer come from its operand, like the rows of a sequence. A segment completes the rows that no later segment
//! writes, and the outer loop stacks these rows.

use super::chunked::join_chunks;
use super::parts::{BufferPart, Parts, SequencePart, bind};
use super::saves::{returned, slice_rows};
use super::*;

/// The maximum number of steps in a segment. The limit prevents sizes from overflowing.
const MAX_SEGMENT_STEPS: usize = i32::MAX as usize;

impl Scan {
    /// Returns a graph that runs the loop as a loop over segments, for operands of the given types. Returns `None` if
    /// the policy has no segments, or if the loop does not support them.
    pub(crate) fn segmented(
        &self,
        operands: &[TensorType],
        policy: &CheckpointPolicy,
    ) -> Result<Option<Graph>, Failed> {
        let policy = self.resolved_policy(policy);
        // Skip levels whose segments are at least as long as the loop.
        let covers = |length: &&usize| Dim::from(**length).is_at_least(&self.steps) == Some(true);
        let levels = policy.levels();
        let levels = levels[levels.iter().take_while(covers).count()..].split_first();
        let has_state = self.carries > 0 || self.buffers.iter().any(|buffer| buffer.start != Start::Empty);
        let is_whole = self.until.is_none() && self.truncate.is_none();
        let Some((length, inner)) = levels.filter(|_| has_state && is_whole && has_rows(self, operands)) else {
            return Ok(None);
        };
        let (length, inner) = ((*length).clamp(1, MAX_SEGMENT_STEPS), CheckpointPolicy::of_levels(inner));
        let segments = Segments { scan: self, length, inner };
        let name = |(index, ty): (usize, &TensorType)| (format!("x{index}"), ty.clone());
        let params: Vec<(String, TensorType)> = operands.iter().enumerate().map(name).collect();
        let closed = trace_body("scan", self.body.name(), &params, |operands| {
            let results = segments.run(operands)?.into_iter().enumerate();
            Ok(results.map(|(index, result)| (format!("y{index}"), result)).collect())
        })?;
        Ok(Some(closed.graph))
    }
}

/// Returns `true` if the types prove that the operands contain all rows that the steps read or write. The check at run
/// time would be too late, because the rows are sliced for the segments before the loop runs.
fn has_rows(scan: &Scan, operands: &[TensorType]) -> bool {
    let places = scan.operands();
    let has = |operand: usize, reach: usize| {
        let needed = scan.steps.clone() + reach;
        operands[operand].shape[0].is_at_least(&needed) == Some(true)
    };
    let sequences = scan.sequences.iter().zip(places.sequences);
    let buffers = scan.buffers.iter().zip(places.buffers);
    sequences.into_iter().all(|(sequence, operand)| has(operand, sequence.reach()))
        && buffers.into_iter().all(|(buffer, operand)| match (buffer.start, operand) {
            (Start::Full, Some(operand)) => has(operand, buffer.reach()),
            (Start::Given(given), _) => given > 0,
            _ => true,
        })
}

/// Returns the number of a buffer's rows that a segment receives from the previous segment.
fn shared_rows(buffer: &Buffer) -> usize {
    match buffer.start {
        Start::Empty => 0,
        Start::Given(given) => given,
        Start::Full => buffer.reach(),
    }
}

struct Segments<'a> {
    scan: &'a Scan,
    length: usize,
    /// The policy of the inner loop over the steps of a segment.
    inner: CheckpointPolicy,
}

/// The state that a range of steps receives from earlier steps.
#[derive(Clone)]
struct State {
    /// For each buffer, the rows that these steps share with earlier steps, if there are any.
    rows: Vec<Option<Value>>,
    carries: Vec<Value>,
}

/// A range of consecutive steps. Their rows can be sliced from a tensor that has rows for all steps.
#[derive(Clone)]
struct StepRange {
    first: Dim,
    steps: Dim,
}

impl Segments<'_> {
    /// Adds the loop over segments and the loop over the remaining steps. Returns the results of the original loop.
    fn run(&self, operands: &[Value]) -> Result<Vec<Value>, Failed> {
        let (scan, places) = (self.scan, self.scan.operands());
        if let (Some(operand), Some(symbol)) = (places.steps, scan.steps.as_symbol()) {
            bind(operands[operand], symbol)?;
        }
        let length = self.length as i64;
        let count = match scan.steps.constant() {
            Some(steps) => Dim::from(steps / length),
            None => {
                let symbol = fresh_symbol();
                bind(size(&scan.steps, DType::I64) / length, &symbol)?;
                Dim::symbol(&symbol)
            }
        };
        let covered = count.clone() * length;
        let left = scan.steps.clone() - &covered;
        let zero = Dim::from(0);
        let (first, last) = if scan.reverse { (left.clone(), zero.clone()) } else { (zero.clone(), covered.clone()) };
        let (main, rest) = (StepRange { first, steps: covered }, StepRange { first: last, steps: left });

        let (finished, mut state) = self.run_segments(&count, &main, operands, self.initial(operands))?;
        let mut parts: Vec<Vec<Value>> = finished.into_iter().map(|rows| vec![rows]).collect();
        if rest.steps != zero {
            let sequences = (scan.sequences.iter().zip(places.sequences.clone()))
                .map(|(sequence, operand)| self.slice_touched_rows(operands[operand], &rest, sequence.reach()));
            let fresh = self.first_touched_rows(&rest, operands);
            let invariants = &operands[places.invariants];
            let (finished, last) = self.steps(&rest.steps, sequences.collect(), fresh, state, invariants)?;
            parts.iter_mut().zip(finished).for_each(|(parts, rows)| parts.push(rows));
            state = last;
        }
        let ends = |number: usize| match (scan.buffers[number].start, places.buffers[number]) {
            // Two more ranges of a full buffer are complete: the rows in the state after the last step, and the rows
            // that no step reads or writes.
            (Start::Full, Some(operand)) => {
                let touched = scan.steps.clone() + scan.buffers[number].reach();
                let rows = operands[operand].dim(0);
                let untouched = (rows != touched).then(|| slice_rows(operands[operand], touched, rows));
                (state.rows[number], untouched)
            }
            (_, operand) => (None, operand.map(|operand| operands[operand])),
        };
        let mut results = Vec::new();
        for (number, (buffer, mut parts)) in scan.buffers.iter().zip(parts).enumerate() {
            let (last, given) = ends(number);
            parts.extend(last);
            if scan.reverse {
                parts.reverse();
            }
            match (buffer.start, scan.reverse) {
                (Start::Given(_), false) => parts.splice(0..0, given).for_each(drop),
                _ => parts.extend(given),
            }
            results.push(returned(scan, buffer, concat_rows(&parts)));
        }
        results.extend(state.carries);
        Ok(results)
    }

    /// Returns the state before the first step.
    fn initial(&self, operands: &[Value]) -> State {
        let (scan, places) = (self.scan, self.scan.operands());
        let shared = |(buffer, operand): (&Buffer, &Option<usize>)| {
            let (rows, count) = (operands[(*operand)?], shared_rows(buffer));
            match buffer.start {
                Start::Full if count == 0 => None,
                Start::Full if scan.reverse => Some(slice_rows(rows, scan.steps.clone(), scan.steps.clone() + count)),
                Start::Full => Some(slice_rows(rows, 0.into(), count.into())),
                _ => Some(rows),
            }
        };
        State {
            rows: scan.buffers.iter().zip(&places.buffers).map(shared).collect(),
            carries: operands[places.carries].to_vec(),
        }
    }

    /// Slices the rows that a range of steps may read or write. `reach` is the largest offset of a read or write.
    fn slice_touched_rows(&self, value: Value, rows: &StepRange, reach: usize) -> Value {
        let limit = rows.first.clone() + &rows.steps + reach;
        let is_whole = rows.first == Dim::from(0) && limit == value.dim(0);
        if is_whole { value } else { slice_rows(value, rows.first.clone(), limit) }
    }

    /// Returns, for each full buffer, the rows that the steps in `rows` are the first to read or write. Returns `None`
    /// for all other buffers.
    fn first_touched_rows(&self, rows: &StepRange, operands: &[Value]) -> Vec<Option<Value>> {
        let scan = self.scan;
        let fresh = |(buffer, operand): (&Buffer, Option<usize>)| {
            let operand = operand.filter(|_| buffer.start == Start::Full)?;
            let after = if scan.reverse { 0 } else { buffer.reach() };
            Some(self.slice_touched_rows(
                operands[operand],
                &StepRange { first: rows.first.clone() + after, ..rows.clone() },
                0,
            ))
        };
        scan.buffers.iter().zip(scan.operands().buffers).map(fresh).collect()
    }

    /// Adds the loop over segments to the open graph. Returns the completed rows of each buffer, and the state after
    /// the last segment.
    fn run_segments(
        &self,
        count: &Dim,
        rows: &StepRange,
        operands: &[Value],
        state: State,
    ) -> Result<(Vec<Value>, State), Failed> {
        let (scan, places, length) = (self.scan, self.scan.operands(), self.length);
        let mut sequences = Vec::new();
        let mut add = |rows: Value, reach: usize| {
            // A segment reads its own rows, and the first `reach` rows of the segments after it.
            let more = reach.div_ceil(length);
            let high = Dim::from(more * length - reach);
            let is_whole = high == Dim::from(0);
            let pad = Pad { axis: 0, low: 0.into(), high, interior: 0 };
            let rows = if is_whole { rows } else { pad_with_zeros(pad, rows) };
            let reads = (0..=more).map(|block| (block, format!("rows_{}_{block}", sequences.len()))).collect();
            sequences.push(SequencePart { value: blocks(rows, count.clone() + more, length), reads });
            sequences.len() - 1
        };
        let taken: Vec<(usize, usize)> = (scan.sequences.iter().zip(places.sequences.clone()))
            .map(|(sequence, operand)| {
                let reach = sequence.reach();
                (add(self.slice_touched_rows(operands[operand], rows, reach), reach), reach)
            })
            .collect();
        let fresh = self.first_touched_rows(rows, operands);
        let fresh: Vec<Option<usize>> = fresh.into_iter().map(|rows| rows.map(|rows| add(rows, 0))).collect();
        let row = |number: usize| scan.body.output_type(scan.results().buffers[number].start);
        let stacks = |number: usize| BufferPart {
            buffer: Buffer::nit_sot(),
            value: None,
            row: row(number).stacked(length),
            names: vec![],
        };
        let shared = state.rows.iter().flatten().enumerate().map(|(index, rows)| (format!("shared_{index}"), *rows));
        let names = scan.params().carries.map(|param| scan.body.input_name(param).to_string());
        let parts = Parts {
            template: Scan { steps: count.clone(), policy: Some(CheckpointPolicy::Recompute), ..scan.clone() },
            count: None,
            sequences,
            buffers: (0..scan.buffers.len()).map(stacks).collect(),
            carries: shared.chain(names.zip(state.carries.iter().copied())).collect(),
        };
        let of_carries = |carries: &[Value]| {
            let mut carries = carries.iter().copied();
            State {
                rows: state.rows.iter().map(|rows| rows.and_then(|_| carries.next())).collect(),
                carries: carries.collect(),
            }
        };
        let body = parts.trace(|rows| {
            let steps = Dim::from(length);
            let read = |(part, reach): &(usize, usize)| self.cut_blocks(rows.sequence(*part), *reach);
            let sequences = taken.iter().map(read).collect();
            let fresh = fresh.iter().map(|part| part.map(|part| rows.sequence(part)[0])).collect();
            let invariants = &operands[places.invariants.clone()];
            let (finished, next) = self.steps(&steps, sequences, fresh, of_carries(rows.carries()), invariants)?;
            let outputs = finished.into_iter().chain(next.rows.into_iter().flatten()).chain(next.carries);
            Ok(outputs.enumerate().map(|(index, value)| (format!("next_{index}"), value)).collect())
        })?;
        let results = parts.emit(body)?;
        let (finished, carries) = results.split_at(scan.buffers.len());
        let finished = finished.iter().map(|rows| join_chunks(*rows, &Dim::from(length)));
        Ok((finished.collect::<Result<_, Failed>>()?, of_carries(carries)))
    }

    /// Concatenates blocks of a sequence, and slices the rows that a segment may read.
    fn cut_blocks(&self, blocks: &[Value], reach: usize) -> Value {
        self.slice_touched_rows(concat_rows(blocks), &StepRange { first: 0.into(), steps: self.length.into() }, reach)
    }

    /// Adds a loop over a range of steps. Returns the completed rows of each buffer, and the state after the last step.
    fn steps(
        &self,
        steps: &Dim,
        sequences: Vec<Value>,
        fresh: Vec<Option<Value>>,
        state: State,
        invariants: &[Value],
    ) -> Result<(Vec<Value>, State), Failed> {
        let scan = self.scan;
        let mut operands = sequences;
        for (shared, fresh) in state.rows.iter().zip(fresh) {
            let mut rows: Vec<Value> = shared.iter().copied().chain(fresh).collect();
            if scan.reverse {
                rows.reverse();
            }
            if !rows.is_empty() {
                operands.push(concat_rows(&rows));
            }
        }
        operands.extend(state.carries.iter().copied().chain(invariants.iter().copied()));
        let op = Scan {
            steps: steps.clone(),
            steps_operand: false,
            buffers: scan.buffers.iter().map(|buffer| Buffer { returned: Returned::All, ..buffer.clone() }).collect(),
            policy: Some(self.inner.clone()),
            ..scan.clone()
        };
        let results = emit(op, &operands)?;
        let (buffers, carries) = results.split_at(scan.buffers.len());
        let (mut finished, mut next) = (Vec::new(), Vec::new());
        for (buffer, rows) in scan.buffers.iter().zip(buffers) {
            let (count, shared) = (rows.dim(0), shared_rows(buffer));
            if shared == 0 {
                finished.push(*rows);
                next.push(None);
                continue;
            }
            // The rows that are shared with the next steps come last in the order of the loop. A growing buffer starts
            // with its initial rows, which the previous steps have already completed.
            let part = |start: Dim, limit: Dim| slice_rows(*rows, start, limit);
            let rest = count.clone() - shared;
            let is_growing = matches!(buffer.start, Start::Given(_));
            let (done, last) = match (scan.reverse, is_growing) {
                (false, false) => ((Dim::from(0), rest.clone()), (rest, count)),
                (false, true) => ((shared.into(), count.clone()), (rest, count)),
                (true, false) => ((shared.into(), count), (Dim::from(0), shared.into())),
                (true, true) => ((Dim::from(0), rest), (Dim::from(0), shared.into())),
            };
            finished.push(part(done.0, done.1));
            next.push(Some(part(last.0, last.1)));
        }
        Ok((finished, State { rows: next, carries: carries.to_vec() }))
    }
}

/// Concatenates tensors along axis 0.
fn concat_rows(parts: &[Value]) -> Value {
    if let [one] = parts { *one } else { concat(parts, 0) }
}

/// Splits rows into `count` blocks of `length` rows each.
fn blocks(rows: Value, count: Dim, length: usize) -> Value {
    rows.reshape(rows.row_type().shape.with_leading(length).with_leading(count))
}
