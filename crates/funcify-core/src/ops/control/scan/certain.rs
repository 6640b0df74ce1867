//! Determines whether a loop is certain not to fail.

use super::*;
use crate::graph::Known;

impl Scan {
    /// Like [`rows_are_there`](Scan::rows_are_there), for sizes about which nothing is known.
    pub fn has_its_rows(&self, operands: &[&TensorType]) -> bool {
        self.rows_are_there(operands, &Known(&Sizes::new()))
    }

    /// Returns whether all rows that the loop reads and returns are certain to exist and its number of steps is
    /// certain not to be negative: scan-c3, scan-c6 and scan-c7. Its body may still fail.
    pub fn rows_are_there(&self, operands: &[&TensorType], known: &Known<'_>) -> bool {
        let places = self.operands();
        let reach_is_there = |operand: usize, reach: usize| {
            known.is_at_least(&operands[operand].shape[0], &(self.steps.clone() + reach))
        };
        let mut sequences = self.sequences.iter().zip(places.sequences);
        let mut buffers = self.buffers.iter().zip(places.buffers);
        let is_size = || operands.iter().any(|ty| ty.shape.dims().contains(&self.steps));
        !self.steps_operand
            && (known.is_natural(&self.steps) || is_size())
            && sequences.all(|(sequence, operand)| reach_is_there(operand, sequence.reach()))
            && buffers.all(|(buffer, operand)| {
                let given = operand.map(|operand| &operands[operand].shape[0]);
                let is_returned = match buffer.returned {
                    Returned::All => true,
                    // A loop that ends early may have fewer.
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
