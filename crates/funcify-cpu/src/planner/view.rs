//! Tensors while a plan is made: which elements of a region they are, in each iteration of the loops around.

use std::ops::{Deref, DerefMut};

use funcify_analysis::{Memory, TensorLayout};

use super::memory::Register;
use super::*;

/// A tensor in a region: a layout of its elements, which moves with the loops around. Broadcasts, transposes, slices and rows of
/// a sequence are views of the same elements.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) region: usize,
    /// Where its elements are in the first iteration of all loops.
    pub(super) layout: TensorLayout,
    /// Elements that it moves with each iteration of each loop, the outermost first.
    pub(super) steps: [isize; DEPTH],
    /// Where it is computed: 0 is before the parts, 1 in a part, 2 in its outermost loops.
    pub(super) level: usize,
    /// What keeps its memory from being used again.
    pub(super) register: Option<Rc<Register>>,
}

/// What is asked of a view is asked of its layout: its shape, its strides, whether its elements lie in order.
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
    /// All of a region, or of the memory of a register, in order.
    pub(super) fn whole(region: usize, start: usize, shape: &[usize], level: usize) -> View {
        let layout = TensorLayout::whole(start, shape);
        View { region, layout, steps: [0; DEPTH], level, register: None }
    }

    /// The same memory, laid out in another way.
    fn with(&self, layout: TensorLayout) -> View {
        let View { region, steps, level, .. } = *self;
        View { region, layout, steps, level, register: self.register.clone() }
    }

    /// With other axes.
    pub(super) fn with_axes(&self, shape: Vec<usize>, strides: Vec<isize>) -> View {
        self.with(self.layout.with_axes(shape, strides))
    }

    /// Row `row` of axis 0 in the first iteration of the loop whose body is at `level`, and `step` rows further with each
    /// iteration.
    pub(super) fn row(&self, row: usize, level: usize, step: isize) -> View {
        let mut view = self.at(0, row);
        view.steps[level - 2] += step * self.strides[0];
        view.level = level;
        view
    }

    /// What is here in the first iteration of the loop whose body is at `level`, and elements to the next iteration.
    pub(super) fn strip(&self, level: usize) -> (View, isize) {
        let mut view = View { level: level - 1, ..self.clone() };
        let step = std::mem::take(&mut view.steps[level - 2]);
        (view, step)
    }

    /// The view over the first `count` axes and that over the others.
    pub(super) fn split_axes(&self, count: usize) -> (View, View) {
        let (first, others) = self.layout.split_axes(count);
        (self.with(first), self.with(others))
    }

    /// So many of it, one after the other at a distance.
    pub(super) fn stacked(&self, count: usize, distance: usize) -> View {
        self.with(self.layout.stacked(count, distance))
    }

    /// Rows `start..start + count` of an axis, each `step` from the one before.
    pub(super) fn part(&self, axis: usize, start: usize, count: usize, step: usize) -> View {
        self.with(self.layout.part(axis, start, count, step))
    }

    /// With the indices of an axis in the opposite order.
    pub(super) fn reversed(&self, axis: usize) -> View {
        self.with(self.layout.reversed(axis))
    }

    /// One index of an axis, which disappears.
    pub(super) fn at(&self, axis: usize, index: usize) -> View {
        self.with(self.layout.at(axis, index))
    }

    /// With axes in this order.
    pub(super) fn transposed(&self, axes: &[usize]) -> View {
        self.with(self.layout.transposed(axes))
    }

    /// Repeated along the axes that are missing or have one element.
    pub(super) fn broadcast(&self, shape: &[usize]) -> View {
        self.with(self.layout.broadcast(shape))
    }

    /// The same elements in another shape, if no element has to move.
    pub(super) fn reshaped(&self, shape: &[usize]) -> Option<View> {
        Some(self.with(self.layout.reshaped(shape)?))
    }

    /// The memory that it is of: that of a register, or all of a region without registers.
    pub(super) fn memory(&self) -> Memory {
        Memory { region: self.region, allocation: self.register.as_ref().map(|register| register.number) }
    }

    /// Whether another view may be of the same memory.
    pub(super) fn shares_memory(&self, other: &View) -> bool {
        self.memory().may_share(&other.memory())
    }

    /// Tells whether its elements lie between those of another view of the same memory, as neighbouring columns of a matrix do, and
    /// are not the same ones. No instruction reads the one and writes the other.
    pub(super) fn is_between(&self, other: &View) -> bool {
        let ([first, last], [from, to]) = (self.ends(), other.ends());
        self.shares_memory(other) && self.steps == other.steps && first <= to && from <= last && !self.is(other)
    }

    /// Whether another view is of the same elements in the same order.
    pub(super) fn is(&self, other: &View) -> bool {
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
        assert!(whole.reversed(0).reversed(0).is(&whole));
    }

    #[test]
    fn columns_lie_between_those_beside_them_and_rows_do_not() {
        let whole = View::whole(0, 0, &[3, 4], 0);
        let [columns, beside] = [whole.part(1, 0, 2, 1), whole.part(1, 2, 2, 1)];
        assert!(columns.is_between(&beside) && beside.is_between(&columns));
        assert!(whole.part(0, 0, 2, 1).is_between(&whole.part(0, 1, 2, 1)));
        assert!(!columns.is_between(&columns.clone()));
        assert!(!whole.part(0, 0, 1, 1).is_between(&whole.part(0, 1, 2, 1)));
        assert!(!columns.is_between(&View { region: 1, ..beside.clone() }));
        assert!(!columns.is_between(&View { steps: [4, 0, 0], ..beside }));
    }
}
