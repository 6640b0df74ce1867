//! The native loop: one program for the body, run once a step.
//!
//! A buffer that grows (nit-sot, sit-sot, mit-sot) keeps the rows that its taps still read at hand and writes its
//! trace in place where the device can, else collects the rows. A full buffer (mit-mot) keeps the rows that were
//! written beside the tensor that it started from, so that nothing is written through a view that a step still reads.
//! A trace that nobody uses is not kept.
//!
//! A loop with an `until` (scan-c6) reads one boolean a step on the host, and its traces are collected: memory for as many
//! rows as it may have could be far more than those that it has.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::backend::{Backend, Part, StackType, Tensors};
use super::lower::{Body, Known, Lowering, row_type};
use super::program::{Action, Program, Run, Slot};
use super::unroll::missing_row;
use crate::error::{Place, Result};
use crate::graph::ValueId;
use crate::ops::scan::{Buffer, Scan, Start, Wanted};
use crate::types::{DType, TensorType};

/// A loop with a compiled body.
pub(super) struct NativeLoop<B: Backend> {
    pub(super) scan: Scan,
    pub(super) at: Place,
    /// One step. Its arguments: the body's parameters without the invariants, then the values that it needs of the
    /// enclosing program.
    pub(super) body: Arc<Program<B>>,
    /// The types of the results.
    pub(super) outputs: Vec<TensorType>,
    /// How many operands are the loop's own; the rest are values that the body needs.
    own: usize,
    /// The types of the rows of each buffer.
    pub(super) rows: Vec<TensorType>,
    /// The dtype of the step count, if it is an operand.
    pub(super) count: Option<DType>,
}

pub(super) fn lower<B: Backend>(
    lowering: &mut Lowering<'_, B>,
    scan: &Scan,
    at: &Place,
    operands: &[Slot],
    types: &[TensorType],
    outputs: Vec<TensorType>,
    body: Body,
) -> Result<Vec<Slot>> {
    // In each run of the loop anew.
    scan.binds().for_each(|symbol| lowering.sizes.remove(symbol));
    let graph = &scan.body;
    // Values of the enclosing program that a step, or the results of a step, use.
    let mut needed = vec![false; body.registers.len()];
    for (node, _) in graph.nodes().iter().zip(&body.step).filter(|(_, wanted)| **wanted) {
        node.inputs.iter().for_each(|input| needed[input.index()] = true);
    }
    graph.outputs().iter().for_each(|output| needed[output.value.index()] = true);
    let mut outer: Vec<Slot> = operands[..scan.operands().invariants.start].to_vec();
    let own = outer.len();
    let own_params = graph.inputs()[..scan.params().invariants.start].iter().map(|input| input.value);
    let mut arguments: Vec<(ValueId, Option<Known>)> = own_params.map(|value| (value, None)).collect();
    for value in graph.values().filter(|value| needed[value.index()]) {
        if let Some(register) = body.registers[value.index()] {
            arguments.push((value, lowering.known.get(&register).cloned()));
            outer.push(register);
        }
    }
    let program = lowering.shared(std::ptr::from_ref(scan) as usize, graph, &arguments, |index| body.step[index])?;
    let rows = scan.results().buffers.iter().map(|range| row_type(scan, range.start).clone()).collect();
    let count = scan.operands().steps.map(|operand| types[operand].dtype);
    let native =
        NativeLoop { scan: scan.clone(), at: at.clone(), body: program, outputs: outputs.clone(), own, rows, count };
    lowering.push(at, Action::Loop(Box::new(native)), &outer, outputs.len())
}

