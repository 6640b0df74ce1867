//! Checks whether the types or known sizes guarantee that a loop has all the rows it needs.

use super::*;
use crate::graph::KnownSizes;

impl Scan {
    /// Returns `true` if the types alone guarantee scan-c3, scan-c6 and scan-c7. Equivalent to
    /// [`has_all_rows_given`](Scan::has_all_rows_given) without any known sizes.
    #[doc(hidden)]
    pub fn has_all_rows(&self, operands: &[&TensorType]) -> bool {
        self.has_all_rows_given(operands, &KnownSizes(&Sizes::new()))
    }

    /// Returns `true` if scan-c3, scan-c6 and scan-c7 are guaranteed to hold: the rows that the loop reads and returns
    /// exist, and its number of steps is not negative. Does not inspect the body, which may still fail.
    #[doc(hidden)]
    pub fn has_all_rows_given(&self, operands: &[&TensorType], known: &KnownSizes<'_>) -> bool {
        let places = self.operands();
        let reach_is_there = |operand: usize, reach: usize| {
            known.is_at_least(&operands[operand].shape[0], &(self.steps.clone() + reach))
        };
        let mut sequences = self.sequences.iter().zip(places.sequences);
        let mut buffers = self.buffers.iter().zip(places.buffers);
        let is_size = || operands.iter().any(|ty| ty.shape.dims().contains(&self.steps));
        !self.steps_operand
            && (known.is_nonnegative(&self.steps) || is_size())
            && sequences.all(|(sequence, operand)| reach_is_there(operand, sequence.reach()))
            && buffers.all(|(buffer, operand)| {
                let given = operand.map(|operand| &operands[operand].shape[0]);
                let is_returned = match buffer.returned {
                    Returned::All => true,
                    // With an early exit, the buffer may have only its initial rows.
                    Returned::Last(count) => {
                        let steps = if self.until.is_some() { Dim::from(0) } else { self.steps.clone() };
                        known.is_at_least(&buffer.rows(&steps, given), &Dim::from(count))
                    }
                };
                let is_full = buffer.start == Start::Full;
                is_returned && operand.is_none_or(|operand| !is_full || reach_is_there(operand, buffer.reach()))
            })
    }
}
