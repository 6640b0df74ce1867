//! Describes the layout of a tensor's elements in a region of memory.

/// The layout of a tensor in a region: the index of its first element, and a stride for each axis. A broadcast,
/// transpose, slice, reversal or (in most cases) reshape changes only the layout, and does not move elements.
///
/// ```
/// use funcify_analysis::TensorLayout;
///
/// let matrix = TensorLayout::whole(0, &[2, 3]);
/// let columns = matrix.transposed(&[1, 0]);
/// assert_eq!((&columns.shape[..], &columns.strides[..]), (&[3, 2][..], &[1, 3][..]));
/// assert_eq!(matrix.at(0, 1).start, 3);
/// // A reshape moves no element if the axes it merges are contiguous.
/// assert!(matrix.reshaped(&[6]).is_some());
/// assert!(columns.reshaped(&[6]).is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorLayout {
    /// The index of the first element in the region.
    pub start: usize,
    /// The sizes of the axes.
    pub shape: Vec<usize>,
    /// The stride of each axis, in elements. It is 0 for a broadcast axis, and negative for a reversed one.
    pub strides: Vec<isize>,
}

/// Returns the strides of a contiguous, row-major tensor.
pub fn in_order(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1) as isize;
    }
    strides
}

impl TensorLayout {
    /// Returns a contiguous, row-major layout that starts at element `start`.
    pub fn whole(start: usize, shape: &[usize]) -> Self {
        TensorLayout { start, shape: shape.to_vec(), strides: in_order(shape) }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns `true` if the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns a layout that starts at the same element and has the given shape and strides.
    pub fn with_axes(&self, shape: Vec<usize>, strides: Vec<isize>) -> Self {
        TensorLayout { start: self.start, shape, strides }
    }

    /// Splits the axes into the first `count` and the remaining ones. Returns a layout for each group; both layouts
    /// start at the same element.
    pub fn split_axes(&self, count: usize) -> (Self, Self) {
        let (shape, strides) = (self.shape.split_at(count), self.strides.split_at(count));
        let of = |shape: &[usize], strides: &[isize]| self.with_axes(shape.to_vec(), strides.to_vec());
        (of(shape.0, strides.0), of(shape.1, strides.1))
    }

    /// Returns this layout with an additional leading axis of size `count` and stride `distance`.
    pub fn stacked(&self, count: usize, distance: usize) -> Self {
        let mut layout = self.clone();
        layout.shape.insert(0, count);
        layout.strides.insert(0, distance as isize);
        layout
    }

    /// Returns the layout of the elements at `count` indices of an axis: `start`, `start + step`, and so on.
    pub fn part(&self, axis: usize, start: usize, count: usize, step: usize) -> Self {
        let mut layout = self.clone();
        if count > 0 {
            layout.start = layout.start.wrapping_add_signed(start as isize * self.strides[axis]);
        }
        layout.shape[axis] = count;
        layout.strides[axis] *= step as isize;
        layout
    }

    /// Returns this layout with one axis reversed.
    pub fn reversed(&self, axis: usize) -> Self {
        let last = self.shape[axis].saturating_sub(1);
        let mut layout = self.part(axis, last, self.shape[axis], 1);
        layout.strides[axis] = -layout.strides[axis];
        layout
    }

    /// Returns `true` if any axis is reversed.
    pub fn is_reversed(&self) -> bool {
        self.strides.iter().any(|stride| *stride < 0)
    }

    /// Returns the lowest and the highest index of the tensor's elements within the region.
    pub fn ends(&self) -> [usize; 2] {
        let reach = |sign: isize| -> isize {
            let axes = self.shape.iter().zip(&self.strides).filter(|(_, stride)| stride.signum() == sign);
            axes.map(|(size, stride)| size.saturating_sub(1) as isize * stride).sum()
        };
        [-1, 1].map(|sign| self.start.wrapping_add_signed(reach(sign)))
    }

    /// Returns the layout of the elements at one index of an axis, without that axis.
    pub fn at(&self, axis: usize, index: usize) -> Self {
        let mut layout = self.part(axis, index, 1, 1);
        layout.shape.remove(axis);
        layout.strides.remove(axis);
        layout
    }

    /// Returns this layout with permuted axes: axis `i` of the result is axis `axes[i]` of `self`.
    pub fn transposed(&self, axes: &[usize]) -> Self {
        let shape = axes.iter().map(|axis| self.shape[*axis]).collect();
        let strides = axes.iter().map(|axis| self.strides[*axis]).collect();
        self.with_axes(shape, strides)
    }

    /// Returns the layout of the tensor broadcast to `shape`. Adds the missing leading axes, and repeats the tensor
    /// along them and along its axes of size 1.
    pub fn broadcast(&self, shape: &[usize]) -> Self {
        let added = shape.len() - self.shape.len();
        let stride = |axis: usize| match axis.checked_sub(added) {
            Some(own) if self.shape[own] == shape[axis] => self.strides[own],
            _ => 0,
        };
        self.with_axes(shape.to_vec(), (0..shape.len()).map(stride).collect())
    }

    /// Returns this layout reshaped to `shape`, with the elements in the same row-major order. Returns `None` if
    /// elements would have to move.
    pub fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let strides = if self.is_empty() { in_order(shape) } else { reshaped_strides(self, shape)? };
        Some(self.with_axes(shape.to_vec(), strides))
    }

