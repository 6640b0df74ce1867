//! Runs native loops by running the program of the body once per step.
//!
//! A growing buffer (nit-sot, sit-sot, mit-sot) keeps only the rows that its taps still read or that the loop returns.
//! It writes its trace in place if the device supports that, and otherwise collects the rows. A full buffer (mit-mot)
//! keeps the written rows separate from the initial tensor, so that no write changes a view that a step still reads.
//! Unused traces are not built.
//!
//! The captures of a step are put into the frame of the body once, before the loop. A step moves rows and carries into
//! and out of the frame, and allocates no slots. If no later step reads a row or a carry, the frame holds the only
//! reference to the tensor, so a kernel may overwrite the tensor in place.
//!
//! A loop with an `until` (scan-c6) downloads one boolean per step. It collects the rows of its traces one by one,
//! because allocating the maximum number of rows could take far more memory than needed.

use std::collections::VecDeque;

use funcify_core::ops::scan::{Returned, Scan, Start};

use super::late::LateLoop;
use super::program::Slot;
use super::*;

/// A loop whose body is lowered to a program.
pub(crate) struct NativeLoop<B: Backend> {
    pub(crate) scan: Scan,
    pub(crate) at: Place,
    /// The program of one step. Its arguments are the parameters of the body except the invariants, followed by the
    /// captured values.
    pub(crate) body: Arc<Program<B>>,
    /// The types of the results.
    pub(crate) outputs: Vec<TensorType>,
    /// The number of operands that belong to the loop itself. They are followed by the values that the step captures.
    pub(crate) own_operands: usize,
    /// For each buffer, the type of a row.
    pub(crate) rows: Vec<TensorType>,
    /// The dtype of the operand that holds the number of steps, or `None` if no operand holds it.
    pub(crate) count: Option<DType>,
    /// The loop in the form that is compiled at run time, or `None` if the loop always runs natively. If this field is
    /// `Some`, the last operands are the loop's invariants.
    pub(crate) late: Option<LateLoop<B>>,
}

impl<B: Backend> NativeLoop<B> {
    /// Runs the loop on `operands`. `results` holds the slot of each result, or `None` if the result is unused.
    pub(crate) fn run_loop(
        &self,
        run: &mut Run<'_, B>,
        mut operands: Vec<B::Tensor>,
        results: &[Option<Slot>],
    ) -> Result<Tensors<B::Tensor>> {
        let mut captured = operands.split_off(self.own_operands);
        let steps = self.count_steps(run, &operands)?;
        let backend = run.backend;
        let rows_of = |operand: usize| backend.shape(&operands[operand])[0];
        self.scan.check_rows(&self.at, steps, rows_of)?;
        self.check_trace_budget(run, |index| results[index].is_some())?;
        if let Some(late) = &self.late {
            let invariants = captured.split_off(captured.len() - self.scan.invariants);
            let all = [&operands[usize::from(self.count.is_some())..], &invariants].concat();
            if let Some((results, ran)) = late.run_planned(run, &self.at, steps, &all)? {
                self.bind_steps(run, ran)?;
                return Ok(results);
            }
        }
        let places = self.scan.operands();
        let mut carries: Vec<B::Tensor> = operands.split_off(places.carries.start);
        let mut buffers = Vec::with_capacity(self.scan.buffers.len());
        for (index, operand) in places.buffers.iter().enumerate() {
            let given = operand.map(|operand| &operands[operand]);
            buffers.push(NativeBuffer::start(self, run, index, steps, given, results[index].is_some())?);
        }

        let sequences = &operands[places.sequences];
        let ran = match self.run_steps(run, steps, sequences, captured, &mut buffers, &mut carries) {
            Ok(ran) => ran,
            Err(error) => {
                free_after(&error, buffers.into_iter().map(|rows| rows.contents).collect::<Vec<_>>());
                return Err(error);
            }
        };
        self.bind_steps(run, ran)?;

        let mut outputs = buffers.into_iter().map(|rows| rows.finish(run)).collect::<Result<Tensors<_>>>()?;
        outputs.extend(carries);
        Ok(outputs)
    }

