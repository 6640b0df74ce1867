//! Unrolls a loop with a static number of steps into straight-line code.
//!
//! While the code is generated, each buffer is represented by a list of its rows. An initial row is read from the
//! buffer's operand when a step first needs it. A written row is represented by the register that holds it. No row is
//! copied until the rows of the results are stacked.

use std::ops::Range;

use funcify_core::ops::scan::Start;
use funcify_core::types::SizeError;

use super::body::Body;
use super::*;
use crate::run::program::{RowsNode, StackNode};

/// The state of one row of a buffer while a loop is unrolled.
#[derive(Clone, Copy)]
enum UnrolledRow {
    /// An initial row, with its index in the operand.
    Given(usize),
    /// A row that a step wrote to this register.
    Written(Slot),
    /// A row that has no value yet.
    Missing,
}

impl<B: Backend> Lowering<'_, B> {
    /// Lowers a loop by appending the instructions of all its steps.
    pub(super) fn lower_unrolled(&mut self, call: ScanCall<'_>, body: Body) -> Result<Vec<Slot>> {
        let ScanCall { scan, at, operands, types, .. } = call;
        let steps = static_steps(self, call)?;
        let rows_of = static_rows(self, call)?;
        if let Some(symbol) = scan.binds().next() {
            self.sizes.set(symbol, steps);
            self.push(at, Action::Bind { symbol: symbol.clone(), size: steps }, &[], 0)?;
        }
        // Count at least one kernel per step: a step without kernels still takes time and memory.
        let kernels = body.step.iter().filter(|runs| **runs).count().max(1).saturating_mul(steps);
        if kernels > self.settings.max_kernels {
            return Err(too_large(at, self.settings.backend.name(), kernels, self.settings.max_kernels));
        }
        scan.check_rows(at, steps, |operand| rows_of[operand])?;
        let rows = rows_of.iter().fold(0u64, |sum, rows| sum.saturating_add(*rows as u64));
        let bytes = rows.saturating_mul(size_of::<UnrolledRow>() as u64);
        self.settings.check_budget(at, || format!("the list of {rows} rows"), bytes)?;

        let rows_node = |(operand, ty): (&Slot, &TensorType)| {
            Some((*operand, Arc::new(RowsNode { row: ty.row()?, at: at.clone() })))
        };
        let sources = operands.iter().zip(types).filter_map(rows_node).collect();
        let mut line = Line { lowering: self, at: Arc::new(at.clone()), sources, rows: HashMap::new() };
        let (places, params, results) = (scan.operands(), scan.params(), scan.results());
        let mut buffers: Vec<Vec<UnrolledRow>> = (scan.buffers.iter().zip(&places.buffers))
            .map(|(buffer, operand)| {
                let full = operand.map(|operand| rows_of[operand]);
                match buffer.start {
                    Start::Full => (0..full.expect("a full buffer has an operand")).map(UnrolledRow::Given).collect(),
                    Start::Empty => vec![UnrolledRow::Missing; steps],
                    Start::Given(given) => {
                        let first = scan.first_given_row(steps);
                        let mut rows = vec![UnrolledRow::Missing; steps + given];
                        (0..given).for_each(|row| rows[first + row] = UnrolledRow::Given(row));
                        rows
                    }
                }
            })
            .collect();
        let mut carries: Vec<Slot> = operands[places.carries.clone()].to_vec();

        for t in scan.order(steps) {
            let mut registers = Replay::new(&scan.body, []);
            body.registers.iter().for_each(|(value, register)| registers.set(*value, *register));
            let mut bind = |param: usize, register: Slot| registers.set(scan.body.inputs()[param].value, register);
            for (index, sequence) in scan.sequences.iter().enumerate() {
                let source = operands[places.sequences.start + index];
                for (k, param) in sequence.reads.iter().zip(params.sequences[index].clone()) {
                    bind(param, line.row(source, t + k)?);
                }
            }
            for (index, buffer) in scan.buffers.iter().enumerate() {
                let source = places.buffers[index].map(|operand| operands[operand]);
                for (k, param) in buffer.reads.iter().zip(params.buffers[index].clone()) {
                    bind(param, line.buffer_row(source, buffers[index][t + k], index, t + k)?);
                }
            }
            carries.iter().zip(params.carries.clone()).for_each(|(register, param)| bind(param, *register));
            // scan-c1: all reads of this step happen before its first write.
            let written = line.lowering.lower_nodes(&scan.body, registers, &body.step)?.outputs()?;
            for (index, buffer) in scan.buffers.iter().enumerate() {
                for (k, result) in buffer.writes.iter().zip(results.buffers[index].clone()) {
                    buffers[index][t + k] = UnrolledRow::Written(written[result]);
                }
            }
            carries = written[results.carries.clone()].to_vec();
        }

        let mut outputs = Vec::new();
        for (index, buffer) in scan.buffers.iter().enumerate() {
            let source = places.buffers[index].map(|operand| operands[operand]);
            let returned = scan.returned_rows(buffer, buffers[index].len(), 0);
            let row = scan.body.output_type(results.buffers[index].start);
            outputs.push(line.stack(source, &buffers[index], returned, row, index)?);
        }
        outputs.extend(carries);
        Ok(outputs)
    }
}

