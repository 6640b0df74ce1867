//! Tensors while a plan is made: which elements of a region they are, in each iteration of the loops around.

use std::rc::Rc;

use super::memory::Register;
use crate::plan::DEPTH;

/// A tensor in a region. Broadcasts, transposes, slices and rows of a sequence are views of the same elements.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) region: usize,
    /// The first element, in the first iteration of all loops.
    pub(super) start: usize,
    /// Elements that it moves with each iteration of each loop, the outermost first.
    pub(super) steps: [isize; DEPTH],
    pub(super) shape: Vec<usize>,
    /// Elements between neighbours along each axis; 0 along an axis that is broadcast, negative along one that is reversed.
    pub(super) strides: Vec<isize>,
    /// Where it is computed: 0 is before the parts, 1 in a part, 2 in its outermost loops.
    pub(super) level: usize,
    /// What keeps its memory from being used again.
    pub(super) register: Option<Rc<Register>>,
}

/// Which memory of its region a view is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum MemoryKey {
    /// That of a register, by its address.
    Register(*const Register),
    /// All of the region.
    Region,
}

/// The strides of a tensor whose elements lie in order.
pub(super) fn in_order(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1) as isize;
    }
    strides
}

impl View {
    /// All of a region, or of the memory of a register, in order.
    pub(super) fn whole(region: usize, start: usize, shape: &[usize], level: usize) -> View {
        let strides = in_order(shape);
        View { region, start, steps: [0; DEPTH], shape: shape.to_vec(), strides, level, register: None }
    }

    /// How many elements it has.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Row `row` of axis 0 in the first iteration of the loop whose body is at `level`, and `step` rows further with each
    /// iteration.
    pub(super) fn row(&self, row: usize, level: usize, step: isize) -> View {
        let stride = self.strides[0];
        let mut view = self.clone();
        view.start = view.start.wrapping_add_signed(row as isize * stride);
        view.steps[level - 2] += step * stride;
        view.shape.remove(0);
        view.strides.remove(0);
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
        let (shape, strides) = (self.shape.split_at(count), self.strides.split_at(count));
        let of = |shape: &[usize], strides: &[isize]| View {
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            ..self.clone()
        };
        (of(shape.0, strides.0), of(shape.1, strides.1))
    }

    /// So many of it, one after the other at a distance.
    pub(super) fn stacked(&self, count: usize, distance: usize) -> View {
        let mut view = self.clone();
        view.shape.insert(0, count);
        view.strides.insert(0, distance as isize);
        view
    }

    /// Rows `start..start + count` of an axis, each `step` from the one before.
    pub(super) fn part(&self, axis: usize, start: usize, count: usize, step: usize) -> View {
        let mut view = self.clone();
        if count > 0 {
            view.start = view.start.wrapping_add_signed(start as isize * self.strides[axis]);
        }
        view.shape[axis] = count;
        view.strides[axis] *= step as isize;
        view
    }

    /// With the indices of an axis in the opposite order.
    pub(super) fn reversed(&self, axis: usize) -> View {
        let last = self.shape[axis].saturating_sub(1);
        let mut view = self.part(axis, last, self.shape[axis], 1);
        view.strides[axis] = -view.strides[axis];
        view
    }

    /// Whether an axis is reversed.
    pub(super) fn is_reversed(&self) -> bool {
        self.strides.iter().any(|stride| *stride < 0)
    }

    /// The first and the last of its elements in memory.
    pub(super) fn ends(&self) -> [usize; 2] {
        let reach = |sign: isize| -> isize {
            let axes = self.shape.iter().zip(&self.strides).filter(|(_, stride)| stride.signum() == sign);
            axes.map(|(size, stride)| size.saturating_sub(1) as isize * stride).sum()
        };
        [-1, 1].map(|sign| self.start.wrapping_add_signed(reach(sign)))
    }

    /// One index of an axis, which disappears.
    pub(super) fn at(&self, axis: usize, index: usize) -> View {
        let mut view = self.part(axis, index, 1, 1);
        view.shape.remove(axis);
        view.strides.remove(axis);
        view
    }

    /// With axes in this order.
    pub(super) fn transposed(&self, axes: &[usize]) -> View {
        let shape = axes.iter().map(|axis| self.shape[*axis]).collect();
        let strides = axes.iter().map(|axis| self.strides[*axis]).collect();
        View { shape, strides, ..self.clone() }
    }

    /// Repeated along the axes that are missing or have one element.
    pub(super) fn broadcast(&self, shape: &[usize]) -> View {
        let added = shape.len() - self.shape.len();
        let stride = |axis: usize| match axis.checked_sub(added) {
            Some(own) if self.shape[own] == shape[axis] => self.strides[own],
            _ => 0,
        };
        View { shape: shape.to_vec(), strides: (0..shape.len()).map(stride).collect(), ..self.clone() }
    }

    /// The same elements in another shape, if no element has to move.
    pub(super) fn reshaped(&self, shape: &[usize]) -> Option<View> {
        let strides = if self.len() == 0 { in_order(shape) } else { reshaped_strides(self, shape)? };
        Some(View { shape: shape.to_vec(), strides, ..self.clone() })
    }