    /// Runs up to `steps` steps. Returns the number of steps that ran.
    fn run_steps(
        &self,
        run: &mut Run<'_, B>,
        steps: usize,
        sequences: &[B::Tensor],
        captured: Vec<B::Tensor>,
        buffers: &mut [NativeBuffer<'_, B>],
        carries: &mut Vec<B::Tensor>,
    ) -> Result<usize> {
        let (backend, params, layout) = (run.backend, self.scan.params(), self.scan.results());
        let row_bytes = self.collected_row_bytes(run);
        let mut frame = self.body.frame();
        self.body.place_all(&mut frame, params.invariants.start, captured);
        let mut ran = 0;
        for t in self.scan.order(steps) {
            run.begin_step(&self.at, ran)?;
            for ((sequence, rows), params) in self.scan.sequences.iter().zip(sequences).zip(&params.sequences) {
                for (k, param) in sequence.reads.iter().zip(params.clone()) {
                    self.body.place(&mut frame, param, run.fail(&self.at, backend.row(rows, t + k))?);
                }
            }
            for ((buffer, rows), params) in self.scan.buffers.iter().zip(&mut *buffers).zip(&params.buffers) {
                for (read, param) in (0..buffer.reads.len()).zip(params.clone()) {
                    self.body.place(&mut frame, param, rows.read(run, read, t)?);
                }
            }
            self.body.place_all(&mut frame, params.carries.start, carries.drain(..));
            // scan-c1: all reads of this step happen before its first write.
            self.body.interpret(&mut frame, run).map_err(|error| error.in_step(&self.at, ran))?;
            for ((buffer, rows), written) in self.scan.buffers.iter().zip(&mut *buffers).zip(&layout.buffers) {
                for (k, written) in buffer.writes.iter().zip(written.clone()) {
                    rows.write(run, t + k, self.body.take(&mut frame, written))?;
                }
            }
            carries.extend(layout.carries.clone().map(|carry| self.body.take(&mut frame, carry)));
            let ends = match layout.until.map(|until| self.body.take(&mut frame, until)) {
                Some(until) => run.fail(&self.at, backend.download(&until, DType::Bool))?.get(0).as_bool(),
                None => false,
            };
            ran += 1;
            if row_bytes > 0 {
                let bytes = row_bytes.saturating_mul(ran as u64 + 1);
                run.check_budget(&self.at, || format!("the traces of {ran} steps and the next one"), bytes)?;
            }
            if ends {
                break;
            }
        }
        Ok(ran)
    }

    /// Binds the symbol of a loop with early exit to the number of steps that ran (scan-c6). Does nothing for other
    /// loops.
    fn bind_steps(&self, run: &mut Run<'_, B>, ran: usize) -> Result<()> {
        let Some(symbol) = &self.scan.until else { return Ok(()) };
        run.sizes.set(symbol, ran);
        self.scan.check_returned(&self.at, ran)
    }

    /// Returns the maximum number of steps to run (scan-c6). If the number is an operand, downloads it and binds its
    /// symbol. Otherwise, evaluates the number at the current sizes.
    fn count_steps(&self, run: &mut Run<'_, B>, operands: &[B::Tensor]) -> Result<usize> {
        let operand = self.scan.operands().steps;
        if let (Some(operand), Some(dtype), Some(symbol)) = (operand, self.count, self.scan.steps.as_symbol()) {
            let count = run.fail(&self.at, run.backend.download(&operands[operand], dtype))?;
            let steps = self.scan.check_count(&self.at, count.get(0).as_i64())?;
            run.sizes.set(symbol, steps);
            return Ok(steps);
        }
        let count = self.scan.steps.value(&run.sizes).map_err(|error| funcify_core::ops::no_size(&self.at, error))?;
        self.scan.check_count(&self.at, count)
    }
}

/// The run-time state of a buffer.
struct NativeBuffer<'l, B: Backend> {
    native: &'l NativeLoop<B>,
    /// The index of the buffer among the buffers of the loop.
    index: usize,
    /// `true` if the buffer's result is used.
    used: bool,
    /// The type that the buffer has if all steps run.
    ty: StackType,
    contents: BufferContents<B::Tensor>,
}

/// The rows of a buffer that are currently kept.
enum BufferContents<T> {
    /// A buffer that grows by one row per step.
    Growing {
        /// The most recent rows, oldest first: those that the taps still read and those that are returned.
        recent: VecDeque<T>,
        /// The maximum number of recent rows to keep.
        keep: usize,
        /// The number of initial rows. Taps read at most this many rows back.
        given: usize,
        trace: Trace<T>,
    },
    /// A full buffer: its initial tensor, and the rows that were written so far.
    Full { initial: T, written: Vec<Option<T>> },
}

/// The trace of a growing buffer.
enum Trace<T> {
    /// No trace is kept, because the trace is unused or only its last rows are returned.
    None,
    /// A tensor that is written in place. `None` only while a row is being written.
    InPlace(Option<T>),
    /// The rows so far, in the order in which the loop visits them.
    Collected(Vec<T>),
}

