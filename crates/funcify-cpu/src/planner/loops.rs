//! Plans scans. Sequences are read in place, and traces are written in place. A carry stays in a register, unless a
//! trace contains the same values.
//!
//! A loop with early exit counts its steps. Its traces have enough rows for the maximum number of steps, but only the
//! rows of the steps that ran are valid.

use std::ops::Range;

use funcify_analysis::Occupants;
use funcify_core::graph::Node;
use funcify_core::ops::scan::{Buffer, Scan, Start};

use super::buffers::{BufferRows, Use, steps_of_returned_rows};
use super::*;

/// The memory that holds a carry between steps.
enum Carry {
    /// A register holds the carry. A carry with a twin alternates between the two, so that no step copies it.
    Register { register: View, twin: Option<View> },
    /// Each step reads the row that the previous step wrote to the trace of `buffer` at write offset `offset`. The
    /// first step reads `initial`.
    InTrace { initial: View, buffer: usize, offset: usize },
}

/// The elements that control a loop with early exit.
#[derive(Clone)]
struct Ending {
    /// An element that is nonzero if the loop continues.
    goes_on: View,
    /// An element that counts the steps that ran.
    count: View,
}

/// A scan being planned: its operands, and the memory of its buffers and carries.
struct Loop<'a> {
    scan: &'a Scan,
    /// The operands of the scan, except the invariants. Each may consist of several tensors, concatenated along the
    /// rows.
    operands: Vec<Vec<View>>,
    invariants: Vec<Argument>,
    buffers: Vec<BufferRows>,
    carries: Vec<Carry>,
    /// The number of steps.
    steps: usize,
}

/// A range of a scan's steps that becomes one loop of the plan.
#[derive(Clone, Copy)]
struct Steps {
    /// The number of steps of the scan before this range.
    from: usize,
    /// The number of steps in a strip, if a loop over strips surrounds the steps.
    strip: Option<usize>,
    /// The number of steps in an iteration of the plan's loop, and the number of the planned step among them.
    of_iteration: (usize, usize),
}

impl Steps {
    fn single(from: usize) -> Self {
        Steps { from, strip: None, of_iteration: (1, 0) }
    }
}

/// The registers from which a step reads a carry, and to which it writes the carry.
fn registers_of_step<'c>(register: &'c View, twin: Option<&'c View>, steps: Steps) -> [&'c View; 2] {
    match (twin, steps.of_iteration) {
        (Some(twin), (2, 0)) => [register, twin],
        (Some(twin), (2, _)) => [twin, register],
        _ => [register, register],
    }
}

impl Planner {
    /// Plans a scan. `used` marks the results that other nodes or the graph's outputs use, `places` holds the assigned
    /// destination of each result, if any, and `shares` marks the results for which each part computes a partial sum.
    /// Returns the results, with `None` for each unused result.
    pub(super) fn scan(
        &mut self,
        node: &Node,
        scan: &Scan,
        operands: Vec<Argument>,
        used: &[bool],
        places: Vec<Option<View>>,
        shares: &[bool],
    ) -> Result<Vec<Option<View>>> {
        let declined = |reason: &str| Declined::new("scan", reason);
        let steps = scan.steps.value(&self.sizes).map_err(|_| declined("an unknown number of steps"))?;
        let steps = usize::try_from(steps).map_err(|_| declined("a negative number of steps"))?;
        let own = scan.operands();
        // Only loop-invariant operands can be static integers.
        let invariants: Vec<Argument> = operands[own.invariants.clone()].to_vec();
        let tensors = operands[..own.invariants.start].iter().map(Argument::parts);
        let mut operands = tensors.collect::<Result<Vec<Vec<View>>>>()?;
        let rows = |operand: usize| operands[operand].iter().map(|part| part.shape[0]).sum();
        if scan.check_rows(&node.place(), steps, rows).is_err() {
            return Err(declined("too few rows"));
        }
        for part in operands[own.sequences.clone()].iter_mut().flatten().filter(|_| steps > 0) {
            *part = self.emitter.in_units(part)?;
        }
        let mut buffers = Vec::with_capacity(scan.buffers.len());
        for (index, (buffer, place)) in scan.buffers.iter().zip(places).enumerate() {
            let given = own.buffers[index].map(|operand| &operands[operand][0]);
            let use_of = if used[index] { Use::Result(place) } else { Use::Steps };
            buffers.push(self.rows(scan, index, buffer, given, steps, use_of)?);
        }
        let mut carries = Vec::with_capacity(scan.carries);
        for (index, operand) in own.carries.clone().enumerate() {
            let param = scan.body.inputs()[scan.params().carries.start + index].value;
            if !self.supports(&scan.body, param) {
                return Err(declined(&format!("a carry of {}", scan.body.ty(param).dtype)));
            }
            let is_share = shares[scan.buffers.len() + index];
            carries.push(self.carry(scan, index, &operands[operand][0], &buffers, is_share)?);
        }
        let planned = Loop { scan, operands, invariants, buffers, carries, steps };
        let ran = match scan.until {
            Some(_) => Some(self.steps_until(&planned)?),
            None => self.all_steps(&planned).map(|()| None)?,
        };
        self.results(planned, used, ran)
    }