    /// Returns `true` if both layouts have the same shape and select the same elements of the region in the same order.
    pub fn is_same(&self, other: &Self) -> bool {
        let moves = |axis: &usize| self.shape[*axis] > 1;
        (self.start, &self.shape) == (other.start, &other.shape)
            && (0..self.shape.len()).filter(moves).all(|axis| self.strides[axis] == other.strides[axis])
    }

    /// Returns `true` if each row along axis 0 is contiguous and in row-major order.
    pub fn has_rows_in_order(&self) -> bool {
        self.split_axes(1.min(self.shape.len())).1.is_in_order()
    }

    /// Returns `true` if the elements are contiguous and in row-major order.
    pub fn is_in_order(&self) -> bool {
        let ordered = in_order(&self.shape);
        (0..self.shape.len()).all(|axis| self.shape[axis] == 1 || self.strides[axis] == ordered[axis])
    }
}

/// Returns the strides of `layout` after a reshape to `shape`, or `None` if elements would have to move. Merges
/// contiguous old axes into runs, and then divides each run into new axes.
fn reshaped_strides(layout: &TensorLayout, shape: &[usize]) -> Option<Vec<isize>> {
    let mut runs: Vec<(usize, isize)> = Vec::new();
    for (size, stride) in
        layout.shape.iter().copied().zip(layout.strides.iter().copied()).filter(|(size, _)| *size != 1)
    {
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
        let layout = TensorLayout { strides: strides.to_vec(), ..TensorLayout::whole(0, shape) };
        Some(layout.reshaped(new)?.strides)
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
    fn parts_and_broadcasts_are_of_the_same_elements() {
        let whole = TensorLayout::whole(0, &[5, 3, 4]);
        let part = whole.part(2, 1, 2, 2);
        assert_eq!((part.start, &part.shape[..], &part.strides[..]), (1, &[5, 3, 2][..], &[12, 4, 2][..]));
        let broadcast = whole.at(0, 1).part(0, 2, 1, 1).broadcast(&[2, 7, 4]);
        assert_eq!((broadcast.start, broadcast.strides), (20, vec![0, 0, 1]));
        let reversed = whole.reversed(0).reversed(2);
        assert_eq!((reversed.start, &reversed.strides[..], reversed.ends()), (51, &[-12, 4, -1][..], [0, 59]));
        assert!(reversed.reversed(2).reversed(0).is_same(&whole));
    }
}
