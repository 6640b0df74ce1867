//! Derivatives of a scatter in the modes `mul`, `max` and `min`.
//!
//! The derivative of a product with respect to an update is the product of the element and all other updates of that
//! element. This product is computed without division, so derivatives of every order are correct at zeros. The
//! derivative of a maximum or minimum is divided equally among the element and the updates that equal the result, as in
//! PyTorch's `scatter_reduce`. If the result is NaN, its derivatives with respect to the element and all its updates
//! are NaN too.

use super::{Scatter, ScatterMode};
use crate::derivative::{Cotangents, VjpContext, add};
use crate::ops::associative::{AssociativeScanOptions, associative_scan_with};
use crate::ops::indexing::gather::clamped;
use crate::types::{DType, Dim};
use crate::value::{self, Value, concat, full, select};

/// A scatter in the mode `mul`, `max` or `min`, with its operands.
#[derive(Clone, Copy)]
pub(super) struct Combining {
    op: Scatter,
    pub(super) x: Value,
    pub(super) indices: Value,
    pub(super) updates: Value,
}

impl Combining {
    pub(super) fn new(op: Scatter, operands: &[Value]) -> Self {
        Combining { op, x: operands[0], indices: operands[1], updates: operands[2] }
    }

    fn axis(&self) -> i64 {
        self.op.axis as i64
    }

    /// Returns a mask of the updates whose index is in range.
    pub(super) fn passes(&self) -> Value {
        let size = value::size(self.x.dim(self.axis()), DType::I64);
        self.indices.ge(0) & self.indices.cast(DType::I64).lt(size)
    }

    /// Returns, for each update, the entry of `of_elements` for the element that it updates. The entry is meaningless
    /// for an update whose index is out of range.
    pub(super) fn of_updates(&self, of_elements: Value) -> Value {
        let axis = self.axis();
        // Pad the axis unless it is known to be nonempty. If the axis is empty, all indices are out of range, and
        // `gather` reads the padding.
        let is_filled = self.x.dim(axis).is_at_least(&Dim::from(1)) == Some(true);
        let of_elements = if is_filled { of_elements } else { of_elements.pad(axis, 0, 1, 0.0) };
        of_elements.gather(axis, clamped(self.indices, &of_elements.dim(axis)))
    }

    /// Returns, for each element, the sum of `of_updates` over the element's updates.
    fn sums(&self, of_updates: Value) -> Value {
        self.x.zeros_like().scatter(self.axis(), self.indices, of_updates, ScatterMode::Add)
    }

    pub(super) fn product_tangent(&self, [of_x, of_updates]: [Option<Value>; 2]) -> Option<Value> {
        add(
            of_x.map(|tangent| self.times_updates(tangent)),
            of_updates.map(|tangent| self.sums(self.times_others(tangent, self.of_updates(self.x)))),
        )
    }

    pub(super) fn product_cotangents(&self, context: &VjpContext<'_>, cotangent: Value) -> Cotangents {
        let of_updates = || Some(self.times_others(self.of_updates(cotangent), self.of_updates(self.x)));
        context.cotangents([&|| Some(self.times_updates(cotangent)), &|| None, &of_updates])
    }

    /// Multiplies each value in `of_elements` by the product of the updates of that element.
    fn times_updates(&self, of_elements: Value) -> Value {
        of_elements.scatter(self.axis(), self.indices, self.updates, ScatterMode::Mul)
    }

    /// Multiplies each value in `of_updates` by the update's element, read from `elements`, and by all other updates of
    /// that element. The result is 0 if the update's index is out of range.
    fn times_others(&self, of_updates: Value, elements: Value) -> Value {
        select(self.passes(), of_updates * elements * self.products_of_others(), 0.0)
    }

    /// Computes, for each update, the product of the other updates with the same index. A stable sort groups the
    /// updates by index. Forward and reverse cumulative products then yield, for each update, the product of the
    /// preceding updates in its group, and the product of the following ones.
    fn products_of_others(&self) -> Value {
        let (axis, count) = (self.axis(), self.indices.dim(self.axis()));
        let indices = self.indices.cast(DType::I64);
        let order = indices.argsort(axis, false);
        let indices = indices.gather(axis, order);
        let updates = select(self.passes(), self.updates, 1.0).gather(axis, order);
        let row = self.updates.shape().with_dim(self.op.axis, 1);
        let (one, zero) = (full(row.clone(), self.updates.dtype(), 1.0), full(row, DType::I64, 0.0));
        let running = |is_downward: bool| {
            // Shift the values by one position, so that each update is aligned with the preceding update, or with the
            // following one if `is_downward` is set.
            let shifted = |end: Value, values: Value| match is_downward {
                false => concat(&[end, values], axis).slice(axis, Dim::from(0)..count.clone()),
                true => concat(&[values, end], axis).slice(axis, Dim::from(1)..count.clone() + 1),
            };
            let is_first = shifted(zero, indices).ne(indices);
            let neighbours = select(is_first, 1.0, shifted(one, updates));
            let options = AssociativeScanOptions::new().axis(axis);
            let options = if is_downward { options.reverse() } else { options };
            let within_run = |(first, product): (Value, Value), (next_first, next): (Value, Value)| {
                (first | next_first, select(next_first, 1.0, product) * next)
            };
            associative_scan_with(options, (is_first, neighbours), within_run).1
        };
        (running(false) * running(true)).gather(axis, order.argsort(axis, false))
    }

    pub(super) fn extremum_tangent(&self, result: Value, [of_x, of_updates]: [Option<Value>; 2]) -> Option<Value> {
        let winners = self.winners(result);
        let sum = add(
            of_x.map(|tangent| select(winners.elements, tangent, 0.0)),
            of_updates.map(|tangent| self.sums(select(winners.updates, tangent, 0.0))),
        );
        sum.map(|sum| winners.share(result, sum))
    }

    pub(super) fn extremum_cotangents(&self, context: &VjpContext<'_>, cotangent: Value) -> Cotangents {
        let result = context.results[0];
        let winners = self.winners(result);
        let share = winners.share(result, cotangent);
        let of_x = || Some(select(winners.elements, share, 0.0));
        context.cotangents([&of_x, &|| None, &|| Some(select(winners.updates, self.of_updates(share), 0.0))])
    }

    fn winners(&self, result: Value) -> Winners {
        let has = |values: Value, result: Value| match self.op.mode {
            ScatterMode::Min => !values.gt(result),
            _ => !values.lt(result),
        };
        let elements = has(self.x, result);
        let updates = self.passes() & has(self.updates, self.of_updates(result));
        let count = elements.cast(self.x.dtype()) + self.sums(updates.cast(self.x.dtype()));
        Winners { elements, updates, count }
    }
}

/// Masks of the elements and updates that equal the result (the winners), and the number of winners for each element.
/// If the result is NaN, the masks include the element and all its updates.
struct Winners {
    elements: Value,
    updates: Value,
    count: Value,
}

impl Winners {
    /// Divides each value in `of_elements` equally among the winners of that element. The quotient is NaN if the result
    /// is NaN.
    fn share(&self, result: Value, of_elements: Value) -> Value {
        select(result.is_nan(), f64::NAN, of_elements / self.count)
    }
}
