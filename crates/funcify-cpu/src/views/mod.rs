//! Gives each part a view of the elements that it may access in each region, and lets instructions borrow slices of
//! these views.
//!
//! The destination of an instruction splits its region into the elements before it and the elements after it. Any other
//! operand in the same region lies on one of these two sides. An instruction can therefore borrow one mutable slice and
//! any number of shared slices from the same region, without copies.

mod start;

use ndarray::{ArrayView2, ArrayViewMut2, Axis};

use crate::kernels::source::Source;
pub(crate) use start::{Cursor, Layout, Start};

/// The elements of a region that are visible to one part.
#[derive(Default)]
pub(crate) enum View<'a, T> {
    /// No elements.
    #[default]
    None,
    /// Elements that are read-only in this stage.
    Read(&'a [T]),
    /// Elements that are visible to this part only.
    Own(&'a mut [T]),
    /// The part's columns of all units.
    Columns(ArrayViewMut2<'a, T>),
}

/// A region before it is split among parts.
#[derive(Default)]
pub(crate) enum UnsplitView<'a, T> {
    /// No elements.
    #[default]
    None,
    /// Read-only elements, beginning at the first column of the first part, and the number of columns per index of the
    /// stage's parallel axis. The number is 0 if every part reads all elements.
    Read(&'a [T], usize),
    /// Writable elements, and the number of columns per index of the stage's parallel axis.
    Columns(ArrayViewMut2<'a, T>, usize),
    /// The elements of all parts, and the number of elements per part.
    Parts(&'a mut [T], usize),
}

impl<'a, T> UnsplitView<'a, T> {
    /// Splits the region in two: one for the first `parts` parts, which together have `indices` indices of the parallel
    /// axis, and one for the remaining parts.
    pub(crate) fn split(self, parts: usize, indices: usize) -> (Self, Self) {
        match self {
            UnsplitView::None => (UnsplitView::None, UnsplitView::None),
            UnsplitView::Read(data, width) => {
                (UnsplitView::Read(data, width), UnsplitView::Read(&data[indices * width..], width))
            }
            UnsplitView::Columns(array, width) => {
                let (first, rest) = array.split_at(Axis(1), indices * width);
                (UnsplitView::Columns(first, width), UnsplitView::Columns(rest, width))
            }
            UnsplitView::Parts(data, len) => {
                let (first, rest) = data.split_at_mut(parts * len);
                (UnsplitView::Parts(first, len), UnsplitView::Parts(rest, len))
            }
        }
    }

    /// Converts the region to the view of its only remaining part.
    pub(crate) fn into_view(self) -> View<'a, T> {
        match self {
            UnsplitView::None => View::None,
            UnsplitView::Read(data, _) => View::Read(data),
            UnsplitView::Parts(data, _) => View::Own(data),
            UnsplitView::Columns(array, _) => View::Columns(array),
        }
    }
}

/// The range of elements that an operand spans in the current iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// The index of the unit if the view is [`View::Columns`], and the index of the first element otherwise.
    pub(crate) at: usize,
    /// The index of the first element within the unit. Used only if the view is [`View::Columns`].
    pub(crate) offset: usize,
    /// The number of elements.
    pub(crate) span: usize,
}

/// The `expect` message for borrowing a unit as a slice.
const IN_ORDER: &str = "the columns of a unit are contiguous";

impl<T> View<'_, T> {
    /// Returns the elements of a range.
    #[inline(always)]
    pub(crate) fn read(&self, range: Range) -> &[T] {
        let data: &[T] = match self {
            View::Read(data) => data,
            View::Own(data) => data,
            View::Columns(array) => return unit_of(array.view(), range.at, range),
            View::None => unreachable!("the plan check guarantees that an operand has a region"),
        };
        &data[range.at..][..range.span]
    }
}

impl<T> View<'_, T> {
    /// Returns the elements of a range as a mutable slice.
    #[inline(always)]
    pub(crate) fn write(&mut self, range: Range) -> &mut [T] {
        match self {
            View::Own(data) => &mut data[range.at..][..range.span],
            View::Columns(array) => {
                let unit = array.view_mut().index_axis_move(Axis(0), range.at).into_slice().expect(IN_ORDER);
                &mut unit[range.offset..][..range.span]
            }
            View::Read(_) | View::None => unreachable!("the plan check guarantees that the destination is writable"),
        }
    }
}

