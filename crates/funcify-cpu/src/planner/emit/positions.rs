//! Emits instructions that read or write at positions given by an index operand.

use super::*;

impl Emitter {
    /// Emits instructions that read elements of a table at offsets `index * step`, where each index is clamped to
    /// `0..count`. The views are the destination, the table and the indices, all of the same shape.
    pub(in super::super) fn take(&mut self, views: [&View; 3], (count, step): (usize, usize)) -> Result<()> {
        self.at_position(&Op::Take { count, step }, views, (count, views[1]))
    }

    /// Emits instructions that write elements at offsets `index * step`, where each index is clamped to `0..count`. The
    /// views are the destination, the elements and the indices, all of the same shape.
    pub(in super::super) fn put(&mut self, views: [&View; 3], (count, step): (usize, usize)) -> Result<()> {
        self.at_position(&Op::Put { count, step }, views, (count, views[0]))
    }

    /// Emits instructions that write elements at offsets `index * step` or, with `fold`, fold them into the
    /// destination. The function `then`, if any, is applied to each combined element. Skips indices outside `0..count`.
    /// The views are the destination, the elements and the indices, all of the same shape. The destination has stride 0
    /// along the indexed axis.
    pub(in super::super) fn scatter(
        &mut self,
        views: [&View; 3],
        (count, step): (usize, usize),
        (fold, then): (Option<Fold>, Option<Unary>),
    ) -> Result<()> {
        self.at_position(&Op::Scatter { count, step, fold, then }, views, (count, views[0]))
    }

    /// Emits an op that accesses the tensor `of` at positions that an index operand selects. `count` is the number of
    /// positions.
    fn at_position(&mut self, op: &Op, views: [&View; 3], (count, of): (usize, &View)) -> Result<()> {
        if views[0].is_empty() {
            return Ok(());
        }
        if count == 0 || self.unit(of).is_some() {
            return Err(Declined::new("take", "an axis without elements, or a tensor that parts see as columns"));
        }
        let axes = merge_axes(&views);
        let lanes = self.lanes(&axes, &views);
        let rows = self.rows(&axes, &views, lanes);
        self.push_along(op, &views, &axes, rows, lanes)
    }
}
