//! Instructions that read or write where a number says.

use super::*;

impl Emitter {
    /// To the first view: elements that lie `index * step` after those of a table, where the index is clamped into `0..count`. All
    /// three are of one shape.
    pub(in super::super) fn take(&mut self, views: [&View; 3], (count, step): (usize, usize)) -> Result<()> {
        self.at_position(&Op::Take { count, step }, views, (count, views[1]))
    }

    /// The second view to where elements lie `index * step` after those of the first one, where the index is clamped into
    /// `0..count`. All three are of one shape.
    pub(in super::super) fn put(&mut self, views: [&View; 3], (count, step): (usize, usize)) -> Result<()> {
        self.at_position(&Op::Put { count, step }, views, (count, views[0]))
    }

    /// The second view to where elements lie `index * step` after those of the first one, or their folds with what is there, if the
    /// index is in `0..count`. All three are of one shape; the first has all elements of an axis at one place.
    pub(in super::super) fn scatter(
        &mut self,
        views: [&View; 3],
        (count, step): (usize, usize),
        fold: Option<Fold>,
    ) -> Result<()> {
        self.at_position(&Op::Scatter { count, step, fold }, views, (count, views[0]))
    }

    /// An op that has one of so many positions of a tensor.
    fn at_position(&mut self, op: &Op, views: [&View; 3], (count, of): (usize, &View)) -> Result<()> {
        if views[0].is_empty() {
            return Ok(());
        }
        if count == 0 || self.unit(of).is_some() {
            return Err(Declined::new("take", "an axis without elements, or a tensor of which a part sees columns"));
        }
        let axes = merged(&views);
        let lanes = self.lanes(&axes, &views);
        let rows = self.rows(&axes, &views, lanes);
        self.push_along(op, &views, &axes, rows, lanes)
    }
}