/// Returns the elements of a range in the given unit. `unit` is relative to the start of `array`.
#[inline]
fn unit_of<T>(array: ArrayView2<'_, T>, unit: usize, range: Range) -> &[T] {
    let unit = array.index_axis_move(Axis(0), unit).to_slice().expect(IN_ORDER);
    &unit[range.offset..][..range.span]
}

/// The units before and after the unit being written, in a view of columns.
pub(crate) struct Columns<'v, T> {
    before: ArrayViewMut2<'v, T>,
    after: ArrayViewMut2<'v, T>,
}

/// All elements of all regions, except those being written.
pub(crate) struct Unwritten<'v, 'a, T> {
    below: &'v [View<'a, T>],
    above: &'v [View<'a, T>],
    /// The elements being written.
    range: Range,
    /// The elements before and after the range being written. In a view of columns, these are only elements of the same
    /// unit.
    before: &'v [T],
    after: &'v [T],
    columns: Option<&'v Columns<'v, T>>,
}

impl<'v, T> Unwritten<'v, '_, T> {
    /// Returns the elements of a range of a region, or `None` if this range is being written.
    #[inline(always)]
    pub(crate) fn read(&self, region: usize, from: Range) -> Option<&'v [T]> {
        let written = self.below.len();
        if region < written {
            Some(self.below[region].read(from))
        } else if region > written {
            Some(self.above[region - written - 1].read(from))
        } else {
            self.read_around(from)
        }
    }

    #[inline(always)]
    fn read_around(&self, from: Range) -> Option<&'v [T]> {
        let (from_start, start) = match self.columns {
            None => (from.at, self.range.at),
            Some(columns) if from.at < self.range.at => return Some(unit_of(columns.before.view(), from.at, from)),
            Some(columns) if from.at > self.range.at => {
                return Some(unit_of(columns.after.view(), from.at - self.range.at - 1, from));
            }
            Some(_) => (from.offset, self.range.offset),
        };
        if from_start < start {
            Some(&self.before[from_start..][..from.span])
        } else if from_start > start {
            Some(&self.after[from_start - start - self.range.span..][..from.span])
        } else {
            None
        }
    }

    /// Returns a range of a region as an operand of an elementwise kernel, or [`Source::Same`] if this range is being
    /// written. If `element` is set, each row has only one element, which is broadcast to all lanes.
    #[inline(always)]
    pub(crate) fn source(&self, region: usize, range: Range, stride: usize, element: bool) -> Source<'v, T> {
        match self.read(region, range) {
            None => Source::Same,
            Some(data) if element => Source::Element { data, stride },
            Some(data) => Source::Lanes { data, stride },
        }
    }
}

/// Mutably borrows the range to write, and borrows all other elements for reading. For a view of columns, the other
/// units are stored in `columns`.
#[inline(always)]
pub(crate) fn borrow<'v, 'a, T>(
    views: &'v mut [View<'a, T>],
    region: usize,
    range: Range,
    columns: &'v mut Option<Columns<'v, T>>,
) -> (&'v mut [T], Unwritten<'v, 'a, T>) {
    let (below, rest) = views.split_at_mut(region);
    let (written, above) = rest.split_at_mut(1);
    let (unit, start): (&mut [T], usize) = match &mut written[0] {
        View::Own(data) => (data, range.at),
        View::Columns(array) => {
            let (before, rest) = array.view_mut().split_at(Axis(0), range.at);
            let (unit, after) = rest.split_at(Axis(0), 1);
            *columns = Some(Columns { before, after });
            (unit.index_axis_move(Axis(0), 0).into_slice().expect(IN_ORDER), range.offset)
        }
        View::Read(_) | View::None => unreachable!("the plan check guarantees that the destination is writable"),
    };
    let (before, rest) = unit.split_at_mut(start);
    let (to, after) = rest.split_at_mut(range.span);
    (to, Unwritten { below, above, range, before, after, columns: columns.as_ref() })
}
