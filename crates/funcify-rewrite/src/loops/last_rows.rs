//! Replaces buffers with carries or traces where possible (PyTensor's `scan_save_mem`, and its untraced sit-sot).
//!
//! - A buffer becomes a carry if the loop returns only the last row of the buffer, and steps read only the previous
//!   row. The steps then no longer copy rows into and out of a tensor.
//! - A trace becomes the final value of a carry if the loop returns only the last row of the trace. If the loop has no
//!   carry with that value, the rule adds one. The initial value of the added carry is zero, but no step reads it.
//! - A full buffer becomes a trace without initial rows if the steps write all its rows in order, and never read any.
//!
//! Precondition: the loop must not be truncated, because a truncated derivative depends on the buffers. The loop must
//! not be able to fail either, because the rule removes checks: the check that the last row of a trace exists, and the
//! checks of operands that are no longer read.

use super::*;

/// The part of a loop that replaces a buffer.
#[derive(Clone, Copy, PartialEq)]
enum Replacement {
    Carry,
    Trace,
}

/// Replaces buffers of a loop with carries or traces.
pub(crate) fn last_rows(context: &RewriteContext<'_>) -> Option<Patch> {
    let Op::Scan(scan) = context.op else { return None };
    if scan.truncate.is_some() || scan.until.is_some() || scan.buffers.is_empty() {
        return None;
    }
    let replacements: Vec<Option<Replacement>> =
        (0..scan.buffers.len()).map(|number| replacement(context, scan, number)).collect();
    if replacements.iter().all(Option::is_none) || !is_certain_loop(context, scan) {
        return None;
    }
    context.build(context.operands, |operands| emit_replaced(scan, &replacements, operands))
}

fn replacement(context: &RewriteContext<'_>, scan: &Scan, number: usize) -> Option<Replacement> {
    let buffer = &scan.buffers[number];
    let is_last = buffer.returned == Returned::Last(1);
    match buffer.start {
        // By scan-c5, steps can read only the previous row of a buffer that has one initial row or none.
        Start::Given(1) | Start::Empty if is_last => Some(Replacement::Carry),
        Start::Full if buffer.reads.is_empty() && buffer.writes == [0] => {
            let operand = scan.operands().buffers[number]?;
            (context.ty(operand).shape[0] == scan.steps).then_some(Replacement::Trace)
        }
        _ => None,
    }
}

fn emit_replaced(scan: &Scan, replacements: &[Option<Replacement>], operands: &[Value]) -> Option<Vec<Value>> {
    let mut parts = Loop::of(scan, operands);
    // The indices of the buffers that become carries, each with the index of its carry.
    let mut rows: Vec<(usize, usize)> = Vec::new();
    for (number, mut part) in std::mem::take(&mut parts.buffers).into_iter().enumerate() {
        match replacements[number] {
            None => parts.buffers.push(part),
            Some(Replacement::Trace) => {
                part.value = None;
                part.buffer.start = Start::Empty;
                parts.buffers.push(part);
            }
            Some(Replacement::Carry) => {
                let next = part.written[0];
                let ty = parts.body.ty(next).clone();
                let same = parts.carries.iter().position(|carry| carry.next == next).filter(|_| part.value.is_none());
                let carry = same.unwrap_or(parts.carries.len());
                if same.is_none() {
                    let value = match part.value {
                        Some(given) => given.index(0, 0),
                        None => full(ty.shape.clone(), ty.dtype, 0.0),
                    };
                    let param = part.reads.first().copied().unwrap_or_else(|| parts.body.push_input("last", ty, false));
                    parts.carries.push(CarryPart { value, param, next, number: None });
                }
                rows.push((number, carry));
            }
        }
    }
    let results = parts.emit()?;
    let mut old = results.old;
    for (number, carry) in rows {
        old[number] = Some(results.carries[carry].unsqueeze(0));
    }
    old.into_iter().collect()
}
