//! A naive interpreter into which one of several faults can be injected.
//!
//! Without a fault, the interpreter follows the invariants of `scan` literally. With a fault, a row that was never
//! written reads as zeros, as it might on a real backend.

use std::collections::HashMap;
use std::sync::Arc;

use funcify::error::{Error, Place, Site};
use funcify::ops::scan::{Buffer, Returned, Scan, Start};
use funcify::ops::{EvalContext, Op, OpRules};
use funcify::{DType, Graph, HostTensor, Result, Sizes, Storage, TensorType};

use super::Fault;

/// The maximum number of elements of a tensor. No case of the suite reaches it.
const MAX_ELEMENTS: i64 = 1 << 24;

/// An interpreter for one run of a graph.
pub(super) struct Interpreter {
    fault: Fault,
    sizes: Sizes,
    /// The loop-invariant values of each loop in its first run, keyed by the address of the loop's body.
    first_invariants: HashMap<usize, Vec<HostTensor>>,
}

/// The rows of a buffer. Rows other than the initial ones are `None` until they are written.
type WrittenRows = Vec<Option<HostTensor>>;

/// The state of a running loop.
struct Loop<'a> {
    scan: &'a Scan,
    at: Place,
    steps: usize,
    operands: &'a [HostTensor],
    invariants: Vec<HostTensor>,
    initial_buffers: Vec<WrittenRows>,
    buffers: Vec<WrittenRows>,
    carries: Vec<HostTensor>,
}

impl Interpreter {
    pub(super) fn new(fault: Fault, sizes: Sizes) -> Self {
        Interpreter { fault, sizes, first_invariants: HashMap::new() }
    }