/// Returns the number of steps of a loop, or the error `StepCountNotStatic` if the number does not follow from
/// constants, static inputs and sizes.
pub(crate) fn static_steps<B: Backend>(lowering: &mut Lowering<'_, B>, call: ScanCall<'_>) -> Result<usize> {
    let ScanCall { scan, at, operands, .. } = call;
    if let Some(operand) = scan.operands().steps {
        let Some(count) = lowering.static_number(operands[operand]) else {
            let reason = "the number of steps is a value that the program computes or receives at run time";
            return Err(not_static(lowering, at, reason.into()));
        };
        return scan.check_count(at, count);
    }
    match scan.steps.value(&lowering.sizes) {
        Ok(count) => scan.check_count(at, count),
        Err(SizeError::Unbound(symbol)) => {
            let steps = &scan.steps;
            let reason = format!("the number of steps is {steps}, and no input's shape determines `{symbol}`");
            Err(not_static(lowering, at, reason))
        }
        Err(error) => Err(funcify_core::ops::no_size(at, error)),
    }
}

/// Returns the number of rows of each operand that is a sequence or a buffer, and 0 for all other operands. Returns an
/// error if one of these numbers is not static.
pub(crate) fn static_rows<B: Backend>(lowering: &Lowering<'_, B>, call: ScanCall<'_>) -> Result<Vec<usize>> {
    let ScanCall { scan, at, types, .. } = call;
    let places = scan.operands();
    let mut rows_of = vec![0; types.len()];
    for operand in places.sequences.chain(places.buffers.into_iter().flatten()) {
        let ty = &types[operand];
        let rows = ty.shape.dims().first().expect("the type rule guarantees rows for sequences and buffers");
        let count = rows.value(&lowering.sizes).map_err(|error| match error {
            SizeError::Unbound(symbol) => {
                let reason = format!("the rows of {ty} are known only after the loop that binds `{symbol}` has run");
                not_static(lowering, at, reason)
            }
            error => funcify_core::ops::no_size(at, error),
        })?;
        let count = usize::try_from(count).map_err(|_| SizeError::Negative(rows.clone(), count));
        rows_of[operand] = count.map_err(|error| funcify_core::ops::no_size(at, error))?;
    }
    Ok(rows_of)
}

fn not_static<B: Backend>(lowering: &Lowering<'_, B>, at: &Place, reason: String) -> Error {
    let fix = "make the count a constant, a size of an input or a `static_input`, or use `LoopStrategy::Native`";
    lowering.not_static(at, reason, fix)
}

/// The straight-line code of one loop, under construction.
struct Line<'l, 'a, B: Backend> {
    lowering: &'l mut Lowering<'a, B>,
    at: Arc<Place>,
    /// The row type and the place of the loop, for each operand whose rows may be read. Keyed by the operand's
    /// register.
    sources: HashMap<Slot, Arc<RowsNode>>,
    /// The registers of the rows that have been read so far, keyed by the operand's register and the index of the row.
    rows: HashMap<(Slot, usize), Slot>,
}

impl<B: Backend> Line<'_, '_, B> {
    fn row(&mut self, source: Slot, row: usize) -> Result<Slot> {
        if let Some(register) = self.rows.get(&(source, row)) {
            return Ok(*register);
        }
        let action = Action::Row { row, of: self.sources[&source].clone() };
        let register = self.lowering.push(&self.at, action, &[source], 1)?[0];
        self.rows.insert((source, row), register);
        Ok(register)
    }

    fn buffer_row(&mut self, source: Option<Slot>, state: UnrolledRow, index: usize, row: usize) -> Result<Slot> {
        match (state, source) {
            (UnrolledRow::Written(register), _) => Ok(register),
            (UnrolledRow::Given(given), Some(source)) => self.row(source, given),
            _ => Err(Scan::missing_row(&self.at, index, row)),
        }
    }

    /// Stacks the returned rows of a buffer: written rows, and blocks of rows that still have their initial values.
    fn stack(
        &mut self,
        source: Option<Slot>,
        rows: &[UnrolledRow],
        returned: Range<usize>,
        row: &TensorType,
        index: usize,
    ) -> Result<Slot> {
        let (mut parts, mut is_block) = (Vec::new(), Vec::new());
        let mut next = returned.start;
        let follows = |row: &UnrolledRow, other: &UnrolledRow| match (row, other) {
            (UnrolledRow::Given(row), UnrolledRow::Given(other)) => *other == row + 1,
            _ => false,
        };
        for block in rows[returned.clone()].chunk_by(follows) {
            parts.push(match (block[0], source) {
                (UnrolledRow::Written(register), _) => register,
                (UnrolledRow::Given(start), Some(source)) => {
                    let (count, of) = (block.len(), self.sources[&source].clone());
                    let action = Action::Rows { start, count, block: Box::new(row.stacked(count)), of };
                    self.lowering.push(&self.at, action, &[source], 1)?[0]
                }
                _ => return Err(Scan::missing_row(&self.at, index, next)),
            });
            is_block.push(matches!(block[0], UnrolledRow::Given(_)));
            next += block.len();
        }
        let ty = row.stacked(Dim::from(returned.len()));
        let node = StackNode { ty, is_block, at: self.at.clone() };
        Ok(self.lowering.push(&self.at.clone(), Action::Stack(Arc::new(node)), &parts, 1)?[0])
    }
}
