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
        let to = views[0];
        if to.is_empty() {
            return Ok(());
        }
        if count == 0 || self.unit(of).is_some() {
            return Err(Declined::new("take", "an axis without elements, or a tensor of which a part sees columns"));
        }
        let axes = merged(&views);
        let within: Vec<bool> = axes.iter().map(|axis| self.is_within_units(axis, &views)).collect();
        let lanes = (0..axes.len()).rev().find(|at| within[*at] && is_side_by_side(&axes[*at]));
        let rows = longest(&axes, |at| within[at] && axes[at].is_upward() && Some(at) != lanes);
        let size = |at: Option<usize>| at.map_or(1, |at| axes[at].size);
        let row = [0, 1, 2].map(|operand| rows.map_or(0, |rows| axes[rows].strides[operand]));
        let across = [0, 1, 2].map(|operand| lanes.map_or(Across::Lanes, |lanes| across(axes[lanes].strides[operand])));
        let rest = others(&axes, &[rows, lanes]);
        self.push(to.level, op, [size(rows), size(lanes)], &views, (&row, &across), &rest)
    }
}