impl<B: Backend> NativeLoop<B> {
    /// Runs the loop. `results` tells which results are used.
    pub(super) fn run(
        &self,
        run: &mut Run<'_, B>,
        mut operands: Vec<B::Tensor>,
        results: &[Option<Slot>],
    ) -> Result<Tensors<B::Tensor>> {
        let captured = operands.split_off(self.own);
        let steps = self.steps(run, &operands)?;
        let backend = run.backend;
        let rows_of = |operand: usize| backend.shape(&operands[operand]).first().copied().unwrap_or(0);
        self.scan.check_rows(&self.at, steps, rows_of)?;
        self.afford_traces(run, |index| results[index].is_some())?;
        let row_bytes = self.collected_row_bytes(run);

        let places = self.scan.operands();
        let layout = self.scan.results();
        let mut carries: Vec<B::Tensor> = operands.split_off(places.carries.start);
        let mut buffers = Vec::with_capacity(self.scan.buffers.len());
        for (index, buffer) in self.scan.buffers.iter().enumerate() {
            let given = places.buffers[index].map(|operand| &operands[operand]);
            buffers.push(Rows::start(self, run, buffer, index, steps, given, results[index].is_some())?);
        }

        let mut frame = self.body.frame();
        let arity = self.scan.params().invariants.start + captured.len();
        let mut ran = 0;
        for t in self.scan.order(steps) {
            run.step(&self.at, ran)?;
            let mut arguments = Vec::with_capacity(arity);
            for (sequence, operand) in self.scan.sequences.iter().zip(places.sequences.clone()) {
                for k in &sequence.reads {
                    arguments.push(run.fail(&self.at, backend.row(&operands[operand], t + k))?);
                }
            }
            for (index, buffer) in self.scan.buffers.iter().enumerate() {
                for k in &buffer.reads {
                    arguments.push(buffers[index].read(self, run, *k, t + k, index)?);
                }
            }
            arguments.append(&mut carries);
            arguments.extend(captured.iter().cloned());
            // scan-c1: every read of this step is done before its first write.
            let written = self.body.run_in(&mut frame, run, arguments);
            let mut written = written.map_err(|error| error.in_step(&self.at, ran))?;
            let ends = match layout.until {
                Some(until) => run.fail(&self.at, backend.download(&written[until], DType::Bool))?.get(0).as_bool(),
                None => false,
            };
            carries = written.drain(layout.carries.start..layout.carries.end).collect();
            let mut written = written.into_iter();
            for (index, buffer) in self.scan.buffers.iter().enumerate() {
                for (k, row) in buffer.writes.iter().zip(&mut written) {
                    buffers[index].write(self, run, t + k, row)?;
                }
            }
            ran += 1;
            if row_bytes > 0 {
                let bytes = row_bytes.saturating_mul(ran as u64 + 1);
                run.afford(&self.at, || format!("the traces of {ran} steps and one more"), bytes)?;
            }
            if ends {
                break;
            }
        }
        if let Some(symbol) = &self.scan.until {
            run.sizes.set(symbol, ran);
            self.scan.check_wanted(&self.at, ran)?;
        }

        let mut outputs = Tensors::new();
        for (index, buffer) in buffers.into_iter().enumerate() {
            outputs.push(buffer.finish(self, run, index, results[index].is_some())?);
        }
        outputs.extend(carries);
        Ok(outputs)
    }

    /// scan-c6.
    fn steps(&self, run: &mut Run<'_, B>, operands: &[B::Tensor]) -> Result<usize> {
        let operand = self.scan.operands().steps;
        if let (Some(operand), Some(dtype), Some(symbol)) = (operand, self.count, self.scan.steps.as_symbol()) {
            let count = run.fail(&self.at, run.backend.download(&operands[operand], dtype))?;
            let steps = self.scan.check_count(&self.at, count.get(0).as_i64())?;
            run.sizes.set(symbol, steps);
            return Ok(steps);
        }
        let count = self.scan.steps.value(&run.sizes).map_err(|error| crate::ops::no_size(&self.at, error))?;
        self.scan.check_count(&self.at, count)
    }
}

/// The rows of a buffer while the loop runs.
enum Rows<T> {
    /// A buffer that grows by one row a step.
    Growing {
        /// The rows that precede the next write, the oldest first; as many as taps read, or as are wanted.
        recent: VecDeque<T>,
        /// How many of them are kept.
        keep: usize,
        /// How many the taps may read.
        given: usize,
        trace: Trace<T>,
        ty: StackType,
    },
    /// A full buffer: what it started from, and the rows that were written.
    Full { initial: T, written: Vec<Option<T>>, ty: StackType },
}

/// The trace of a growing buffer.
enum Trace<T> {
    /// Nobody uses it, or only its last rows.
    None,
    /// Written in place. `None` only while a row is written.
    InPlace(Option<T>),
    /// In the order of the loop.
    Collected(Vec<T>),
}

impl<T: Clone> Rows<T> {
    fn start<B: Backend<Tensor = T>>(
        native: &NativeLoop<B>,
        run: &mut Run<'_, B>,
        buffer: &Buffer,
        index: usize,
        steps: usize,
        given: Option<&T>,
        used: bool,
    ) -> Result<Self> {
        let (at, backend) = (&native.at, run.backend);
        let count = given.map_or(0, |tensor| backend.shape(tensor)[0]);
        let rows = if buffer.start == Start::Full { count } else { steps + count };
        let ty = run.stack_type(at, &native.rows[index].stacked(rows))?;
        if let (Start::Full, Some(initial)) = (buffer.start, given) {
            return Ok(Rows::Full { initial: initial.clone(), written: vec![None; rows], ty });
        }
        let mut first_rows = Vec::with_capacity(count);
        for row in 0..count {
            let tensor = given.map(|given| run.fail(at, backend.row(given, row))).transpose()?;
            first_rows.extend(tensor);
        }
        let mut keep = count;
        let trace = match buffer.wanted {
            _ if !used => Trace::None,
            Wanted::Last(wanted) => {
                keep = keep.max(wanted);
                Trace::None
            }
            // Of a loop that may end early, memory for all steps could be far too much.
            Wanted::All if native.scan.until.is_some() => Trace::Collected(Vec::new()),
            Wanted::All => match run.fail(at, backend.allocate(&ty))? {
                Some(mut trace) => {
                    let first = native.scan.first_given_row(steps);
                    for (row, tensor) in first_rows.iter().enumerate() {
                        trace = run.fail(at, backend.write_row(trace, first + row, tensor.clone()))?;
                    }
                    Trace::InPlace(Some(trace))
                }
                None => Trace::Collected(Vec::with_capacity(rows)),
            },
        };
        // In the order of the loop: a downward loop meets the given rows from the last to the first.
        if native.scan.reverse {
            first_rows.reverse();
        }
        let trace = match trace {
            Trace::Collected(mut collected) => {
                collected.extend(first_rows.iter().cloned());
                Trace::Collected(collected)
            }
            trace => trace,
        };
        Ok(Rows::Growing { recent: first_rows.into(), keep, given: count, trace, ty })
    }

