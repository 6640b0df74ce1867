//! Plans the rows of a loop's buffers: all rows as a trace, or only the most recent rows.

use std::ops::Range;

use funcify_core::ops::scan::{Buffer, Returned, Scan, Start};

use super::*;

/// The maximum number of recent rows that the plan keeps for a buffer that it does not store as a whole.
const MAX_ROWS_AT_HAND: usize = 64;

/// The readers of a buffer's rows.
pub(super) enum Use {
    /// Code after the loop reads the rows. If a view is given, the loop writes the rows to this view if possible.
    Result(Option<View>),
    /// Only the steps of the loop read the rows.
    Steps,
}

/// The stored rows of a buffer.
pub(super) enum BufferRows {
    /// No rows, because nothing reads them.
    None,
    /// All rows. The loop returns the rows in the range `returned`.
    Trace { all: View, returned: Range<usize> },
    /// Only the most recent rows, oldest first. The loop returns the last `returned` of them.
    AtHand { rows: View, returned: usize },
}

impl BufferRows {
    /// Returns the view of all rows, or an error if the buffer does not store all its rows.
    pub(super) fn trace(&self) -> Result<&View> {
        match self {
            BufferRows::Trace { all, .. } => Ok(all),
            BufferRows::None | BufferRows::AtHand { .. } => Err(Declined::new("scan", "a carry without a trace")),
        }
    }
}

/// Returns `true` if a trace can be stored in the layout of `place`: if each row is contiguous, or if the axis
/// `innermost` is innermost in memory.
fn has_rows(place: &View, innermost: Option<usize>) -> bool {
    place.has_rows_in_order() || innermost.is_some_and(|axis| place.strides[axis] == 1)
}

/// Returns the number of steps that must run so that each buffer has as many rows as the loop returns (scan-c7).
pub(super) fn steps_of_returned_rows(scan: &Scan) -> usize {
    scan.buffers.iter().map(steps_of_last_rows).max().unwrap_or(0)
}

fn steps_of_last_rows(buffer: &Buffer) -> usize {
    match (buffer.returned, buffer.start) {
        (Returned::All, _) | (_, Start::Full) => 0,
        (Returned::Last(last), Start::Empty) => last,
        (Returned::Last(last), Start::Given(given)) => last.saturating_sub(given),
    }
}

/// Returns the number of last rows that a loop that ends early returns of a buffer, if the loop may end before it has
/// written these rows.
pub(super) fn last_rows_of_end(scan: &Scan, buffer: &Buffer) -> Option<usize> {
    match buffer.returned {
        Returned::Last(last) if scan.until.is_some() && steps_of_last_rows(buffer) > 0 => Some(last),
        _ => None,
    }
}

/// Returns a loop that returns all rows of each buffer for which `last_rows` returns a number.
pub(super) fn returning_all_rows(scan: &Scan, last_rows: impl Fn(&Buffer) -> Option<usize>) -> Scan {
    let buffers = scan.buffers.iter().map(|buffer| match last_rows(buffer) {
        Some(_) => Buffer { returned: Returned::All, ..buffer.clone() },
        None => buffer.clone(),
    });
    Scan { buffers: buffers.collect(), ..scan.clone() }
}