    /// Runs a graph, whose symbols must be bound in `self.sizes`, and returns its outputs.
    pub(super) fn graph(&mut self, graph: &Graph, inputs: Vec<HostTensor>) -> Result<Vec<HostTensor>> {
        let live = graph.live_nodes();
        let mut values: Vec<Option<HostTensor>> = vec![None; graph.values().count()];
        for (input, tensor) in graph.inputs().iter().zip(inputs) {
            values[input.value.index()] = Some(tensor);
        }
        for (_, node) in graph.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
            let at = node.place();
            let operands =
                node.inputs.iter().map(|input| values[input.index()].clone().ok_or_else(|| missing_value(&at)));
            let operands = operands.collect::<Result<Vec<_>>>()?;
            let results = match &node.op {
                Op::Scan(scan) => self.scan(scan, at, &operands)?,
                op => {
                    let types = graph.types(&node.outputs);
                    types.iter().try_for_each(|ty| self.check_size(&at, ty))?;
                    let mut context = EvalContext { at, sizes: &mut self.sizes };
                    op.eval(&mut context, &operands, &types)?
                }
            };
            for (output, result) in node.outputs.iter().zip(results) {
                values[output.index()] = Some(self.rounded(result));
            }
        }
        let at = Place::new(graph.name(), Site::Unknown);
        graph
            .outputs()
            .iter()
            .map(|output| values[output.value.index()].clone().ok_or_else(|| missing_value(&at)))
            .collect()
    }

    /// Rejects a tensor of more than `MAX_ELEMENTS` elements. Only a step that runs because of a fault can compute such
    /// a tensor.
    fn check_size(&self, at: &Place, ty: &TensorType) -> Result<()> {
        let elements = ty.shape.elements().value(&self.sizes);
        match elements.is_ok_and(|elements| elements > MAX_ELEMENTS) {
            true => Err(at.mismatch("a result", "a tensor that a case needs", ty, "run only the steps of the loop")),
            false => Ok(()),
        }
    }

    fn rounded(&self, result: HostTensor) -> HostTensor {
        let dtype = result.dtype();
        let rounds = match self.fault {
            Fault::DoublesRoundedToSingle => dtype == DType::F64,
            Fault::IntegersRoundedToSingle => dtype.is_int(),
            _ => false,
        };
        if rounds { result.cast(DType::F32).cast(dtype) } else { result }
    }

    fn scan(&mut self, scan: &Scan, at: Place, operands: &[HostTensor]) -> Result<Vec<HostTensor>> {
        let steps = self.step_count(scan, &at, operands)?;
        scan.check_rows(&at, steps, |operand| operands[operand].shape()[0])?;
        let places = scan.operands();
        let buffers: Vec<WrittenRows> = (scan.buffers.iter().zip(&places.buffers))
            .map(|(buffer, operand)| initial_rows(scan, buffer, steps, operand.map(|operand| &operands[operand])))
            .collect();
        let mut state = Loop {
            scan,
            at,
            steps,
            operands,
            invariants: self.invariants(scan, &operands[places.invariants]),
            initial_buffers: buffers.clone(),
            buffers,
            carries: operands[places.carries].to_vec(),
        };
        let mut left_out = 0;
        for (done, t) in self.order(scan, steps).into_iter().enumerate() {
            if self.step(&mut state, t, done + 1 == steps)? {
                left_out = steps - done - 1;
                break;
            }
        }
        if let Some(symbol) = &scan.until {
            let ran = if self.fault == Fault::RowsNotCut { steps } else { steps - left_out };
            self.sizes.set(symbol, ran);
            scan.check_returned(&state.at, ran)?;
        }
        let mut outputs = Vec::new();
        for (index, buffer) in scan.buffers.iter().enumerate() {
            let rows = returned_rows(scan, buffer, self.present_rows(scan, buffer, &state.buffers[index], left_out));
            let row_type = scan.body.output_type(scan.results().buffers[index].start);
            outputs.push(self.stack_rows(&state.at, row_type, rows)?);
        }
        outputs.extend(state.carries);
        Ok(outputs)
    }

    fn step_count(&mut self, scan: &Scan, at: &Place, operands: &[HostTensor]) -> Result<usize> {
        if let (Some(operand), Some(symbol)) = (scan.operands().steps, scan.steps.as_symbol()) {
            let steps = scan.check_count(at, operands[operand].get(0).as_i64())?;
            self.sizes.set(symbol, steps);
        }
        let steps = scan.steps.value(&self.sizes).map_err(|symbol| {
            at.mismatch("the number of steps", "a size of an input", format!("`{symbol}`"), "bind it by an input")
        })?;
        let steps = scan.check_count(at, steps)?;
        Ok(if self.fault == Fault::ZeroStepsRunOne { steps.max(1) } else { steps })
    }

    /// Returns the step indices in execution order (scan-c2).
    fn order(&self, scan: &Scan, steps: usize) -> Vec<usize> {
        let mut order: Vec<usize> = scan.order(steps).collect();
        match self.fault {
            Fault::ReversedDirection => order.reverse(),
            Fault::LastStepNotRun => order.truncate(steps.saturating_sub(1)),
            _ => {}
        }
        order
    }

    fn invariants(&mut self, scan: &Scan, operands: &[HostTensor]) -> Vec<HostTensor> {
        match self.fault {
            Fault::InvariantsOfFirstRun => {
                let body = Arc::as_ptr(&scan.body) as usize;
                self.first_invariants.entry(body).or_insert_with(|| operands.to_vec()).clone()
            }
            _ => operands.to_vec(),
        }
    }

    /// Runs step `t`. Returns `true` if the loop exits early after this step (scan-c6).
    fn step(&mut self, state: &mut Loop<'_>, t: usize, is_last: bool) -> Result<bool> {
        let scan = state.scan;
        let results = scan.results();
        let mut computed = self.body(state, t)?;
        let ends = results.until.is_some_and(|until| computed[until].get(0).as_bool());
        if ends && self.fault == Fault::StoppingStepDropped {
            return Ok(true);
        }
        for (index, buffer) in scan.buffers.iter().enumerate() {
            for (number, (k, result)) in buffer.writes.iter().zip(results.buffers[index].clone()).enumerate() {
                if self.writes(number, is_last) {
                    let row = self.written_row(state, buffer, t, *k);
                    if let Some(slot) = state.buffers[index].get_mut(row) {
                        *slot = Some(computed[result].clone());
                    }
                }
                // Without a fault, all reads of the step precede its writes (scan-c1). With `ReadsAfterWrites`, the
                // body runs again after each write.
                if self.fault == Fault::ReadsAfterWrites {
                    computed = self.body(state, t)?;
                }
            }
        }
        for (index, result) in results.carries.enumerate() {
            if self.fault != Fault::CarryNotReplaced {
                state.carries[index] = computed[result].clone();
            }
            if self.fault == Fault::CarriesReplacedOneByOne {
                computed = self.body(state, t)?;
            }
        }
        Ok(ends && self.fault != Fault::UntilNotRead)
    }

    /// Returns the rows of a buffer without the rows of the `left_out` steps that an early exit skipped (scan-c6).
    fn present_rows<'a>(
        &self,
        scan: &Scan,
        buffer: &Buffer,
        rows: &'a [Option<HostTensor>],
        left_out: usize,
    ) -> &'a [Option<HostTensor>] {
        let from_below = scan.reverse && self.fault != Fault::CutAtTheEnd;
        match buffer.start {
            Start::Full => rows,
            _ if self.fault == Fault::RowsNotCut => rows,
            _ if from_below => &rows[left_out..],
            _ => &rows[..rows.len() - left_out],
        }
    }

    /// Returns `true` if a step performs write `number` to a buffer. Some faults drop writes.
    fn writes(&self, number: usize, is_last: bool) -> bool {
        match self.fault {
            Fault::OnlyFirstWrite => number == 0,
            Fault::LostLastRow => !is_last,
            _ => true,
        }
    }

    fn written_row(&self, state: &Loop<'_>, buffer: &Buffer, t: usize, k: usize) -> usize {
        let in_step_order = state.scan.reverse && buffer.start == Start::Empty;
        match self.fault {
            Fault::TraceInStepOrder if in_step_order => state.steps - 1 - t + k,
            _ => t + k,
        }
    }

    /// Runs the body at step `t` and returns its results.
    fn body(&mut self, state: &Loop<'_>, t: usize) -> Result<Vec<HostTensor>> {
        let scan = state.scan;
        let mut arguments = Vec::new();
        for (sequence, operand) in scan.sequences.iter().zip(scan.operands().sequences) {
            for k in &sequence.reads {
                let k = if self.fault == Fault::OnlyFirstTap { sequence.reads[0] } else { *k };
                let row_type = scan.body.input_type(arguments.len());
                arguments.push(self.sequence_row(&state.operands[operand], t + k, row_type)?);
            }
        }
        for (index, buffer) in scan.buffers.iter().enumerate() {
            for k in &buffer.reads {
                let k = if self.fault == Fault::OnlyFirstTap { buffer.reads[0] } else { *k };
                let row_type = scan.body.input_type(arguments.len());
                arguments.push(self.buffer_row(state, index, t + k, row_type)?);
            }
        }
        arguments.extend_from_slice(&state.carries);
        arguments.extend_from_slice(&state.invariants);
        self.graph(&scan.body, arguments)
    }

    fn sequence_row(&self, sequence: &HostTensor, row: usize, row_type: &TensorType) -> Result<HostTensor> {
        let rows = sequence.shape()[0];
        let row = if self.fault == Fault::SequenceTapOffByOne { row + 1 } else { row };
        if rows == 0 {
            return self.zeros(row_type);
        }
        Ok(sequence.row(if self.fault == Fault::None { row } else { row.min(rows - 1) }))
    }

    fn buffer_row(&self, state: &Loop<'_>, index: usize, row: usize, row_type: &TensorType) -> Result<HostTensor> {
        let rows = match self.fault {
            Fault::WritesNotSeen => &state.initial_buffers[index],
            _ => &state.buffers[index],
        };
        let row = match self.fault {
            Fault::BufferTapOffByOne if state.scan.reverse => (row + 1).min(rows.len().saturating_sub(1)),
            Fault::BufferTapOffByOne => row.saturating_sub(1),
            _ => row,
        };
        self.row_or_fault(&state.at, rows.get(row).cloned().flatten(), row_type)
    }

    /// Returns `row` if it exists. Otherwise, returns zeros if a fault is injected, and an error if not (scan-c5).
    fn row_or_fault(&self, at: &Place, row: Option<HostTensor>, row_type: &TensorType) -> Result<HostTensor> {
        match row {
            Some(row) => Ok(row),
            None if self.fault == Fault::None => Err(missing_value(at)),
            None => self.zeros(row_type),
        }
    }

    fn zeros(&self, row_type: &TensorType) -> Result<HostTensor> {
        Ok(HostTensor::zeros(row_type.dtype, &self.shape(row_type)?))
    }

    fn shape(&self, ty: &TensorType) -> Result<Vec<usize>> {
        ty.shape.value(&self.sizes).map_err(|_| missing_value(&Place::new("shape", Site::Unknown)))
    }

    fn stack_rows(&self, at: &Place, row_type: &TensorType, rows: &[Option<HostTensor>]) -> Result<HostTensor> {
        let rows = rows.iter().map(|row| self.row_or_fault(at, row.clone(), row_type)).collect::<Result<Vec<_>>>()?;
        let shape = [&[rows.len()], self.shape(row_type)?.as_slice()].concat();
        let storage = Storage::from_scalars(row_type.dtype, rows.iter().flat_map(HostTensor::scalars));
        HostTensor::new(shape, storage).ok_or_else(|| missing_value(at))
    }
}

/// Returns the rows that a buffer has before the first step.
fn initial_rows(scan: &Scan, buffer: &Buffer, steps: usize, given: Option<&HostTensor>) -> WrittenRows {
    let given: WrittenRows =
        given.map_or(Vec::new(), |rows| (0..rows.shape()[0]).map(|row| Some(rows.row(row))).collect());
    let unwritten = vec![None; if buffer.start == Start::Full { 0 } else { steps }];
    if scan.reverse { [unwritten, given].concat() } else { [given, unwritten].concat() }
}

/// Selects the rows that the loop returns from a buffer (scan-c7).
fn returned_rows<'a>(scan: &Scan, buffer: &Buffer, rows: &'a [Option<HostTensor>]) -> &'a [Option<HostTensor>] {
    match buffer.returned {
        Returned::All => rows,
        Returned::Last(count) if scan.reverse => &rows[..count.min(rows.len())],
        Returned::Last(count) => &rows[rows.len().saturating_sub(count)..],
    }
}

fn missing_value(at: &Place) -> Error {
    at.mismatch("a value", "one that was given or computed", "none", "check the graph with `Graph::check`")
}
