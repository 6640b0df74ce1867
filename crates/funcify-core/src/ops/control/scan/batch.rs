//! The batching rule of the loop: a single loop runs all lanes.
//!
//! Sequences and buffers hold rows along axis 0, so their lanes are along axis 1. Carries, and all values in the body,
//! have their lanes along axis 0. A carry or a buffer has lanes if its initial value has lanes, or if a step adds them:
//! see [`reach`](crate::ops::reach).
//!
//! If the number of steps differs between lanes, the loop runs as many steps as the longest lane. If `until` differs
//! between lanes, the loop ends once `until` has been true in every lane. A lane is active at step `t` if `t` is less
//! than the lane's number of steps and no earlier step has ended the lane. The same condition applies to reverse loops.
//! An inactive lane keeps its carries and rows unchanged.
//!
//! A trace has one row for each step of the longest lane. Each lane's own rows come first, followed by zeros
//! ([`ragged`](crate::vmap::ragged)). In a reverse loop, the initial rows of a buffer must follow each lane's own rows,
//! so the buffer becomes a full buffer. If a reverse loop stops early, the rows of each lane are moved to the front.

use super::parts::bind;
use super::*;
use crate::graph::tracer::{SizeByLane, add_size_by_lane, lane_masks};
use crate::value::size as size_of;
use crate::vmap::ragged::{
    counts_of_running_lanes, largest, padded, ragged_symbol, reject_ragged, shift_rows, sizes_of_lanes,
};
use crate::vmap::{guarded, inline_where, lanes_type};

pub(super) fn batch(scan: &Scan, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let mapped: Vec<bool> = operands.iter().map(|operand| operand.mapped).collect();
    let (mut buffers, ends) = scan.states_reached(ReachKind::Lanes, &mapped, &mut Reach::of(&scan.body));
    let carries = buffers.split_off(scan.buffers.len());
    let steps = Steps::of(scan, operands)?;
    Lanes { scan, size, operands, steps, buffers, carries, ends: false }.batch(ends)
}

/// The number of steps of the batched loop.
struct Steps {
    /// The largest number of steps of any lane.
    count: Dim,
    /// The operand that holds `count`, if the program computes the number of steps.
    operand: Option<Value>,
    /// The number of steps of each lane, if it differs between lanes.
    by_lane: Option<Value>,
}

impl Steps {
    /// Determines the number of steps of the batched loop. Returns an error if the number differs between lanes and is
    /// not known for each lane.
    fn of(scan: &Scan, operands: &[Batched]) -> Result<Self, Failed> {
        let same = |operand| Steps { count: scan.steps.clone(), operand, by_lane: None };
        let Some(operand) = scan.operands().steps.map(|operand| operands[operand]) else {
            let Some(symbol) = ragged_symbol(&scan.steps) else { return Ok(same(None)) };
            let (Some(counts), Some(count)) = (sizes_of_lanes(&scan.steps), padded(&scan.steps)) else {
                return Err(reject_ragged("scan", Site::Unknown, &symbol));
            };
            return Ok(Steps { count, operand: None, by_lane: Some(counts.value) });
        };
        if !operand.mapped {
            return Ok(same(Some(operand.value)));
        }
        let (counts, fresh) = (counts_of_running_lanes(operand.value.cast(DType::I64)), fresh_symbol());
        let count = Dim::symbol(&fresh);
        if let Some(symbol) = scan.steps.as_symbol() {
            let (symbol, largest) = (symbol.clone(), count.clone());
            add_size_by_lane(SizeByLane { symbol, counts, largest, at_most: None, at_least: 0 });
        }
        let mut operand = Some(largest(counts));
        if scan.reverse && scan.buffers.iter().any(|buffer| given_rows(buffer) > 0) {
            // The initial rows must be placed after each lane's own rows, which requires the symbol for the number of
            // steps. Bind this symbol before the loop, by an additional op.
            operand.take().map_or(Ok(()), |count| bind(count, &fresh))?;
        }
        Ok(Steps { count, operand, by_lane: Some(counts) })
    }
}

