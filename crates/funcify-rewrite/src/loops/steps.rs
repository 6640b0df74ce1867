//! Replaces a loop of zero steps with its initial values, and a loop of one step with the ops of its body (XLA's
//! while-loop simplifier; PyTensor's `scan_inline_trivial`).
//!
//! Precondition: the number of steps is the constant 0 or 1. The loop is not truncated, has no early exit, and reads
//! only rows that exist. The ops of an inlined step must not be able to fail, because ops with unused results no longer
//! run. A loop whose body binds a size symbol is not replaced, because the symbol's name could clash with a size that
//! another loop binds.

use funcify_core::graph::inline;

use super::*;

/// Replaces a loop that has zero steps or one step.
pub(crate) fn few_steps(context: &RewriteContext<'_>) -> Option<Patch> {
    let Op::Scan(scan) = context.op else { return None };
    let steps = scan.steps.constant()?;
    if scan.until.is_some() || scan.truncate.is_some() || scan.body.binds_any() {
        return None;
    }
    match steps {
        0 if scan.has_all_rows(&context.types()) => {
            context.build(context.operands, |operands| results_of_no_step(scan, operands))
        }
        1 if is_certain_loop(context, scan) => {
            context.build(context.operands, |operands| results_of_one_step(scan, operands))
        }
        _ => None,
    }
}

/// Returns the results of a loop with zero steps.
fn results_of_no_step(scan: &Scan, operands: &[Value]) -> Option<Vec<Value>> {
    let (places, results) = (scan.operands(), scan.results());
    let mut values = Vec::new();
    for ((buffer, operand), written) in scan.buffers.iter().zip(&places.buffers).zip(&results.buffers) {
        let all = match operand {
            Some(operand) => operands[*operand],
            None => {
                let row = scan.body.output_type(written.start);
                full(row.shape.with_inserted(0, 0), row.dtype, 0.0)
            }
        };
        values.push(returned_rows(all, buffer.returned, scan.reverse));
    }
    values.extend_from_slice(&operands[places.carries]);
    Some(values)
}

/// Computes the results of a loop with one step by inlining the step.
fn results_of_one_step(scan: &Scan, operands: &[Value]) -> Option<Vec<Value>> {
    let places = scan.operands();
    // By scan-c1, a step reads all its rows before it writes any, so all rows can be read from the operands.
    let mut params = Vec::new();
    for (sequence, operand) in scan.sequences.iter().zip(places.sequences) {
        params.extend(sequence.reads.iter().map(|offset| operands[operand].index(0, *offset as i64)));
    }
    for (buffer, operand) in scan.buffers.iter().zip(&places.buffers) {
        let first = if buffer.start != Start::Full && scan.reverse { 1 } else { 0 };
        let read = |operand: usize, offset: &usize| operands[operand].index(0, *offset as i64 - first);
        params.extend(operand.iter().flat_map(|operand| buffer.reads.iter().map(|offset| read(*operand, offset))));
    }
    params.extend_from_slice(&operands[places.carries.start..]);
    let (written, results) = (inline(&scan.body, &params).ok()?, scan.results());
    let mut values = Vec::new();
    for ((buffer, operand), range) in scan.buffers.iter().zip(&places.buffers).zip(results.buffers) {
        let rows: Vec<Value> = written[range].iter().map(|row| row.unsqueeze(0)).collect();
        let all = match (buffer.start, operand.map(|operand| operands[operand])) {
            (Start::Full, Some(given)) => with_rows(given, &buffer.writes, &rows),
            (_, Some(given)) if scan.reverse => concat(&[rows[0], given], 0),
            (_, Some(given)) => concat(&[given, rows[0]], 0),
            (_, None) => rows[0],
        };
        values.push(returned_rows(all, buffer.returned, scan.reverse));
    }
    values.extend_from_slice(&written[results.carries]);
    Some(values)
}

/// Replaces the rows of a tensor at the indices `places` with `rows`.
fn with_rows(given: Value, places: &[usize], rows: &[Value]) -> Value {
    let mut written: Vec<(usize, Value)> = places.iter().copied().zip(rows.iter().copied()).collect();
    written.sort_by_key(|(place, _)| *place);
    let (mut parts, mut next, count) = (Vec::new(), Dim::from(0), given.dim(0));
    for (place, row) in written {
        if next != Dim::from(place) {
            parts.push(given.slice(0, next..Dim::from(place)));
        }
        parts.push(row);
        next = Dim::from(place + 1);
    }
    if next != count {
        parts.push(given.slice(0, next..count));
    }
    concat(&parts, 0)
}
