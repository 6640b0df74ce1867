//! Emits folds. The folded axis becomes the lanes or the rows, depending on the memory layout.

use super::*;

impl Emitter {
    /// Emits instructions that fold a tensor, or the elementwise product of two tensors (sums only), over the axes in
    /// `folded`.
    pub(in super::super) fn fold(&mut self, fold: Fold, to: &View, from: &[&View], folded: &[usize]) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        if let Some(copied) = self.copied_where(from, |view| view.is_reversed() || view.interleaves(to))? {
            return self.fold(fold, to, &copied.iter().collect::<Vec<_>>(), folded);
        }
        let shape = from[0].shape.clone();
        if folded.iter().any(|axis| shape[*axis] == 0) {
            if self.ty(to) != Type::Float {
                return Err(Declined::new("reduce", "a fold of integers over no elements"));
            }
            return self.fill(to, fold.identity::<f64>());
        }
        if let [one, other] = from
            && crosses(one, other)
        {
            // Copy the operand with the lower level into the layout of the other operand.
            let (like, view) = if other.level > one.level { (other, one) } else { (one, other) };
            let laid = self.copy_in_layout_of(view, like)?;
            return self.fold(fold, to, &[*like, &laid], folded);
        }
        // Compute the result in the layout of the operand, and then transpose the result, because the result has fewer
        // elements than the operand.
        let left = (0..shape.len()).filter(|axis| !folded.contains(axis));
        let like = to.with_axes(to.shape.clone(), left.map(|axis| from[0].strides[axis]).collect());
        if to.len() < from[0].len() && crosses(&like, to) {
            let result =
                with_axis_order(self.reserve_typed(&to.shape, to.level, self.ty(to)), &order_of(&like), |_| true);
            self.fold(fold, &result, from, folded)?;
            return self.copy(to, &result);
        }
        // Move the folded axes to the end. The destination has stride 0 along these axes.
        let is_folded = |axis: &usize| folded.contains(axis) && shape[*axis] > 1;
        let remains = |axis: &usize| !is_folded(axis);
        let order: Vec<usize> = (0..shape.len()).filter(remains).chain((0..shape.len()).filter(is_folded)).collect();
        let count = (0..shape.len()).filter(remains).count();
        let mut unfolded = to.clone();
        folded.iter().for_each(|axis| unfolded.strides.insert(*axis, 0));
        unfolded.shape.clone_from(&shape);
        let views: Vec<View> =
            [&unfolded].into_iter().chain(from.iter().copied()).map(|view| view.transposed(&order)).collect();
        let (outer, inner): (Vec<View>, Vec<View>) = views.iter().map(|view| view.split_axes(count)).unzip();
        let outer: Vec<&View> = outer.iter().collect();
        let axes = merge_axes(&outer);
        let inner = merge_axes(&inner.iter().collect::<Vec<_>>());
        let is_even = |axis: &Axis| axis.strides[1] == 1 && axis.strides.iter().all(|stride| matches!(stride, 0 | 1));
        match inner.as_slice() {
            [] => {
                let op = if from.len() == 2 { Op::Binary(Binary::Mul) } else { Op::Unary(Unary::Copy) };
                self.map(op, outer[0], &outer[1..])
            }
            // The folded elements are contiguous and become the lanes.
            [axis] if self.is_within_units(axis, &outer) && is_even(axis) => {
                let op = Op::FoldLanes { fold, accumulate: false };
                let rows = longest_axis(&axes, |index| self.is_within_units(&axes[index], &outer));
                let folded = Some(axes.len());
                self.push_along(&op, &outer, &[&axes[..], &inner].concat(), rows, folded)
            }
            // The folded elements become the rows, and another axis becomes the lanes.
            [axis] if self.is_within_units(axis, &outer) => {
                let is_lanes = |remaining: &Axis| {
                    remaining.strides[0] == 1 && is_even(remaining) && self.is_within_units(remaining, &outer)
                };
                match axes.iter().rposition(is_lanes) {
                    Some(lanes) => {
                        let op = Op::FoldRows { fold, accumulate: false };
                        let folded = Some(axes.len());
                        self.push_along(&op, &outer, &[&axes[..], &inner].concat(), folded, Some(lanes))
                    }
                    None => self.fold_ordered(fold, outer[0], &views[1..], count),
                }
            }
            _ => self.fold_ordered(fold, outer[0], &views[1..], count),
        }
    }

    /// Copies the operands to contiguous memory, and folds all axes of the copies after the first `count` axes.
    fn fold_ordered(&mut self, fold: Fold, to: &View, from: &[View], count: usize) -> Result<()> {
        let copies = from.iter().map(|view| self.copied(view)).collect::<Result<Vec<View>>>()?;
        let last: Vec<usize> = (count..copies[0].shape.len()).collect();
        self.fold(fold, to, &copies.iter().collect::<Vec<_>>(), &last)
    }
}

/// Returns `true` if two views of the same shape are contiguous along different axes.
fn crosses(one: &View, other: &View) -> bool {
    let runs_across = |one: &View, other: &View| {
        (0..one.shape.len()).any(|axis| one.shape[axis] > 1 && one.strides[axis] == 1 && other.strides[axis] > 1)
    };
    runs_across(one, other) && runs_across(other, one)
}