    /// Emits the loops over all steps.
    fn all_steps(&mut self, planned: &Loop<'_>) -> Result<()> {
        let steps = planned.steps;
        // The first step cannot read a carry from a trace, because no step has written to the trace yet. It reads the
        // initial value instead, so it is planned separately.
        let is_first_apart = planned.carries.iter().any(|carry| matches!(carry, Carry::InTrace { .. }));
        let first = steps.min(usize::from(is_first_apart));
        self.steps(planned, Steps::single(0), first)?;
        let mut from = first;
        for end in ends_of_parts(planned.scan, &planned.operands, steps) {
            if end > from {
                self.emit_stretch(planned, from..end)?;
                from = end;
            }
        }
        Ok(())
    }

    /// Emits the loop over a range of steps in which each sequence is read from a single tensor.
    fn emit_stretch(&mut self, planned: &Loop<'_>, stretch: Range<usize>) -> Result<()> {
        let Loop { scan, buffers, .. } = planned;
        let first = stretch.start;
        let Some(strip) = self.strip_of(scan, stretch.len()) else {
            return self.steps_in_pairs(planned, first, stretch.len());
        };
        let of_full = |(buffer, rows): (&Buffer, &BufferRows)| match rows {
            BufferRows::Trace { all, .. } if buffer.start == Start::Full => Some(all.clone()),
            _ => None,
        };
        let full: Vec<View> = scan.buffers.iter().zip(buffers).filter_map(of_full).collect();
        // Emit the full strips, and then a strip of the remaining steps.
        let strips = stretch.len() / strip;
        let from = first + strips * strip;
        for (from, strip, times) in [(first, strip, strips), (from, stretch.end - from, 1)] {
            if strip > 0 {
                self.open_strips(strip, full.clone())?;
                self.steps(planned, Steps { strip: Some(strip), ..Steps::single(from) }, strip)?;
                self.close_strips(times)?;
            }
        }
        Ok(())
    }

    /// Emits a loop with early exit, and returns the element that counts its steps. The loop ends after the maximum
    /// number of steps at the latest.
    fn steps_until(&mut self, planned: &Loop<'_>) -> Result<View> {
        let [goes_on, count] = [(); 2].map(|()| self.emitter.reserve(&[], self.emitter.blocks.depth()));
        self.emitter.fill(&goes_on, 1.0)?;
        self.emitter.fill(&count, 0.0)?;
        let ending = Ending { goes_on, count };
        if planned.steps > 0 {
            self.emitter.blocks.open()?;
            self.step(planned, Steps::single(0), Some(&ending))?;
            let holds = self.emitter.condition(&ending.goes_on);
            self.emitter.blocks.close_while((Vec::new(), holds), Some(planned.steps));
        }
        self.reject_missing_rows(planned.scan, &ending.count)?;
        self.emitter.fired.note(Transformation::EndsEarly);
        // A loop in a body is padded if its symbol has a size: the size is then the number of rows.
        let until = planned.scan.until.clone();
        let until = until.filter(|until| self.outer_ends.contains(until) || self.sizes.get(until).is_none());
        self.counts.extend(until.map(|until| (until, ending.count.clone())));
        Ok(ending.count)
    }

    /// Emits code that marks the call as rejected if a loop with early exit ended before it wrote the rows that it returns.
    /// `ran` is the element that counts its steps. A loop runs at least one step.
    fn reject_missing_rows(&mut self, scan: &Scan, ran: &View) -> Result<()> {
        let needed = steps_of_returned_rows(scan);
        if needed <= 1 {
            return Ok(());
        }
        if !self.ranges.are_checked() {
            return Err(Declined::new("scan", "the last rows of a loop that ends early"));
        }
        let needed = self.emitter.number(needed as f64)?;
        let is_missing = self.emitter.reserve(&[], ran.level);
        self.emitter.map(Op::Binary(Binary::Less), &is_missing, &[ran, &needed])?;
        self.record_refusal(&is_missing)
    }