impl<'l, B: Backend> NativeBuffer<'l, B> {
    fn start(
        native: &'l NativeLoop<B>,
        run: &Run<'_, B>,
        index: usize,
        steps: usize,
        given: Option<&B::Tensor>,
        used: bool,
    ) -> Result<Self> {
        let (at, backend, buffer) = (&native.at, run.backend, &native.scan.buffers[index]);
        // A buffer that starts empty has no operand.
        let count = given.map_or(0, |tensor| backend.shape(tensor)[0]);
        let rows = if buffer.start == Start::Full { count } else { steps + count };
        let ty = run.stack_type(at, &native.rows[index].stacked(rows))?;
        if let (Start::Full, Some(initial)) = (buffer.start, given) {
            let contents = BufferContents::Full { initial: initial.clone(), written: vec![None; rows] };
            return Ok(NativeBuffer { native, index, used, ty, contents });
        }
        let first_rows = given.into_iter().flat_map(|given| (0..count).map(move |row| backend.row(given, row)));
        let first_rows = first_rows.map(|row| run.fail(at, row)).collect::<Result<Vec<_>>>()?;
        // A reverse loop visits the initial rows from the last to the first.
        let mut recent = VecDeque::from(first_rows.clone());
        if native.scan.reverse {
            recent.make_contiguous().reverse();
        }
        let mut keep = count;
        let trace = match buffer.returned {
            _ if !used => Trace::None,
            Returned::Last(count) => {
                keep = keep.max(count);
                Trace::None
            }
            // Do not allocate all rows: a loop with early exit may need far fewer.
            Returned::All if native.scan.until.is_some() => Trace::Collected(recent.iter().cloned().collect()),
            Returned::All => match run.fail(at, backend.allocate(&ty))? {
                Some(mut trace) => {
                    let first = native.scan.first_given_row(steps);
                    for (row, tensor) in first_rows.into_iter().enumerate() {
                        trace = run.fail(at, backend.write_row(trace, first + row, tensor))?;
                    }
                    Trace::InPlace(Some(trace))
                }
                None => {
                    let mut collected = Vec::with_capacity(rows);
                    collected.extend(recent.iter().cloned());
                    Trace::Collected(collected)
                }
            },
        };
        let contents = BufferContents::Growing { recent, keep, given: count, trace };
        Ok(NativeBuffer { native, index, used, ty, contents })
    }

    /// Returns the row that the read with index `read` accesses in step `t`. The reads of a step must be performed in
    /// order.
    #[inline]
    fn read(&mut self, run: &Run<'_, B>, read: usize, t: usize) -> Result<B::Tensor> {
        let (at, reads) = (&self.native.at, &self.native.scan.buffers[self.index].reads);
        let (offset, row) = (reads[read], t + reads[read]);
        match &mut self.contents {
            BufferContents::Full { initial, written } => match &written[row] {
                Some(tensor) => Ok(tensor.clone()),
                None => run.fail(at, run.backend.row(initial, row)),
            },
            BufferContents::Growing { recent, keep, given, .. } => {
                // scan-c5: an ascending loop writes at offset `given` and reads offsets 0..given; a descending loop
                // writes at offset 0 and reads offsets 1..=given.
                let back = if self.native.scan.reverse { offset } else { *given - offset };
                let place = recent.len().checked_sub(back);
                // If the write of this step would drop the row, move it out: no other read of the step needs it,
                // because the offsets are distinct.
                let is_last_use = place == Some(0) && back == *keep;
                let tensor = match place {
                    Some(0) if is_last_use => recent.pop_front(),
                    Some(place) => recent.get(place).cloned(),
                    None => None,
                };
                tensor.ok_or_else(|| Scan::missing_row(at, self.index, row))
            }
        }
    }

    #[inline]
    fn write(&mut self, run: &Run<'_, B>, row: usize, tensor: B::Tensor) -> Result<()> {
        match &mut self.contents {
            BufferContents::Full { written, .. } => written[row] = Some(tensor),
            BufferContents::Growing { recent, keep, trace, .. } => {
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
                        let rows = whole
                            .take()
                            .expect("the trace is taken only while a row is written, and an error then ends the loop");
                        *whole = Some(run.fail(&self.native.at, run.backend.write_row(rows, row, tensor))?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the buffer's result, or an arbitrary tensor if the result is unused.
    fn finish(self, run: &Run<'_, B>) -> Result<B::Tensor> {
        let NativeBuffer { native, index, used, mut ty, contents } = self;
        let (at, backend, buffer) = (&native.at, run.backend, &native.scan.buffers[index]);
        let in_row_order = |mut rows: Vec<B::Tensor>| {
            if native.scan.reverse {
                rows.reverse();
            }
            rows.into_iter().map(Part::Row).collect::<Vec<_>>()
        };
        let parts = match contents {
            BufferContents::Growing { trace: Trace::InPlace(trace), .. } => {
                return Ok(trace.expect("the trace is taken only while a row is written"));
            }
            BufferContents::Growing { trace: Trace::Collected(rows), .. } => in_row_order(rows),
            BufferContents::Growing { recent, .. } => {
                let count = match buffer.returned {
                    Returned::Last(count) if used => count,
                    _ => 0,
                };
                let skip = recent.len().checked_sub(count).ok_or_else(|| Scan::missing_row(at, index, ty.rows))?;
                in_row_order(recent.into_iter().skip(skip).collect())
            }
            BufferContents::Full { initial, .. } if !used => return Ok(initial),
            BufferContents::Full { initial, written } => {
                // Group consecutive rows that still have their initial values into blocks.
                let returned = native.scan.returned_rows(buffer, ty.rows, 0);
                let (mut parts, mut next) = (Vec::new(), returned.start);
                for block in written[returned].chunk_by(|row, other| row.is_none() && other.is_none()) {
                    parts.push(match &block[0] {
                        Some(row) => Part::Row(row.clone()),
                        None => Part::Block(run.fail(at, backend.rows(&initial, next, block.len()))?),
                    });
                    next += block.len();
                }
                parts
            }
        };
        ty.rows =
            parts.iter().map(|part| if let Part::Block(block) = part { backend.shape(block)[0] } else { 1 }).sum();
        run.fail(at, backend.stack(parts, &ty))
    }
}