impl Planner {
    /// Reserves memory for the rows of a buffer, and copies the initial rows to it.
    pub(super) fn rows(
        &mut self,
        scan: &Scan,
        index: usize,
        buffer: &Buffer,
        given: Option<&View>,
        steps: usize,
        used: Use,
    ) -> Result<BufferRows> {
        let level = self.emitter.blocks.depth();
        let row = self.row_shape(scan, index)?;
        let value = scan.body.outputs()[scan.results().buffers[index].start].value;
        let innermost = self.innermost(&scan.body, value).map(|axis| axis + 1);
        let ty = self.representation(&scan.body, value);
        let count = given.map_or(0, |given| given.shape[0]);
        let last = match (buffer.returned, &used) {
            (Returned::Last(last), Use::Result(_)) => last,
            _ => 0,
        };
        let is_trace = matches!((buffer.returned, &used), (Returned::All, Use::Result(_)));
        let at_hand = count.max(last);
        if buffer.start != Start::Full && !is_trace && at_hand <= MAX_ROWS_AT_HAND {
            if at_hand == 0 && matches!(used, Use::Steps) {
                return Ok(BufferRows::None);
            }
            let rows = self.emitter.reserve_as(&[&[at_hand], row.as_slice()].concat(), level, innermost, ty);
            if let Some(given) = given {
                for index in 0..count {
                    // A reverse loop visits the initial rows in reverse order.
                    let from = if scan.reverse { count - 1 - index } else { index };
                    self.emitter.copy(&rows.at(0, at_hand - count + index), &given.at(0, from))?;
                }
            }
            self.emitter.fired.note(Transformation::RowsAtHand);
            return Ok(BufferRows::AtHand { rows, returned: last });
        }
        let all = if buffer.start == Start::Full { count } else { steps.saturating_add(count) };
        let elements = row.iter().fold(all, |elements, size| elements.saturating_mul((*size).max(1)));
        if elements > MAX_ELEMENTS {
            return Err(Declined::new("scan", format!("a buffer of {all} rows")));
        }
        let shape = [&[all], row.as_slice()].concat();
        let returned = match &scan.until {
            None => scan.returned_rows(buffer, all, 0),
            Some(_) if buffer.start == Start::Full => scan.returned_rows(buffer, all, 0),
            Some(_) => 0..all,
        };
        let trace = match used {
            Use::Result(Some(place))
                if place.shape == shape
                    && place.level == level
                    && has_rows(&place, innermost)
                    && self.emitter.ty(&place) == ty =>
            {
                place
            }
            _ => self.emitter.reserve_as(&shape, level, innermost, ty),
        };
        if let Some(given) = given {
            let first = if buffer.start == Start::Full { 0 } else { scan.first_given_row(steps) };
            self.emitter.copy(&trace.part(0, first, count, 1), given)?;
        }
        Ok(BufferRows::Trace { all: trace, returned })
    }

    fn row_shape(&self, scan: &Scan, buffer: usize) -> Result<Vec<usize>> {
        let row = scan.body.outputs()[scan.results().buffers[buffer].start].value;
        if !self.supports(&scan.body, row) {
            return Err(Declined::new("scan", format!("a buffer of {}", scan.body.ty(row).dtype)));
        }
        self.shape(&scan.body, row)
    }

    /// Returns a view of the rows that the loop returns for a buffer, or `None` if nothing reads the buffer.
    pub(super) fn returned_rows(&mut self, scan: &Scan, rows: BufferRows) -> Result<Option<View>> {
        Ok(match rows {
            BufferRows::None => None,
            BufferRows::Trace { all, returned } => Some(all.part(0, returned.start, returned.len(), 1)),
            BufferRows::AtHand { rows, returned } => {
                let last = rows.part(0, rows.shape[0] - returned, returned, 1);
                if !scan.reverse || returned <= 1 {
                    return Ok(Some(last));
                }
                let turned = self.emitter.reserve_typed(&last.shape, last.level, self.emitter.ty(&last));
                for index in 0..returned {
                    self.emitter.copy(&turned.at(0, index), &last.at(0, returned - 1 - index))?;
                }
                Some(turned)
            }
        })
    }

    /// Returns a view of the rows that a loop with early exit returns for a buffer, or `None` if nothing reads the buffer.
    /// `ran` is the element that counts its steps, of at most `steps`.
    pub(super) fn returned_rows_until(
        &mut self,
        scan: &Scan,
        index: usize,
        rows: BufferRows,
        (steps, ran): (usize, &View),
    ) -> Result<Option<View>> {
        let buffer = &scan.buffers[index];
        let (Returned::Last(last), BufferRows::Trace { all, .. }) = (buffer.returned, &rows) else {
            return self.returned_rows(scan, rows);
        };
        if buffer.start == Start::Full {
            return self.returned_rows(scan, rows);
        }
        let given = if let Start::Given(given) = buffer.start { given } else { 0 };
        let first = self.emitter.reserve(&[], ran.level);
        let (op, number) = match scan.reverse {
            false => (Binary::Add, given as f64 - last as f64),
            // A loop in descending order begins with row `steps - 1`.
            true => (Binary::Sub, steps as f64),
        };
        let number = self.emitter.number(number)?;
        let operands = if scan.reverse { [&number, ran] } else { [ran, &number] };
        self.emitter.map(Op::Binary(op), &first, &operands)?;
        let table = all.part(0, 0, last, 1);
        let to = self.emitter.reserve_typed(&table.shape, table.level, self.emitter.ty(all));
        let places = (all.shape[0] + 1 - last, all.strides[0].unsigned_abs());
        self.emitter.take([&to, &table, &first.broadcast(&table.shape)], places)?;
        Ok(Some(to))
    }
}