    /// Returns the results of a loop, with `None` for each unused result. `ran` is the element that counts the steps of a
    /// loop with early exit.
    fn results(&mut self, planned: Loop<'_>, used: &[bool], ran: Option<View>) -> Result<Vec<Option<View>>> {
        let Loop { scan, buffers, carries, steps, .. } = planned;
        let mut results = Vec::with_capacity(used.len());
        for (index, carry) in carries.into_iter().enumerate() {
            let view = match carry {
                Carry::Register { register, .. } => register,
                Carry::InTrace { initial, .. } if steps == 0 => initial,
                Carry::InTrace { buffer, offset, .. } => {
                    buffers[buffer].trace()?.at(0, offset + if scan.reverse { 0 } else { steps - 1 })
                }
            };
            results.push(used[scan.buffers.len() + index].then_some(view));
        }
        let mut all = Vec::with_capacity(used.len());
        for (index, rows) in buffers.into_iter().enumerate() {
            all.push(match (used[index], &ran) {
                (false, _) => None,
                (true, None) => self.returned_rows(scan, rows)?,
                (true, Some(ran)) => self.returned_rows_until(scan, index, rows, (steps, ran))?,
            });
        }
        all.extend(results);
        Ok(all)
    }

    /// Chooses the memory for a carry: a trace that contains the same values and has no initial rows, or a register if
    /// there is no such trace.
    fn carry(
        &mut self,
        scan: &Scan,
        index: usize,
        initial: &View,
        buffers: &[BufferRows],
        is_share: bool,
    ) -> Result<Carry> {
        if is_share {
            return match self.emitter.blocks.depth() {
                1 => {
                    let param = scan.body.inputs()[scan.params().carries.start + index].value;
                    let ty = self.representation(&scan.body, param);
                    Ok(Carry::Register { register: self.emitter.initial_share(initial, ty), twin: None })
                }
                _ => Err(Declined::new("scan", "shares carried by a nested loop")),
            };
        }
        let results = scan.results();
        let value = |output: usize| scan.body.outputs()[output].value;
        let next = value(results.carries.start + index);
        for (number, buffer) in scan.buffers.iter().enumerate() {
            let writes = buffer.writes.iter().zip(results.buffers[number].clone());
            let same = writes.clone().find(|(_, output)| value(*output) == next);
            // With early exit, the carry stays in a register, because the index of the last row is not known when the
            // plan is built.
            if let (Some((offset, _)), Start::Empty, BufferRows::Trace { all, .. }, None) =
                (same, buffer.start, &buffers[number], &scan.until)
                && all.shape[0] > 0
                && self.emitter.lies_within_units(&all.at(0, 0))
            {
                self.emitter.fired.note(Transformation::CarryInTrace);
                return Ok(Carry::InTrace { initial: initial.clone(), buffer: number, offset: *offset });
            }
        }
        let param = scan.body.inputs()[scan.params().carries.start + index].value;
        let (innermost, ty) = (self.innermost(&scan.body, param), self.representation(&scan.body, param));
        if ty != Type::Float && scan.body.node_of(next).is_some() {
            self.integers.insert((scan.body.id(), next));
        }
        let depth = self.emitter.blocks.depth();
        let mut reserve = || self.emitter.reserve_as(&initial.shape, depth, innermost, ty);
        let (register, twin) = (reserve(), self.swapped.contains(&(scan.body.id(), index)).then(reserve));
        self.emitter.copy(&register, initial)?;
        Ok(Carry::Register { register, twin })
    }

    /// Emits a loop over the first `count` steps of the range `steps`.
    fn steps(&mut self, planned: &Loop<'_>, steps: Steps, count: usize) -> Result<()> {
        if count > 0 {
            self.emitter.blocks.open()?;
            self.step(planned, steps, None)?;
            if self.emitter.blocks.close(&self.emitter.plan.regions, count) {
                self.emitter.fired.note(Transformation::Recurrence);
            }
        }
        Ok(())
    }

