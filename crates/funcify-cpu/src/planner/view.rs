//! Views of tensors during planning. A view describes the elements of a region that belong to a tensor in each
//! iteration.

use std::ops::{Deref, DerefMut};

use funcify_analysis::{Memory, TensorLayout};

use super::memory::Register;
use super::*;

/// A tensor in a region. Its position may move in each iteration of the enclosing loops. Broadcasts, transposes, slices
/// and rows of a sequence are views of the same elements.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) region: usize,
    /// The layout of the tensor in the first iteration of every loop.
    pub(super) layout: TensorLayout,
    /// The number of elements by which the view moves per iteration of each loop, outermost first.
    pub(super) steps: [isize; DEPTH],
    /// The level at which the tensor is computed: 0 is before the parts, 1 is in a part but outside its loops, 2 is in
    /// the outermost loops of a part, and so on.
    pub(super) level: usize,
    /// The register that contains the view, if any. The memory of a register is not reused while a view refers to the
    /// register.
    pub(super) register: Option<Rc<Register>>,
}

/// Dereferences to the layout, which has the shape and the strides.
impl Deref for View {
    type Target = TensorLayout;

    fn deref(&self) -> &TensorLayout {
        &self.layout
    }
}

impl DerefMut for View {
    fn deref_mut(&mut self) -> &mut TensorLayout {
        &mut self.layout
    }
}

impl View {
    /// Returns a contiguous, row-major view of a region, beginning at element `start`.
    pub(super) fn whole(region: usize, start: usize, shape: &[usize], level: usize) -> View {
        let layout = TensorLayout::whole(start, shape);
        View { region, layout, steps: [0; DEPTH], level, register: None }
    }

    /// Returns a view of the same memory with a different layout.
    fn with(&self, layout: TensorLayout) -> View {
        let View { region, steps, level, .. } = *self;
        View { region, layout, steps, level, register: self.register.clone() }
    }

    /// Returns a view with the same start and the given shape and strides.
    pub(super) fn with_axes(&self, shape: Vec<usize>, strides: Vec<isize>) -> View {
        self.with(self.layout.with_axes(shape, strides))
    }

    /// Returns a view of row `row` along axis 0. The view moves by `step` rows per iteration of the loop whose body is
    /// at `level`.
    pub(super) fn row(&self, row: usize, level: usize, step: isize) -> View {
        let mut view = self.at(0, row);
        view.steps[level - 2] += step * self.strides[0];
        view.level = level;
        view
    }

    /// Returns the view in the first iteration of the loop whose body is at `level`, and the number of elements by
    /// which the view moves per iteration.
    pub(super) fn strip(&self, level: usize) -> (View, isize) {
        let mut view = View { level: level - 1, ..self.clone() };
        let step = std::mem::take(&mut view.steps[level - 2]);
        (view, step)
    }

    /// Splits the view into a view over the first `count` axes and a view over the remaining axes.
    pub(super) fn split_axes(&self, count: usize) -> (View, View) {
        let (first, others) = self.layout.split_axes(count);
        (self.with(first), self.with(others))
    }

    /// Returns a view of `count` tensors, stacked along a new axis 0. Each tensor has the layout of this view, and
    /// starts `distance` elements after the previous one.
    pub(super) fn stacked(&self, count: usize, distance: usize) -> View {
        self.with(self.layout.stacked(count, distance))
    }

    /// Returns a view of the elements at `count` indices of an axis: `start`, `start + step`, and so on.
    pub(super) fn part(&self, axis: usize, start: usize, count: usize, step: usize) -> View {
        self.with(self.layout.part(axis, start, count, step))
    }

    /// Returns the view with an axis reversed.
    pub(super) fn reversed(&self, axis: usize) -> View {
        self.with(self.layout.reversed(axis))
    }

    /// Returns a view of the elements at one index of an axis, without that axis.
    pub(super) fn at(&self, axis: usize, index: usize) -> View {
        self.with(self.layout.at(axis, index))
    }

    /// Returns the view with its axes permuted to the order in `axes`.
    pub(super) fn transposed(&self, axes: &[usize]) -> View {
        self.with(self.layout.transposed(axes))
    }

    /// Returns the view broadcast to a shape: repeated along its axes of size 1, and along axes that it lacks.
    pub(super) fn broadcast(&self, shape: &[usize]) -> View {
        self.with(self.layout.broadcast(shape))
    }

    /// Returns the view in another shape, or `None` if that requires moving elements.
    pub(super) fn reshaped(&self, shape: &[usize]) -> Option<View> {
        Some(self.with(self.layout.reshaped(shape)?))
    }

    /// Returns the memory of the view: its register, or the whole region if it has no register.
    pub(super) fn memory(&self) -> Memory {
        Memory { region: self.region, allocation: self.register.as_ref().map(|register| register.number) }
    }

    /// Returns `true` if the two views may be in the same memory.
    pub(super) fn shares_memory(&self, other: &View) -> bool {
        self.memory().may_share(&other.memory())
    }

    /// Returns `true` if two different views have overlapping address ranges. For example, adjacent columns of a matrix
    /// have overlapping address ranges. An instruction must not read one of two such views and write the other.
    pub(super) fn interleaves(&self, other: &View) -> bool {
        self.steps == other.steps && self.may_overlap(other) && !self.is_same_view(other)
    }

    /// Returns `true` if the two views may have elements at the same addresses in the same iteration.
    pub(super) fn may_overlap(&self, other: &View) -> bool {
        let ([first, last], [from, to]) = (self.ends(), other.ends());
        self.shares_memory(other) && (self.steps != other.steps || (first <= to && from <= last))
    }

    /// Returns `true` if the two views have the same elements in the same order.
    pub(super) fn is_same_view(&self, other: &View) -> bool {
        (self.region, self.steps) == (other.region, other.steps) && self.layout.is_same(&other.layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_move_with_the_iterations() {
        let whole = View::whole(0, 0, &[5, 3, 4], 0);
        let row = whole.row(4, 2, -1);
        assert_eq!((row.start, row.steps[0], row.level), (48, -12, 2));
        assert_eq!((&row.shape[..], &row.strides[..]), (&[3, 4][..], &[4, 1][..]));
        assert_eq!(whole.reversed(0).row(1, 2, 1).steps[0], -12);
        assert!(whole.reversed(0).reversed(0).is_same_view(&whole));
    }

    #[test]
    fn columns_interleave_with_those_beside_them_and_rows_do_not() {
        let whole = View::whole(0, 0, &[3, 4], 0);
        let [columns, beside] = [whole.part(1, 0, 2, 1), whole.part(1, 2, 2, 1)];
        assert!(columns.interleaves(&beside) && beside.interleaves(&columns));
        assert!(whole.part(0, 0, 2, 1).interleaves(&whole.part(0, 1, 2, 1)));
        assert!(!columns.interleaves(&columns.clone()));
        assert!(!whole.part(0, 0, 1, 1).interleaves(&whole.part(0, 1, 2, 1)));
        assert!(!columns.interleaves(&View { region: 1, ..beside.clone() }));
        assert!(!columns.interleaves(&View { steps: [4, 0, 0, 0, 0], ..beside }));
    }
}
