//! The steps that the backward loop covers: all steps that ran or, with gradient truncation, only the last ones
//! (scan-c8).
//!
//! Everything that earlier steps computed is treated as constant. Rows of sequences that only earlier steps read
//! therefore have a gradient of zero. The same holds for rows of a full buffer that earlier steps have overwritten, and
//! for the initial carry if any earlier steps ran.

use super::saves::slice_rows;
use super::*;

/// The steps that the backward loop covers. Their rows are consecutive.
pub(super) struct Span {
    /// The number of covered steps.
    pub(super) steps: Dim,
    /// The number of steps that ran.
    pub(super) ran: Dim,
    /// The index of the first covered row in a tensor that has rows for all steps, even those that did not run.
    pub(super) first: Dim,
    /// The index of the first covered row in a tensor that has rows only for the steps that ran.
    pub(super) first_that_ran: Dim,
    reverse: bool,
}

impl Span {
    /// Returns the steps of the forward loop that the backward loop covers. If their number is known only at run time,
    /// adds an op that binds a symbol to it.
    pub(super) fn of(scan: &Scan) -> Result<Self, Failed> {
        let ran = scan.length();
        let steps = match scan.truncate.map(|last| Dim::from(last.min(i64::MAX as usize))) {
            None => ran.clone(),
            Some(last) if ran.is_at_least(&last) == Some(true) => last,
            Some(last) if last.is_at_least(&ran) == Some(true) => ran.clone(),
            Some(last) => {
                let symbol = fresh_symbol();
                let last = last.constant().expect("the dimension is made from a number above");
                parts::bind(size(&ran, DType::I64).minimum(last), &symbol)?;
                Dim::symbol(&symbol)
            }
        };
        let first_that_ran = if scan.reverse { Dim::from(0) } else { ran.clone() - &steps };
        let first = if scan.reverse { scan.steps.clone() - &ran } else { first_that_ran.clone() };
        Ok(Span { steps, ran, first, first_that_ran, reverse: scan.reverse })
    }

    /// Returns the number of earlier steps: those that ran but are not covered.
    fn steps_before(&self) -> Dim {
        self.ran.clone() - &self.steps
    }

    /// Slices the rows of the covered steps from a trace. The trace has one row for each step that ran, or only the
    /// rows of the covered steps.
    pub(super) fn rows_of_steps(&self, stacked: Value) -> Value {
        if self.reverse { stacked } else { rows_from(stacked, &(stacked.dim(0) - &self.steps)) }
    }

    /// Returns the cotangent of an initial carry, given the cotangent of the carry before the covered steps. The result
    /// is zero if any earlier steps ran.
    pub(super) fn initial_carry_cotangent(&self, cotangent: Value) -> Value {
        let older = self.steps_before();
        match older.is_at_least(&Dim::from(1)) {
            _ if older == Dim::from(0) => cotangent,
            Some(true) => cotangent.zeros_like(),
            _ => select(size(older, DType::I64).eq(0), cotangent, cotangent.zeros_like()),
        }
    }

    /// Returns `rows`, the cotangent of a full buffer, with zeros in the rows that earlier steps have written.
    pub(super) fn full_buffer_cotangent(&self, buffer: &Buffer, mut rows: Value) -> Value {
        let older = self.steps_before();
        if older == Dim::from(0) {
            return rows;
        }
        let begin = if self.reverse { self.first.clone() + &self.steps } else { self.first.clone() - &older };
        for write in &buffer.writes {
            let (start, limit) = (begin.clone() + *write, begin.clone() + &older + *write);
            let zeros = slice_rows(rows, start.clone(), limit.clone()).zeros_like();
            rows = concat(&[slice_rows(rows, Dim::from(0), start), zeros, rows_from(rows, &limit)], 0);
        }
        rows
    }
}

/// Returns the rows of a tensor, starting at `first`.
pub(super) fn rows_from(value: Value, first: &Dim) -> Value {
    if *first == Dim::from(0) { value } else { slice_rows(value, first.clone(), value.dim(0)) }
}

/// Inverts [`rows_from`] for cotangents: prepends `first` rows to `tail`. The prepended rows are the leading rows of
/// `head`, or zeros if `head` is `None`.
pub(super) fn prepend_rows(tail: Value, first: &Dim, head: Option<Value>) -> Value {
    if *first == Dim::from(0) {
        return tail;
    }
    match head {
        Some(head) => concat(&[slice_rows(head, Dim::from(0), first.clone()), tail], 0),
        None => pad_with_zeros(Pad { axis: 0, low: first.clone(), high: 0.into(), interior: 0 }, tail),
    }
}