    /// Emits a loop over `count` steps from step `from` on. If a carry has a twin, an iteration has two steps.
    fn steps_in_pairs(&mut self, planned: &Loop<'_>, from: usize, count: usize) -> Result<()> {
        if count < 2 || !planned.carries.iter().any(|carry| matches!(carry, Carry::Register { twin: Some(_), .. })) {
            return self.steps(planned, Steps::single(from), count);
        }
        self.emitter.blocks.open()?;
        for nth in 0..2 {
            self.step(planned, Steps { of_iteration: (2, nth), ..Steps::single(from) }, None)?;
        }
        self.emitter.blocks.close(&self.emitter.plan.regions, count / 2);
        self.emitter.fired.note(Transformation::Swapped);
        self.steps(planned, Steps::single(from + count - count % 2), count % 2)
    }

    /// Emits a step as the body of the innermost open loop. With `ending`, the step also updates the elements that
    /// control the early exit.
    fn step(&mut self, planned: &Loop<'_>, steps: Steps, ending: Option<&Ending>) -> Result<()> {
        let Loop { scan, operands, invariants, buffers, carries, .. } = planned;
        let level = self.emitter.blocks.depth();
        let (places, results) = (scan.operands(), scan.results());
        // The index of the first step in the range, and the increment from one step to the next.
        let ((every, nth), up) = (steps.of_iteration, if scan.reverse { -1 } else { 1 });
        let from = steps.from + nth;
        let first = if scan.reverse { planned.steps - 1 - from } else { from };
        // If a loop over strips surrounds the steps, each iteration of that loop moves the row by the number of steps
        // in a strip.
        let row_of = |view: &View, row: usize| {
            let mut own = view.row(row, level, up * every as isize);
            if let Some(strip) = steps.strip {
                own.steps[level - 3] += up * strip as isize * view.strides[0];
            }
            own
        };
        let row_at = |view: &View, offset: usize| row_of(view, first + offset);
        let inside = |view: &View| View { level, ..view.clone() };
        let mut parameters = Vec::with_capacity(scan.params().count);
        for (sequence, operand) in scan.sequences.iter().zip(places.sequences.clone()) {
            parameters.extend(sequence.reads.iter().map(|offset| {
                let (part, row) = find_row(&operands[operand], first + offset);
                row_of(part, row)
            }));
        }
        for (buffer, rows) in scan.buffers.iter().zip(buffers) {
            for offset in &buffer.reads {
                parameters.push(match rows {
                    BufferRows::Trace { all, .. } => row_at(all, *offset),
                    BufferRows::AtHand { rows, .. } => {
                        // scan-c5: the step reads a row that was written `back` steps earlier. It writes its own row at
                        // offset `given`, or at offset 0 in a reverse loop.
                        let given = match buffer.start {
                            Start::Given(given) => given,
                            Start::Empty | Start::Full => 0,
                        };
                        let back = if scan.reverse { *offset } else { given - offset };
                        inside(&rows.at(0, rows.shape[0] - back))
                    }
                    BufferRows::None => return Err(Declined::new("scan", "a buffer that is read but has no rows")),
                });
            }
        }
        for carry in carries {
            parameters.push(match carry {
                Carry::Register { register, twin } => inside(registers_of_step(register, twin.as_ref(), steps)[0]),
                Carry::InTrace { initial, .. } if from == 0 => initial.clone(),
                Carry::InTrace { buffer, offset, .. } => {
                    row_of(buffers[*buffer].trace()?, (first + offset).wrapping_add_signed(-up))
                }
            });
        }
        let mut parameters: Vec<Argument> = parameters.into_iter().map(Argument::Tensor).collect();
        parameters.extend(invariants.iter().cloned());

        let mut scope = Scope::new(self, &scan.body, parameters)?;
        // Each row is computed at its destination, unless a read in the same step overlaps the destination.
        let mut written = Vec::new();
        for (buffer, (rows, outputs)) in scan.buffers.iter().zip(buffers.iter().zip(&results.buffers)) {
            for (offset, output) in buffer.writes.iter().zip(outputs.clone()) {
                let BufferRows::Trace { all, .. } = rows else { continue };
                let row = row_at(all, *offset);
                if buffer.start != Start::Full && scope.planner.emitter.lies_within_units(&row) {
                    scope.place(scan.body.outputs()[output].value, row.clone());
                }
                written.push((row, output));
            }
        }
        for (index, carry) in carries.iter().enumerate() {
            let Carry::Register { register, twin } = carry else { continue };
            let param = scan.body.inputs()[scan.params().carries.start + index].value;
            let next = scan.body.outputs()[results.carries.start + index].value;
            match registers_of_step(register, twin.as_ref(), steps) {
                [from, to] if from.is_same_view(to) => scope.state(param, next, inside(register)),
                [_, to] => scope.place(next, inside(to)),
            }
        }
        scope.nodes()?;
        let values = scope.outputs()?;
        if let (Some(until), Some(Ending { goes_on, count })) = (results.until, ending) {
            self.emitter.map(Op::Unary(Unary::Not), &inside(goes_on), &[&values[until]])?;
            let one = self.emitter.number(1.0)?;
            self.emitter.map(Op::Binary(Binary::Add), &inside(count), &[&inside(count), &one])?;
        }
        self.write(planned, steps, &values, &written)
    }

