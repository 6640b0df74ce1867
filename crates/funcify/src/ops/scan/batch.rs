//! The batching rule of the loop: one loop on all lanes.
//!
//! Rows are along axis 0 of what the loop takes and gives, so its lanes are along axis 1; in the body they are along
//! axis 0. A carry or a buffer has lanes if its initial value has or if a step gives it some, which is found by
//! tracing the body until nothing is added.
//!
//! A step count that differs between lanes is run to the largest one, and an `until` that does until the last lane has
//! ended. A lane is active at step `t` if `t` is below its own count, upward and downward, and no earlier step has ended
//! it; one that is not keeps its carries and its rows. A buffer whose rows are counted by the steps would be ragged then,
//! and is refused.

use std::sync::Arc;

use super::{Buffer, Scan, Start};
use crate::error::{Error, Place, Site};
use crate::graph::tracer::{ClosedBody, add_sizes_by_lane};
use crate::graph::{Value, concat, constant, emit, fail, fresh_symbol, select};
use crate::host::HostTensor;
use crate::types::{DType, Dim, TensorType};
use crate::vmap::{Batched, guarded, inline, lanes_type, select_lanes, trace_body};

pub(super) fn batch(scan: &Scan, size: &Dim, operands: &[Batched]) -> Vec<Batched> {
    let places = scan.operands();
    let counts = places.steps.map(|operand| operands[operand]).filter(|count| count.mapped).map(|count| count.value);
    let by_lane = counts.is_some();
    if let (Some(counts), Some(buffer)) = (counts, ragged(scan)) {
        fail("scan", Site::Unknown, &[counts], |at| ragged_error(at, scan, buffer));
        return Vec::new();
    }
    if by_lane {
        add_sizes_by_lane(scan.binds());
    }
    let lanes = Lanes {
        scan,
        size,
        operands,
        counts: counts.map(|counts| counts.cast(DType::I64)),
        buffers: places.buffers.iter().map(|place| by_lane || place.is_some_and(|at| operands[at].mapped)).collect(),
        carries: operands[places.carries].iter().map(|operand| by_lane || operand.mapped).collect(),
        ends: false,
    };
    lanes.batch().unwrap_or_default()
}

/// A buffer with a row a step, which lanes with steps of their own would give different lengths.
fn ragged(scan: &Scan) -> Option<usize> {
    scan.buffers.iter().position(|buffer| buffer.start != Start::Full)
}

fn ragged_error(at: &Place, scan: &Scan, buffer: usize) -> Error {
    let kind = scan.buffers[buffer].kind();
    Error::StepCount {
        at: at.boxed(),
        reason: format!(
            "the number of steps differs between lanes, and buffer {buffer} ({kind}) has a row a step: its trace \
             would be ragged"
        ),
        fix: "keep what you need in a carry, or write into a full buffer (mit-mot) of a fixed size".into(),
    }
}

struct Lanes<'a> {
    scan: &'a Scan,
    size: &'a Dim,
    operands: &'a [Batched],
    /// The step count of each lane, if it differs between them.
    counts: Option<Value>,
    /// Which buffers have lanes.
    buffers: Vec<bool>,
    /// Which carries have lanes.
    carries: Vec<bool>,
    /// Whether each lane has its own `until`.
    ends: bool,
}

