//! Buffers that need not be buffers (PyTensor's `scan_save_mem`, and its untraced sit-sot).
//!
//! - One of which only the last row is returned, and that reads only the row before, is a carry: no row is put in a tensor
//!   and taken from it again in each step.
//! - A trace of which only the last row is returned is the final value of a carry: of one that has that value, or of a new
//!   one, which starts at zeros that no step reads.
//! - A buffer that is given whole, of which each row is written, in order, and none is read, is a trace: what was given is not
//!   needed.
//!
//! Precondition: the loop is not truncated, as a derivative sees its buffers, and is certain: so the last row of a trace is there, and
//! no error is lost with what is given and not looked at any more.

use super::*;

/// What takes the place of a buffer.
#[derive(Clone, Copy, PartialEq)]
enum Replacement {
    Carry,
    Trace,
}

/// Buffers of a loop that are carries or traces.
pub(crate) fn last_rows(here: &Here<'_>) -> Option<Patch> {
    let Op::Scan(scan) = here.op else { return None };
    if scan.truncate.is_some() || scan.until.is_some() || scan.buffers.is_empty() {
        return None;
    }
    let replacements: Vec<Option<Replacement>> =
        (0..scan.buffers.len()).map(|number| replacement(here, scan, number)).collect();
    if replacements.iter().all(Option::is_none) || !is_certain_loop(here, scan) {
        return None;
    }
    here.build(here.operands, |operands| changed(scan, &replacements, operands))
}

fn replacement(here: &Here<'_>, scan: &Scan, number: usize) -> Option<Replacement> {
    let buffer = &scan.buffers[number];
    let is_last = buffer.returned == Returned::Last(1);
    match buffer.start {
        // scan-c5: the one row that it can read, if any, is the one before.
        Start::Given(1) | Start::Empty if is_last => Some(Replacement::Carry),
        Start::Full if buffer.reads.is_empty() && buffer.writes == [0] => {
            let operand = scan.operands().buffers[number]?;
            (here.ty(operand).shape[0] == scan.steps).then_some(Replacement::Trace)
        }
        _ => None,
    }
}

fn changed(scan: &Scan, replacements: &[Option<Replacement>], operands: &[Value]) -> Option<Vec<Value>> {
    let mut parts = Loop::of(scan, operands);
    // The results that are rows, and of which carry each is the final value.
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
