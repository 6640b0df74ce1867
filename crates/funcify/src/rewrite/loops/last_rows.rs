//! Buffers that need not be buffers (PyTensor's `scan_save_mem`, and its untraced sit-sot).
//!
//! - One of which only the last row is wanted, and that reads only the row before, is a carry: no row is put in a tensor and taken
//!   from it again in each step.
//! - A trace of which only the last row is wanted is the final value of a carry: of one that has that value, or of a new one, which
//!   starts at zeros that no step reads.
//! - A buffer that is given whole, of which each row is written, in order, and none is read, is a trace: what was given is not
//!   needed.
//!
//! Precondition: the loop is not truncated, as a derivative sees its buffers, and is certain: so the last row of a trace is there, and
//! no error is lost with what is given and not looked at any more.

use super::{CarryPart, Loop, is_certain_loop};
use crate::ops::Op;
use crate::ops::scan::{Buffer, Scan, Start, Wanted};
use crate::rewrite::rule::{Here, Patch};
use crate::value::{Value, full};

/// What a buffer is instead.
#[derive(Clone, Copy, PartialEq)]
enum Instead {
    Carry,
    Trace,
}

/// Buffers of a loop that are carries or traces.
pub(in crate::rewrite) fn last_rows(here: &Here<'_>) -> Option<Patch> {
    let Op::Scan(scan) = here.op else { return None };
    if scan.truncate.is_some() || scan.until.is_some() || scan.buffers.is_empty() {
        return None;
    }
    let instead: Vec<Option<Instead>> =
        scan.buffers.iter().enumerate().map(|(number, buffer)| instead(here, scan, number, buffer)).collect();
    if instead.iter().all(Option::is_none) || !is_certain_loop(here, scan) {
        return None;
    }
    here.build(here.operands, |operands| changed(scan, &instead, operands))
}

fn instead(here: &Here<'_>, scan: &Scan, number: usize, buffer: &Buffer) -> Option<Instead> {
    let is_last = buffer.wanted == Wanted::Last(1);
    match buffer.start {
        // scan-c5: the one row that it can read is the one before.
        Start::Given(1) if is_last => Some(Instead::Carry),
        Start::Empty if is_last => Some(Instead::Carry),
        Start::Full if buffer.reads.is_empty() && buffer.writes == [0] => {
            let operand = scan.operands().buffers[number]?;
            (here.ty(operand).shape[0] == scan.steps).then_some(Instead::Trace)
        }
        _ => None,
    }
}

fn changed(scan: &Scan, instead: &[Option<Instead>], operands: &[Value]) -> Option<Vec<Value>> {
    let mut parts = Loop::of(scan, operands);
    // The results that are rows, and of which carry each is the final value.
    let mut rows: Vec<(usize, usize)> = Vec::new();
    let mut number = 0..;
    let mut buffers = Vec::new();
    for mut part in std::mem::take(&mut parts.buffers) {
        let number = number.next()?;
        match instead[number] {
            None => buffers.push(part),
            Some(Instead::Trace) => {
                part.value = None;
                part.buffer.start = Start::Empty;
                buffers.push(part);
            }
            Some(Instead::Carry) => {
                let next = part.written[0];
                let ty = parts.body.ty(next).clone();
                let same = parts.carries.iter().position(|carry| carry.next == next).filter(|_| part.value.is_none());
                let carry = same.unwrap_or(parts.carries.len());
                if same.is_none() {
                    let value = match part.value {
                        Some(given) => given.index(0, 0),
                        None => full(ty.shape.clone(), ty.dtype, 0.0),
                    };
                    let param = part.reads.first().copied().unwrap_or_else(|| parts.param("last", ty));
                    parts.carries.push(CarryPart { value, param, next, number: None });
                }
                rows.push((number, carry));
            }
        }
    }
    parts.buffers = buffers;
    let results = parts.emit()?;
    let mut old = results.old;
    for (number, carry) in rows {
        old[number] = Some(results.carries[carry].unsqueeze(0));
    }
    old.into_iter().collect()
}