    /// Row `row`, which is `offset` rows from `t`.
    fn read<B: Backend<Tensor = T>>(
        &self,
        native: &NativeLoop<B>,
        run: &Run<'_, B>,
        offset: usize,
        row: usize,
        index: usize,
    ) -> Result<T> {
        match self {
            Rows::Full { initial, written, .. } => match &written[row] {
                Some(tensor) => Ok(tensor.clone()),
                None => run.fail(&native.at, run.backend.row(initial, row)),
            },
            Rows::Growing { recent, given, .. } => {
                // scan-c5: upward, offsets 0..given are the rows before the write at offset `given`; downward,
                // offsets 1..=given are the rows before the write at offset 0.
                let back = if native.scan.reverse { offset } else { given - offset };
                let tensor = recent.len().checked_sub(back).and_then(|place| recent.get(place));
                tensor.cloned().ok_or_else(|| missing_row(&native.at, index, row))
            }
        }
    }

    fn write<B: Backend<Tensor = T>>(
        &mut self,
        native: &NativeLoop<B>,
        run: &Run<'_, B>,
        row: usize,
        tensor: T,
    ) -> Result<()> {
        match self {
            Rows::Full { written, .. } => written[row] = Some(tensor),
            Rows::Growing { recent, keep, trace, .. } => {
                if *keep > 0 {
                    recent.push_back(tensor.clone());
                    while recent.len() > *keep {
                        recent.pop_front();
                    }
                }
                match trace {
                    Trace::None => {}
                    Trace::Collected(rows) => rows.push(tensor),
                    Trace::InPlace(whole) => {
                        if let Some(taken) = whole.take() {
                            *whole = Some(run.fail(&native.at, run.backend.write_row(taken, row, tensor))?);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows that are results. Of a buffer that nobody uses, what is at hand.
    fn finish<B: Backend<Tensor = T>>(
        self,
        native: &NativeLoop<B>,
        run: &Run<'_, B>,
        index: usize,
        used: bool,
    ) -> Result<T> {
        let (at, backend) = (&native.at, run.backend);
        let in_row_order = |mut rows: Vec<T>| {
            if native.scan.reverse {
                rows.reverse();
            }
            rows.into_iter().map(Part::Row).collect::<Vec<_>>()
        };
        let (parts, mut ty) = match self {
            Rows::Growing { trace: Trace::InPlace(Some(trace)), .. } => return Ok(trace),
            Rows::Growing { trace: Trace::Collected(rows), ty, .. } => (in_row_order(rows), ty),
            Rows::Growing { recent, ty, .. } => {
                let count = match native.scan.buffers[index].wanted {
                    Wanted::Last(count) if used => count,
                    _ => 0,
                };
                let skip = recent.len().checked_sub(count).ok_or_else(|| missing_row(at, index, ty.rows))?;
                (in_row_order(recent.into_iter().skip(skip).collect()), ty)
            }
            Rows::Full { initial, .. } if !used => return Ok(initial),
            Rows::Full { initial, written, ty } => {
                let rows = native.scan.wanted_rows(&native.scan.buffers[index], ty.rows, 0);
                (full_parts(native, run, &initial, written, rows)?, ty)
            }
        };
        ty.rows =
            parts.iter().map(|part| if let Part::Block(block) = part { backend.shape(block)[0] } else { 1 }).sum();
        run.fail(at, backend.stack(parts, &ty))
    }
}

/// The rows of a full buffer that are results: blocks of rows that are still the initial ones, and written rows.
fn full_parts<B: Backend>(
    native: &NativeLoop<B>,
    run: &Run<'_, B>,
    initial: &B::Tensor,
    mut written: Vec<Option<B::Tensor>>,
    wanted: Range<usize>,
) -> Result<Vec<Part<B::Tensor>>> {
    let mut parts = Vec::new();
    let mut next = wanted.start;
    while next < wanted.end {
        match written[next].take() {
            Some(row) => {
                parts.push(Part::Row(row));
                next += 1;
            }
            None => {
                let count = written[next..wanted.end].iter().take_while(|row| row.is_none()).count();
                parts.push(Part::Block(run.fail(&native.at, run.backend.rows(initial, next, count))?));
                next += count;
            }
        }
    }
    Ok(parts)
}