impl Lanes<'_> {
    fn batch(mut self) -> Option<Vec<Batched>> {
        loop {
            let (mut buffers, mut carries, mut ends) = (self.buffers.clone(), self.carries.clone(), self.ends);
            let body = self.trace(&mut buffers, &mut carries, &mut ends)?;
            if buffers == self.buffers && carries == self.carries && ends == self.ends {
                return Some(self.emit(body));
            }
            if ends && !self.ends {
                if let Some(buffer) = ragged(self.scan) {
                    fail("scan", Site::Unknown, &[], |at| ragged_error(at, self.scan, buffer));
                    return None;
                }
                add_sizes_by_lane(self.scan.until.iter());
                buffers.fill(true);
                carries.fill(true);
            }
            (self.buffers, self.carries, self.ends) = (buffers, carries, ends);
        }
    }

    /// Whether lanes may be done before the loop is.
    fn masked(&self) -> bool {
        self.ends || self.counts.is_some()
    }

    /// The offsets that a step reads of a buffer. A lane that is done writes back what it has read.
    fn reads(&self, buffer: &Buffer) -> Vec<usize> {
        let mut reads = buffer.reads.clone();
        if self.masked() {
            reads.extend(buffer.writes.iter().filter(|offset| !buffer.reads.contains(offset)));
        }
        reads
    }

    /// The parameters of the body without the invariants, and whether each has lanes.
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
            for offset in &self.reads(buffer)[buffer.reads.len()..] {
                params.push((format!("old_{number}_{offset}"), lanes_type(row, mapped, self.size), mapped));
            }
        }
        params.extend(layout.carries.zip(&self.carries).map(|(index, mapped)| of_input(index, *mapped)));
        if self.counts.is_some() {
            params.push(("t".to_string(), TensorType::scalar(DType::I64), false));
        }
        if self.ends {
            params.push(("done".to_string(), TensorType::new(DType::Bool, [self.size.clone()]), true));
        }
        params
    }

    /// Traces a step, and notes which buffers and carries it gives lanes, and whether its `until` has some.
    fn trace(&self, buffers: &mut [bool], carries: &mut [bool], ends: &mut bool) -> Option<ClosedBody> {
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

    /// One step on all lanes; the results in the order of the body's.
    fn step(
        &self,
        inputs: &[Batched],
        buffers: &mut [bool],
        carries: &mut [bool],
        ends: &mut bool,
    ) -> Vec<(String, Value)> {
        let (scan, layout) = (self.scan, self.scan.params());
        let mut next = 0;
        let mut take = |count: usize| {
            next += count;
            inputs[next - count..next].to_vec()
        };
        let mut arguments = take(layout.sequences.last().map_or(0, |range| range.end));
        let mut rows = Vec::with_capacity(scan.buffers.len());
        for buffer in &scan.buffers {
            let read = take(self.reads(buffer).len());
            arguments.extend_from_slice(&read[..buffer.reads.len()]);
            rows.push(read);
        }
        let old_carries = take(scan.carries);
        let t = self.counts.and_then(|_| take(1).first().map(|t| t.value));
        arguments.extend_from_slice(&old_carries);
        arguments.extend_from_slice(&self.operands[scan.operands().invariants]);

        let done = if self.ends { take(1).first().map(|done| done.value) } else { None };

        let counting = self.counts.zip(t).map(|(counts, t)| counts.gt(t));
        let running = done.map(|done| !done);
        let active = match (counting, running) {
            (Some(counting), Some(running)) => Some(counting & running),
            (counting, running) => counting.or(running),
        };
        if let Some(active) = active {
            arguments.iter_mut().for_each(|argument| *argument = guarded(active, self.size, *argument));
        }
        let results = inline(&scan.body, self.size, &arguments);
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
            let reads = self.reads(buffer);
            for (index, offset) in written.zip(&buffer.writes) {
                let old = reads.iter().position(|read| read == offset).map(|position| rows[number][position]);
                push(index, self.unless_done(active, results[index], old).spread_if(any, self.size));
            }
        }
        for (number, index) in places.carries.enumerate() {
            let result = self.unless_done(active, results[index], Some(old_carries[number]));
            let result = result.spread_if(carries[number], self.size);
            carries[number] = result.mapped;
            push(index, result);
        }
        if let Some(t) = t {
            outputs.push(("t".to_string(), if scan.reverse { t - 1 } else { t + 1 }));
        }
        if let Some(stop) = places.until.map(|index| results[index]) {
            *ends |= stop.mapped;
            let stop = match done {
                Some(done) => {
                    let done = done | stop.spread(self.size);
                    outputs.push(("done".to_string(), done));
                    done.all(0)
                }
                None if stop.mapped => stop.value.all(0),
                None => stop.value,
            };
            outputs.push(("until".to_string(), stop));
        }
        outputs
    }

    /// What a step gives, for the lanes that are active; the others keep what they have.
    fn unless_done(&self, active: Option<Value>, result: Batched, old: Option<Batched>) -> Batched {
        match (active, old) {
            (Some(active), Some(old)) => select_lanes(active, self.size, result, old),
            _ => result,
        }
    }

    fn emit(&self, body: ClosedBody) -> Vec<Batched> {
        let (scan, places) = (self.scan, self.scan.operands());
        let mut operands = Vec::with_capacity(self.operands.len());
        let (mut steps, mut first) = (scan.steps.clone(), None);
        match (self.counts, places.steps) {
            (Some(counts), _) => {
                steps = Dim::symbol(&fresh_symbol());
                let count = largest(counts);
                first = Some(if scan.reverse { count - 1 } else { count.zeros_like() });
                operands.push(count);
            }
            (None, Some(index)) => operands.push(self.operands[index].value),
            (None, None) => {}
        }
        operands.extend(self.operands[places.sequences].iter().map(|sequence| self.rows(*sequence, sequence.mapped)));
        for (place, mapped) in places.buffers.iter().zip(&self.buffers) {
            operands.extend(place.map(|place| self.rows(self.operands[place], *mapped)));
        }
        let carries = self.operands[places.carries].iter().zip(&self.carries);
        operands.extend(carries.map(|(carry, mapped)| carry.spread_if(*mapped, self.size).value));
        operands.extend(first);
        let running = self.ends.then(|| constant(false).broadcast_to([self.size.clone()]));
        operands.extend(running);
        let invariants = body.captures.len();
        operands.extend(body.captures);

        let buffers = scan.buffers.iter().map(|buffer| Buffer { reads: self.reads(buffer), ..buffer.clone() });
        let op = Scan {
            body: Arc::new(body.graph),
            steps,
            until: scan.until.as_ref().map(|until| if self.ends { fresh_symbol() } else { until.clone() }),
            buffers: buffers.collect(),
            carries: scan.carries + usize::from(first.is_some()) + usize::from(running.is_some()),
            invariants,
            ..scan.clone()
        };
        let results = emit(op, &operands, Site::Unknown);
        let flags =
            self.buffers.iter().map(|mapped| (*mapped, true)).chain(self.carries.iter().map(|mapped| (*mapped, false)));
        let result = |(value, (mapped, has_rows)): (Value, (bool, bool))| {
            let value = if mapped && has_rows { value.move_axis(1, 0) } else { value };
            Batched { value, mapped }
        };
        results.into_iter().zip(flags).map(result).collect()
    }

    /// Rows along axis 0, with the lanes along axis 1 if `mapped`.
    fn rows(&self, value: Batched, mapped: bool) -> Value {
        if mapped { value.spread(self.size).move_axis(0, 1) } else { value.value }
    }
}

/// The largest count of the lanes, 0 of none; a negative one if there is any, so that it is refused as it is in one
/// lane.
fn largest(counts: Value) -> Value {
    let counts = concat(&[counts, constant(HostTensor::from([0i64]))], 0);
    let (smallest, largest) = (counts.min(0), counts.max(0));
    select(smallest.lt(0), smallest, largest)
}
