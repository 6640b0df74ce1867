//! Evaluates the loop in the reference evaluator: runs the steps one by one, and keeps the rows of each buffer in a map.

use std::collections::BTreeMap;

use super::*;
use crate::cancel::{ActiveHandles, Progress};
use crate::host::Storage;
use crate::memory::MemoryReservation;

pub(super) fn eval(scan: &Scan, context: &mut EvalContext<'_>, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let operands = scan.operands();
    if let (Some(operand), Some(symbol)) = (operands.steps, scan.steps.as_symbol()) {
        let steps = scan.check_count(&context.at, inputs[operand].get(0).as_i64())?;
        context.sizes.set(symbol, steps);
    }
    let steps = scan.check_count(&context.at, context.dim(&scan.steps)?)?;
    scan.check_rows(&context.at, steps, |operand| inputs[operand].shape()[0])?;

    let mut held = MemoryReservation::empty();
    // The initial rows of each buffer, and the rows that the steps have written so far.
    let mut buffers: Vec<BTreeMap<usize, HostTensor>> = Vec::new();
    let mut lengths = Vec::new();
    for (buffer, operand) in scan.buffers.iter().zip(&operands.buffers) {
        let given = operand.map_or(0, |operand| inputs[operand].shape()[0]);
        let first = if buffer.start == Start::Full { 0 } else { scan.first_given_row(steps) };
        lengths.push(if buffer.start == Start::Full { given } else { steps.saturating_add(given) });
        let rows = (0..given).filter_map(|row| Some((first + row, inputs[(*operand)?].row(row))));
        buffers.push(rows.collect());
    }
    let results = scan.results();
    // Without an early exit, reserve memory for all rows in advance. Otherwise, each step reserves memory for its own
    // rows.
    let new_rows = |index: usize| scan.body.output_type(results.buffers[index].start);
    if scan.until.is_none() {
        for index in (0..buffers.len()).filter(|index| scan.buffers[*index].start != Start::Full) {
            held.add(&context.at, steps as u64, new_rows(index), context.sizes)?;
        }
    }
    let mut carries = inputs[operands.carries.clone()].to_vec();

    let mut ran = 0;
    let watch = ActiveHandles::current();
    for t in scan.order(steps) {
        watch.check(&context.at, Progress::Steps(ran))?;
        let mut arguments = Vec::new();
        for (sequence, operand) in scan.sequences.iter().zip(operands.sequences.clone()) {
            arguments.extend(sequence.reads.iter().map(|k| inputs[operand].row(t + k)));
        }
        for (index, buffer) in scan.buffers.iter().enumerate() {
            for k in &buffer.reads {
                arguments.push(read(context, &buffers[index], index, t + k)?);
            }
        }
        arguments.extend(carries);
        arguments.extend_from_slice(&inputs[operands.invariants.clone()]);
        let written = evaluate_in(&scan.body, arguments, context.sizes);
        let mut written = written.map_err(|error| error.in_step(&context.at, ran))?;
        let ends = results.until.is_some_and(|until| written[until].get(0).as_bool());
        carries = written.drain(results.carries.clone()).collect();
        // scan-c1: at this point, the step has done all its reads.
        for (index, buffer) in scan.buffers.iter().enumerate() {
            for (k, result) in buffer.writes.iter().zip(results.buffers[index].clone()) {
                buffers[index].insert(t + k, written[result].clone());
            }
            if scan.until.is_some() {
                held.add(&context.at, 1, new_rows(index), context.sizes)?;
            }
        }
        ran += 1;
        if ends {
            break;
        }
    }
    if let Some(symbol) = &scan.until {
        context.sizes.set(symbol, ran);
        scan.check_returned(&context.at, ran)?;
    }

    let mut outputs = Vec::new();
    for (index, buffer) in scan.buffers.iter().enumerate() {
        let returned = scan.returned_rows(buffer, lengths[index], steps - ran);
        let rows = returned.map(|row| read(context, &buffers[index], index, row)).collect::<Result<Vec<_>>>()?;
        outputs.push(stack(context, new_rows(index), &rows)?);
    }
    outputs.extend(carries);
    Ok(outputs)
}

/// Returns a row of a buffer, or the error for a violation of scan-c5 if the row is not an initial row and no step has
/// written it.
fn read(context: &EvalContext<'_>, rows: &BTreeMap<usize, HostTensor>, index: usize, row: usize) -> Result<HostTensor> {
    rows.get(&row).cloned().ok_or_else(|| Scan::missing_row(&context.at, index, row))
}

/// Stacks `rows`, which all have the type `row`, along axis 0.
pub(crate) fn stack(context: &EvalContext<'_>, row: &TensorType, rows: &[HostTensor]) -> Result<HostTensor> {
    let row_shape = context.shape(&row.shape)?;
    let shape = [&[rows.len()], row_shape.as_slice()].concat();
    let storage = Storage::from_scalars(row.dtype, rows.iter().flat_map(HostTensor::scalars));
    HostTensor::new(shape, storage)
        .ok_or_else(|| context.at.mismatch("a row", row, "rows of other sizes", "call with sizes that agree"))
}