/// Returns the number of initial rows of a growing buffer, or 0 for any other buffer.
fn given_rows(buffer: &Buffer) -> usize {
    if let Start::Given(given) = buffer.start { given } else { 0 }
}

struct Lanes<'a> {
    scan: &'a Scan,
    size: &'a Dim,
    operands: &'a [Batched],
    steps: Steps,
    /// Marks the buffers that have lanes.
    buffers: Vec<bool>,
    /// Marks the carries that have lanes.
    carries: Vec<bool>,
    /// `true` if `until` differs between lanes.
    ends: bool,
}

impl Lanes<'_> {
    fn batch(mut self, ends: bool) -> Result<Vec<Batched>, Failed> {
        // If the number of steps differs between lanes, track `until` for each lane too, because some lanes may not run
        // the step that sets `until`.
        self.ends = ends || (self.steps.by_lane.is_some() && self.scan.until.is_some());
        self.mask()?;
        loop {
            let (mut buffers, mut carries, mut ends) = (self.buffers.clone(), self.carries.clone(), self.ends);
            let body = self.trace(&mut buffers, &mut carries, &mut ends)?;
            if buffers == self.buffers && carries == self.carries && ends == self.ends {
                return self.emit(body);
            }
            (self.buffers, self.carries, self.ends) = (buffers, carries, ends);
            self.mask()?;
        }
    }

    /// Returns `true` if some lanes may finish before the loop does.
    fn may_lanes_finish_early(&self) -> bool {
        self.ends || self.steps.by_lane.is_some()
    }

    /// Gives lanes to all states if some lanes may finish before the others. Returns an error if the loop returns only
    /// the last rows of a trace and a lane may have too few of them.
    fn mask(&mut self) -> Result<(), Failed> {
        if !self.may_lanes_finish_early() {
            return Ok(());
        }
        self.buffers.fill(true);
        self.carries.fill(true);
        let is_missing = |buffer: &Buffer| match buffer.returned {
            Returned::Last(count) => buffer.start != Start::Full && count > given_rows(buffer),
            Returned::All => false,
        };
        match self.scan.buffers.iter().position(is_missing) {
            None => Ok(()),
            Some(buffer) => Err(fail("scan", Site::Unknown, &[], |at| missing_rows_error(at, self.scan, buffer))),
        }
    }

    /// Returns the batched form of a buffer. If lanes may finish early, a full buffer also reads the old contents of
    /// the rows that it writes, so that finished lanes can write the old contents back.
    fn buffer(&self, buffer: &Buffer) -> Buffer {
        let is_full = buffer.start == Start::Full;
        match (self.may_lanes_finish_early(), buffer.start) {
            (false, _) => buffer.clone(),
            (true, Start::Empty | Start::Given(_)) if !(self.scan.reverse && given_rows(buffer) > 0) => {
                Buffer { returned: Returned::All, ..buffer.clone() }
            }
            _ => {
                let written = buffer.writes.iter().filter(|offset| !buffer.reads.contains(offset));
                let reads = buffer.reads.iter().chain(written).copied().collect();
                let returned = if is_full { buffer.returned } else { Returned::All };
                Buffer { start: Start::Full, reads, returned, ..buffer.clone() }
            }
        }
    }

    /// Returns the name and type of each parameter of the batched body, and a flag that is `true` if the parameter has
    /// lanes. Excludes the invariants.
    fn params(&self) -> Vec<(String, TensorType, bool)> {
        let (body, layout, places) = (&self.scan.body, self.scan.params(), self.scan.operands());
        let of_input = |index: usize, mapped: bool| {
            let ty = lanes_type(body.input_type(index), mapped, self.size);
            (body.input_name(index).to_string(), ty, mapped)
        };
        let mut params = Vec::new();
        for (operand, range) in places.sequences.zip(&layout.sequences) {
            params.extend(range.clone().map(|index| of_input(index, self.operands[operand].mapped)));
        }
        for (number, buffer) in self.scan.buffers.iter().enumerate() {
            let mapped = self.buffers[number];
            params.extend(layout.buffers[number].clone().map(|index| of_input(index, mapped)));
            let row = body.output_type(self.scan.results().buffers[number].start);
            for offset in &self.buffer(buffer).reads[buffer.reads.len()..] {
                params.push((format!("old_{number}_{offset}"), lanes_type(row, mapped, self.size), mapped));
            }
        }
        params.extend(layout.carries.zip(&self.carries).map(|(index, mapped)| of_input(index, *mapped)));
        if self.steps.by_lane.is_some() {
            params.push(("t".to_string(), TensorType::scalar(DType::I64), false));
        }
        if self.ends {
            params.push(("done".to_string(), TensorType::new(DType::Bool, [self.size.clone()]), true));
            params.push(("ran".to_string(), TensorType::new(DType::I64, [self.size.clone()]), true));
        }
        params
    }

    /// Traces the batched body. Marks the buffers and carries whose new values have lanes, and sets `ends` if `until`
    /// has lanes.
    fn trace(&self, buffers: &mut [bool], carries: &mut [bool], ends: &mut bool) -> Result<ClosedBody, Failed> {
        let params = self.params();
        let types: Vec<(String, TensorType)> = params.iter().map(|(name, ty, _)| (name.clone(), ty.clone())).collect();
        trace_body("scan", self.scan.body.name(), &types, |values| {
            let inputs: Vec<Batched> = values
                .iter()
                .zip(&params)
                .map(|(value, (_, _, mapped))| Batched { value: *value, mapped: *mapped })
                .collect();
            self.step(&inputs, buffers, carries, ends)
        })
    }

    /// Adds one step of all lanes to the open graph, and returns the results of the batched body. Updates the flags as
    /// in [`trace`](Self::trace).
    fn step(
        &self,
        inputs: &[Batched],
        buffers: &mut [bool],
        carries: &mut [bool],
        ends: &mut bool,
    ) -> Result<Vec<(String, Value)>, Failed> {
        let (scan, layout) = (self.scan, self.scan.params());
        let mut next = 0;
        let mut take = |count: usize| {
            next += count;
            inputs[next - count..next].to_vec()
        };
        let mut arguments = take(layout.sequences.last().map_or(0, |range| range.end));
        let mut rows = Vec::with_capacity(scan.buffers.len());
        for buffer in &scan.buffers {
            let read = take(self.buffer(buffer).reads.len());
            arguments.extend_from_slice(&read[..buffer.reads.len()]);
            rows.push(read);
        }
        let old_carries = take(scan.carries);
        let t = self.steps.by_lane.and_then(|_| take(1).first().map(|t| t.value));
        arguments.extend_from_slice(&old_carries);
        arguments.extend_from_slice(&self.operands[scan.operands().invariants]);

        let mut next_of_end = || if self.ends { take(1).first().map(|flag| flag.value) } else { None };
        let (done, ran) = (next_of_end(), next_of_end());

        let counting = self.steps.by_lane.zip(t).map(|(counts, t)| counts.gt(t));
        let running = done.map(|done| !done);
        let active = match (counting, running) {
            (Some(counting), Some(running)) => Some(counting & running),
            (counting, running) => counting.or(running),
        };
        if let Some(active) = active {
            arguments.iter_mut().for_each(|argument| *argument = guarded(active, self.size, *argument));
        }
        let results = inline_where(active, &scan.body, self.size, &arguments)?;
        let places = scan.results();
        let mut outputs = Vec::with_capacity(results.len() + 1);
        let mut push = |index: usize, result: Batched| {
            let name = scan.body.outputs()[index].name.clone();
            outputs.push((name, result.value));
        };
        for (number, buffer) in scan.buffers.iter().enumerate() {
            let written = places.buffers[number].clone();
            let any = buffers[number] || results[written.clone()].iter().any(|row| row.mapped);
            buffers[number] = any;
            let all = self.buffer(buffer);
            for (index, offset) in written.zip(&buffer.writes) {
                let old = match all.start {
                    Start::Full => {
                        all.reads.iter().position(|read| read == offset).map(|position| rows[number][position])
                    }
                    _ if active.is_some() => {
                        Some(Batched { value: results[index].value.zeros_like(), ..results[index] })
                    }
                    _ => None,
                };
                push(index, self.keep_old_if_done(active, results[index], old).materialized_if(any, self.size));
            }
        }
        for (number, index) in places.carries.enumerate() {
            let result = self.keep_old_if_done(active, results[index], Some(old_carries[number]));
            let result = result.materialized_if(carries[number], self.size);
            carries[number] = result.mapped;
            push(index, result);
        }
        if let Some(t) = t {
            outputs.push(("t".to_string(), if scan.reverse { t - 1 } else { t + 1 }));
        }
        if let Some(stop) = places.until.map(|index| results[index]) {
            *ends |= stop.mapped;
            let stop = match done.zip(ran).zip(active) {
                Some(((done, ran), active)) => {
                    let done = done | (stop.materialized(self.size) & active);
                    outputs.push(("done".to_string(), done));
                    outputs.push(("ran".to_string(), ran + active.cast(DType::I64)));
                    done.all(0)
                }
                None if stop.mapped => stop.value.all(0),
                None => stop.value,
            };
            outputs.push(("until".to_string(), stop));
        }
        Ok(outputs)
    }

    /// Selects the step's result in active lanes and the old value in finished lanes. Returns `result` unchanged if
    /// `active` or `old` is `None`.
    fn keep_old_if_done(&self, active: Option<Value>, result: Batched, old: Option<Batched>) -> Batched {
        match (active, old) {
            (Some(active), Some(old)) => select_lanes(active, self.size, result, old),
            _ => result,
        }
    }

    /// Adds the batched loop to the open graph, and returns its results.
    fn emit(&self, body: ClosedBody) -> Result<Vec<Batched>, Failed> {
        let (scan, places) = (self.scan, self.scan.operands());
        let mut operands: Vec<Value> = self.steps.operand.into_iter().collect();
        for operand in &self.operands[places.sequences] {
            operands.push(self.rows(*operand, operand.mapped));
        }
        let buffers: Vec<Buffer> = scan.buffers.iter().map(|buffer| self.buffer(buffer)).collect();
        for (number, place) in places.buffers.iter().enumerate() {
            let Some(operand) = place.map(|place| self.operands[place]) else { continue };
            let (buffer, mapped) = (&scan.buffers[number], self.buffers[number]);
            operands.push(match (buffer.start, buffers[number].start) {
                // The initial rows of each lane follow the rows of its steps.
                (Start::Given(given), Start::Full) => {
                    let (rows, own) = (self.steps.count.clone() + given, Batched::unmapped(constant(given as i64)));
                    self.rows(shift_rows(operand, 0, &rows, self.counts(), own, self.size)?, true)
                }
                _ => self.rows(operand, mapped),
            });
        }
        let carries = self.operands[places.carries].iter().zip(&self.carries);
        operands.extend(carries.map(|(carry, mapped)| carry.materialized_if(*mapped, self.size).value));
        let first = self.steps.by_lane.map(|_| match (scan.reverse, self.steps.operand) {
            (false, _) => constant(0i64),
            (true, Some(count)) => count - 1,
            (true, None) => size_of(&self.steps.count, DType::I64) - 1,
        });
        operands.extend(first);
        if self.ends {
            operands.push(constant(false).broadcast_to([self.size.clone()]));
            operands.push(constant(0i64).broadcast_to([self.size.clone()]));
        }
        let invariants = body.captures.len();
        operands.extend(body.captures);

        let extra = usize::from(first.is_some()) + 2 * usize::from(self.ends);
        let until = scan.until.as_ref().map(|until| if self.ends { fresh_symbol() } else { until.clone() });
        let op = Scan {
            body: Arc::new(body.graph),
            steps: self.steps.count.clone(),
            steps_operand: self.steps.operand.is_some(),
            until: until.clone(),
            buffers,
            carries: scan.carries + extra,
            invariants,
            ..scan.clone()
        };
        let results = emit(op, &operands)?;
        let last = results.last().filter(|_| self.ends);
        let ran = last.zip(until).zip(scan.until.clone()).map(|((counts, largest), symbol)| {
            let at_most = (!scan.steps_operand).then(|| scan.steps.clone());
            // A loop with steps runs at least one, in each lane that runs the loop.
            let runs = lane_masks().is_empty() && scan.steps.is_at_least(&Dim::from(1)) == Some(true);
            let (largest, at_least) = (Dim::symbol(&largest), usize::from(runs && !scan.steps_operand));
            let ran = SizeByLane { symbol, counts: *counts, largest, at_most, at_least };
            add_size_by_lane(ran.clone());
            ran
        });
        let of_buffer = |(number, rows): (usize, &Value)| match self.buffers[number] {
            true if self.may_lanes_finish_early() => self.own_rows(number, rows.move_axis(1, 0), ran.as_ref()),
            true => Ok(Batched::mapped(rows.move_axis(1, 0))),
            false => Ok(Batched::unmapped(*rows)),
        };
        let (rows, carries) = results.split_at(scan.buffers.len());
        let carries = carries.iter().zip(&self.carries);
        let carries = carries.map(|(value, mapped)| Ok(Batched { value: *value, mapped: *mapped }));
        rows.iter().enumerate().map(of_buffer).chain(carries).collect()
    }

    /// Returns the number of steps of each lane.
    fn counts(&self) -> Batched {
        let shared = || Batched::unmapped(size_of(&self.steps.count, DType::I64));
        self.steps.by_lane.map_or_else(shared, Batched::mapped)
    }

    /// Selects the rows of a buffer that the original loop returns, and moves each lane's own rows to the front.
    fn own_rows(&self, number: usize, rows: Value, ran: Option<&SizeByLane>) -> Result<Batched, Failed> {
        let buffer = &self.scan.buffers[number];
        if buffer.start == Start::Full {
            return Ok(Batched::mapped(rows));
        }
        let given = given_rows(buffer);
        let mut rows = Batched::mapped(rows);
        let count = |dim: &Dim| size_of(dim, DType::I64);
        if let Some(ran) = ran.filter(|_| self.scan.reverse) {
            // The rows of steps that a lane did not run precede its own rows.
            let (all, left_out) = (rows.value.dim(1), self.counts().value - ran.counts);
            let before = match buffer.start {
                Start::Empty => left_out - (count(&self.steps.count) - count(&all)),
                _ => left_out,
            };
            let (length, own) = (ran.largest.clone() + given, Batched::unmapped(count(&all)));
            rows = shift_rows(rows, 0, &length, Batched::mapped(-before), own, self.size)?;
        }
        match buffer.returned {
            Returned::All => Ok(rows),
            Returned::Last(last) if self.scan.reverse => Ok(Batched::mapped(rows.value.slice(1, 0..last as i64))),
            Returned::Last(last) => {
                let own = ran.map_or_else(|| self.counts().value, |ran| ran.counts) + given as i64;
                let offset = Batched::mapped(-(own - last as i64));
                shift_rows(rows, 0, &Dim::from(last), offset, Batched::mapped(own), self.size)
            }
        }
    }

    /// Prepares an operand of the loop: if `mapped`, moves its rows to axis 0 and its lanes to axis 1.
    fn rows(&self, value: Batched, mapped: bool) -> Value {
        if mapped { value.materialized(self.size).move_axis(0, 1) } else { value.value }
    }
}

fn missing_rows_error(at: &Place, scan: &Scan, buffer: usize) -> Error {
    let kind = scan.buffers[buffer].kind();
    let reason = format!(
        "the number of steps differs between lanes, and the last rows of buffer {buffer} ({kind}) are returned, which a \
         lane with few steps may lack: its trace is ragged"
    );
    at.step_count(reason, "keep what you need in a carry, or write into a full buffer (mit-mot) of a fixed size")
}
