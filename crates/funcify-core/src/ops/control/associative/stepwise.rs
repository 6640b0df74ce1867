//! The associative scan as a loop with one combination per step. This is the fastest form if the steps have no fixed
//! overhead, as in a compiled loop.

use super::*;
use crate::graph::inline;
use crate::ops::Scan;
use crate::ops::scan::{Buffer, Returned, Sequence, Start};

impl AssociativeScan {
    /// Adds a loop with one combination per step to the open graph, and returns its results. There must be at least one
    /// element.
    ///
    /// Each result starts from one row, the first element of the scan. Each step takes the row that the previous step
    /// wrote, and combines it with the next element.
    #[doc(hidden)]
    pub fn emit_loop(&self, operands: &[Value]) -> Result<Vec<Value>, Failed> {
        let (leaves, combine) = (self.leaves, &self.combine);
        let (xs, captured) = operands.split_at(leaves);
        let count = xs[0].dim(0);
        // The parameters of the loop's body are the leaves of the second element, the leaves of the first element, and
        // the captured values.
        let order = (leaves..2 * leaves).chain(0..leaves).chain(2 * leaves..combine.inputs().len());
        let params: Vec<(String, TensorType)> =
            order.map(|index| (combine.input_name(index).to_string(), combine.input_type(index).clone())).collect();
        let closed = trace_body("associative_scan", combine.name(), &params, |values| {
            let (seconds, rest) = values.split_at(leaves);
            let (firsts, captured) = rest.split_at(leaves);
            Ok(combine.named_outputs(inline(combine, &[firsts, seconds, captured].concat())?))
        })?;
        // The row that the previous step wrote precedes the row of this step or, in a reverse loop, follows it.
        let (before, own) = if self.reverse { (1, 0) } else { (0, 1) };
        let first = if self.reverse { count.clone() - 1..count.clone() } else { 0.into()..1.into() };
        let buffer =
            || Buffer { start: Start::Given(1), reads: vec![before], writes: vec![own], returned: Returned::All };
        let scan = Scan {
            reverse: self.reverse,
            sequences: vec![Sequence { reads: vec![own] }; leaves],
            buffers: (0..leaves).map(|_| buffer()).collect(),
            invariants: captured.len(),
            ..Scan::of(closed.graph, count - 1)
        };
        let given = xs.iter().map(|x| x.slice(0, first.clone()));
        let operands: Vec<Value> =
            xs.iter().copied().chain(given).chain(captured.iter().copied()).chain(closed.captures).collect();
        emit(scan, &operands)
    }
}