    /// Writes the results of a step. First copies any value that the writes would overwrite before it is read.
    fn write(&mut self, planned: &Loop<'_>, steps: Steps, values: &[View], written: &[(View, usize)]) -> Result<()> {
        let Loop { scan, buffers, carries, .. } = planned;
        let results = scan.results();
        let level = self.emitter.blocks.depth();
        let mut moves: Vec<(View, View)> = Vec::new();
        let at_hand = |rows: &View, index: usize| View { level, ..rows.at(0, index) };
        for (rows, outputs) in buffers.iter().zip(&results.buffers) {
            if let BufferRows::AtHand { rows, .. } = rows
                && rows.shape[0] > 0
            {
                for index in 1..rows.shape[0] {
                    moves.push((at_hand(rows, index - 1), at_hand(rows, index)));
                }
                moves.push((at_hand(rows, rows.shape[0] - 1), values[outputs.start].clone()));
            }
        }
        for (row, output) in written.iter().filter(|(row, output)| !values[*output].is_same_view(row)) {
            moves.push((row.clone(), values[*output].clone()));
        }
        for (index, (carry, output)) in carries.iter().zip(results.carries.clone()).enumerate() {
            let Carry::Register { register, twin } = carry else { continue };
            let [_, to] = registers_of_step(register, twin.as_ref(), steps);
            let to = View { level, ..to.clone() };
            let is_in_place = values[output].is_same_view(&to);
            let is_copied = !is_in_place || self.emitter.copying.contains(&to.memory());
            if is_copied && to.len() >= self.division.min_swapped(self.is_typed) {
                self.moved.insert((scan.body.id(), index));
            }
            if !is_in_place {
                moves.push((to, values[output].clone()));
            }
        }
        self.emit_moves(moves)
    }

    /// Moves the results of a step to the memory from which the next step reads them. First copies any source that a
    /// move would overwrite before it is read.
    pub(super) fn emit_moves(&mut self, mut moves: Vec<(View, View)>) -> Result<()> {
        let level = self.emitter.blocks.depth();
        // A source must be copied first if an earlier move overwrites it, or if its own move overwrites part of it
        // (order-c5).
        let mut written = Occupants::default();
        for index in 0..moves.len() {
            let (to, from) = &moves[index];
            let is_overwritten = written.with(from.memory()).any(|before| moves[before].0.may_overlap(from))
                || (to.may_overlap(from) && !to.is_same_view(from));
            written.insert(to.memory(), index);
            if is_overwritten {
                self.emitter.fired.note(Transformation::MovedAside);
                moves[index].1 = self.emitter.copied(&View { level, ..from.clone() })?;
            }
        }
        for (to, from) in &moves {
            self.emitter.copy(to, from)?;
        }
        Ok(())
    }
}

/// Finds a row of the concatenation of `parts`. Returns the tensor that contains the row, and the row's index within
/// that tensor.
fn find_row(parts: &[View], mut row: usize) -> (&View, usize) {
    let mut index = 0;
    while index + 1 < parts.len() && row >= parts[index].shape[0] {
        row -= parts[index].shape[0];
        index += 1;
    }
    (&parts[index], row)
}

/// Divides the steps into ranges in which each sequence is read from a single tensor. Returns the ends of these ranges
/// in ascending order; the last end is `steps`.
fn ends_of_parts(scan: &Scan, operands: &[Vec<View>], steps: usize) -> Vec<usize> {
    let mut ends = vec![steps];
    for (sequence, operand) in scan.sequences.iter().zip(scan.operands().sequences) {
        let parts = &operands[operand];
        let mut row = 0;
        for part in parts.iter().take(parts.len() - 1) {
            row += part.shape[0];
            let up = sequence.reads.iter().map(|offset| row.saturating_sub(*offset).min(steps));
            ends.extend(up.map(|end| if scan.reverse { steps - end } else { end }));
        }
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}
