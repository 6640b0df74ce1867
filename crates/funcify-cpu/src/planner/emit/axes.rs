//! Merges the axes of an instruction, selects axes for its rows and lanes, and determines the memory order of axes.

use super::*;

/// An axis of an instruction: its size, and the stride of each operand along it, starting with the destination.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) size: usize,
    pub(super) strides: Vec<isize>,
}

impl Axis {
    /// Returns `true` if no operand is reversed along this axis. A reversed axis cannot become the rows.
    pub(super) fn is_upward(&self) -> bool {
        self.strides.iter().all(|stride| *stride >= 0)
    }
}

/// Returns the view with its axes laid out in the given order, the last one innermost. Axes for which `is_own` returns
/// `false` get stride 0.
pub(super) fn with_axis_order(view: View, order: &[usize], is_own: impl Fn(usize) -> bool) -> View {
    let mut strides = vec![0; view.shape.len()];
    let mut stride = 1;
    for axis in order.iter().rev().copied().filter(|axis| is_own(*axis)) {
        strides[axis] = stride;
        stride *= view.shape[axis].max(1) as isize;
    }
    view.with_axes(view.shape.clone(), strides)
}

/// Returns the order of a view's axes in memory, from the outermost to the innermost. Broadcast axes come first.
pub(in super::super) fn order_of(view: &View) -> Vec<usize> {
    let mut order: Vec<usize> = (0..view.shape.len()).collect();
    order.sort_by_key(|axis| {
        std::cmp::Reverse(if view.strides[*axis] == 0 { usize::MAX } else { view.strides[*axis].unsigned_abs() })
    });
    order
}

/// Returns the kind of an operand's rows, given its stride between lanes.
pub(super) fn across(stride: isize) -> Across {
    if stride == 0 { Across::Element } else { Across::Lanes }
}

/// Returns the axes of views of the same shape. Omits axes of size 1, and merges adjacent axes if a single stride
/// describes both of them in every view.
pub(super) fn merge_axes(views: &[&View]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for (index, size) in views[0].shape.iter().copied().enumerate().filter(|(_, size)| *size != 1) {
        let axis = Axis { size, strides: views.iter().map(|view| view.strides[index]).collect() };
        let continues =
            |last: &Axis| last.strides.iter().zip(&axis.strides).all(|(last, stride)| *last == stride * size as isize);
        match axes.last_mut() {
            Some(last) if continues(last) => *last = Axis { size: last.size * size, ..axis },
            _ => axes.push(axis),
        }
    }
    axes
}

/// Returns `true` if the destination is contiguous along the axis, and each operand is contiguous or broadcast along
/// it.
pub(super) fn is_side_by_side(axis: &Axis) -> bool {
    axis.strides[0] == 1 && axis.strides.iter().all(|stride| matches!(stride, 0 | 1))
}

/// Returns the index of the longest axis for which `of` returns `true`, or `None` if there is no such axis.
pub(super) fn longest_axis(axes: &[Axis], of: impl Fn(usize) -> bool) -> Option<usize> {
    (0..axes.len()).filter(|index| of(*index)).max_by_key(|index| axes[*index].size)
}

/// Returns all axes except those at the indices in `but`.
pub(super) fn axes_except(axes: &[Axis], but: [Option<usize>; 2]) -> Vec<&Axis> {
    axes.iter().enumerate().filter(|(index, _)| !but.contains(&Some(*index))).map(|(_, axis)| axis).collect()
}