    /// Which memory of its region it is of.
    pub(super) fn memory(&self) -> MemoryKey {
        self.register.as_ref().map_or(MemoryKey::Region, |register| MemoryKey::Register(Rc::as_ptr(register)))
    }

    /// Whether another view may be of the same memory: of the same register, or of a region without registers.
    pub(super) fn shares_memory(&self, other: &View) -> bool {
        self.region == other.region
            && match (&self.register, &other.register) {
                (Some(own), Some(other)) => Rc::ptr_eq(own, other),
                _ => true,
            }
    }

    /// Tells whether its elements lie between those of another view of the same memory, as neighbouring columns of a matrix do, and
    /// are not the same ones. No instruction reads the one and writes the other.
    pub(super) fn is_between(&self, other: &View) -> bool {
        let ([first, last], [from, to]) = (self.ends(), other.ends());
        self.shares_memory(other) && self.steps == other.steps && first <= to && from <= last && !self.is(other)
    }

    /// Whether another view is of the same elements in the same order.
    pub(super) fn is(&self, other: &View) -> bool {
        let moves = |axis: &usize| self.shape[*axis] > 1;
        (self.region, self.start, self.steps, &self.shape) == (other.region, other.start, other.steps, &other.shape)
            && (0..self.shape.len()).filter(moves).all(|axis| self.strides[axis] == other.strides[axis])
    }

    /// Whether the elements of each row of axis 0 lie one after the other.
    pub(super) fn has_rows_in_order(&self) -> bool {
        self.split_axes(1.min(self.shape.len())).1.is_in_order()
    }

    /// Whether the elements lie one after the other.
    pub(super) fn is_in_order(&self) -> bool {
        let ordered = in_order(&self.shape);
        (0..self.shape.len()).all(|axis| self.shape[axis] == 1 || self.strides[axis] == ordered[axis])
    }
}

/// The strides that the same elements have in another shape. Axes of the new shape are matched with runs of old ones that
/// lie in each other's order.
fn reshaped_strides(view: &View, shape: &[usize]) -> Option<Vec<isize>> {
    let mut runs: Vec<(usize, isize)> = Vec::new();
    for (size, stride) in view.shape.iter().copied().zip(view.strides.iter().copied()).filter(|(size, _)| *size != 1) {
        match runs.last_mut() {
            Some(last) if last.1 == stride * size as isize => *last = (last.0 * size, stride),
            _ => runs.push((size, stride)),
        }
    }
    let mut strides = vec![0; shape.len()];
    let mut run = runs.pop();
    for axis in (0..shape.len()).rev().filter(|axis| shape[*axis] != 1) {
        let (size, stride) = match run {
            Some((1, _)) | None => runs.pop()?,
            Some(run) => run,
        };
        if size % shape[axis] != 0 {
            return None;
        }
        strides[axis] = stride;
        run = Some((size / shape[axis], stride * shape[axis] as isize));
    }
    Some(strides)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strides_of(shape: &[usize], strides: &[isize], new: &[usize]) -> Option<Vec<isize>> {
        let view = View { strides: strides.to_vec(), ..View::whole(0, 0, shape, 0) };
        Some(view.reshaped(new)?.strides)
    }

    #[test]
    fn a_reshape_moves_no_element_where_runs_of_axes_allow_it() {
        assert_eq!(strides_of(&[2, 3, 4], &[12, 4, 1], &[6, 4]), Some(vec![4, 1]));
        assert_eq!(strides_of(&[6, 4], &[4, 1], &[2, 3, 1, 4]), Some(vec![12, 4, 0, 1]));
        assert_eq!(strides_of(&[3, 4], &[1, 3], &[12]), None);
        assert_eq!(strides_of(&[3, 4], &[1, 3], &[3, 1, 4]), Some(vec![1, 0, 3]));
        assert_eq!(strides_of(&[3, 4], &[0, 1], &[3, 2, 2]), Some(vec![0, 2, 1]));
        assert_eq!(strides_of(&[3, 4], &[0, 0], &[12]), Some(vec![0]));
        assert_eq!(strides_of(&[3, 4], &[8, 1], &[4, 3]), None);
        assert_eq!(strides_of(&[1], &[1], &[]), Some(vec![]));
    }

    #[test]
    fn rows_parts_and_broadcasts_are_of_the_same_elements() {
        let whole = View::whole(0, 0, &[5, 3, 4], 0);
        let row = whole.row(4, 2, -1);
        assert_eq!((row.start, row.steps[0], row.shape, row.strides, row.level), (48, -12, vec![3, 4], vec![4, 1], 2));
        let part = whole.part(2, 1, 2, 2);
        assert_eq!((part.start, &part.shape[..], &part.strides[..]), (1, &[5, 3, 2][..], &[12, 4, 2][..]));
        let broadcast = whole.at(0, 1).part(0, 2, 1, 1).broadcast(&[2, 7, 4]);
        assert_eq!((broadcast.start, broadcast.strides), (20, vec![0, 0, 1]));
        let reversed = whole.reversed(0).reversed(2);
        assert_eq!((reversed.start, &reversed.strides[..], reversed.ends()), (51, &[-12, 4, -1][..], [0, 59]));
        assert!(reversed.reversed(2).reversed(0).is(&whole));
        assert_eq!(whole.reversed(0).row(1, 2, 1).steps[0], -12);
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
