//! What a part sees of a region, and how one instruction borrows from all of them.
//!
//! The place that an instruction writes cuts its region in two, before and after it; what the instruction reads from the
//! same region lies in either. So one mutable and any number of shared slices come from one region without copies.

use ndarray::{ArrayView2, ArrayViewMut2, Axis};

use crate::kernels::source::Source;

/// A region as one part sees it.
#[derive(Default)]
pub(crate) enum View<'a, T> {
    /// Nothing.
    #[default]
    None,
    /// Elements that are only read in this stage.
    Read(&'a [T]),
    /// Elements that only this part sees.
    Own(&'a mut [T]),
    /// The part's columns of all units.
    Columns(ArrayViewMut2<'a, T>),
}

/// The same, before the parts are separated.
#[derive(Default)]
pub(crate) enum Wide<'a, T> {
    /// Nothing.
    #[default]
    None,
    /// Elements to read, from the first part's first column on, and columns for each index of the axis.
    Read(&'a [T], usize),
    /// All of it, for the only part.
    Own(&'a mut [T]),
    /// Columns for each index of the axis.
    Columns(ArrayViewMut2<'a, T>, usize),
    /// So many elements for each part.
    Parts(&'a mut [T], usize),
}

impl<'a, T> Wide<'a, T> {
    /// For the first `parts` parts, which have `indices` indices of the axis, and for the rest.
    pub(crate) fn split(self, parts: usize, indices: usize) -> (Self, Self) {
        match self {
            Wide::None => (Wide::None, Wide::None),
            Wide::Read(data, width) => (Wide::Read(data, width), Wide::Read(&data[indices * width..], width)),
            Wide::Own(data) => (Wide::Own(data), Wide::None),
            Wide::Columns(array, width) => {
                let (first, rest) = array.split_at(Axis(1), indices * width);
                (Wide::Columns(first, width), Wide::Columns(rest, width))
            }
            Wide::Parts(data, len) => {
                let (first, rest) = data.split_at_mut(parts * len);
                (Wide::Parts(first, len), Wide::Parts(rest, len))
            }
        }
    }

    /// For the only part that is left.
    pub(crate) fn into_view(self) -> View<'a, T> {
        match self {
            Wide::None => View::None,
            Wide::Read(data, _) => View::Read(data),
            Wide::Own(data) | Wide::Parts(data, _) => View::Own(data),
            Wide::Columns(array, _) => View::Columns(array),
        }
    }
}

/// The elements that an operand reads or writes now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// Of columns the unit, else the first element.
    pub(crate) at: usize,
    /// Of columns the first element of the unit.
    pub(crate) offset: usize,
    /// How many elements.
    pub(crate) span: usize,
}

impl<T> View<'_, T> {
    /// The elements of a range.
    #[inline]
    pub(crate) fn read(&self, range: Range) -> &[T] {
        match self {
            View::Read(data) => &data[range.at..][..range.span],
            View::Own(data) => &data[range.at..][..range.span],
            View::Columns(array) => unit_of(array.view(), range.at, range),
            View::None => &[],
        }
    }

    /// The elements of a range to write, and what lies around them to read.
    #[inline]
    pub(crate) fn write(&mut self, range: Range) -> (&mut [T], Around<'_, T>) {
        match self {
            View::Own(data) => {
                let (before, rest) = data.split_at_mut(range.at);
                let (to, after) = rest.split_at_mut(range.span);
                (to, Around::Flat { before, after, range })
            }
            View::Columns(array) => {
                let (before, rest) = array.view_mut().split_at(Axis(0), range.at);
                let (unit, after) = rest.split_at(Axis(0), 1);
                let unit = unit.into_slice().unwrap_or_default();
                let (left, rest) = unit.split_at_mut(range.offset);
                let (to, right) = rest.split_at_mut(range.span);
                (to, Around::Columns(Columns { before, left, right, after, range }))
            }
            View::Read(_) | View::None => (&mut [], Around::None),
        }
    }
}

/// Part of a unit of columns. The units are counted from the first of `array`.
#[inline]
fn unit_of<T>(array: ArrayView2<'_, T>, unit: usize, range: Range) -> &[T] {
    let unit = array.index_axis_move(Axis(0), unit).to_slice().unwrap_or_default();
    &unit[range.offset..][..range.span]
}

/// What lies around a place that is written.
pub(crate) enum Around<'a, T> {
    None,
    Flat { before: &'a [T], after: &'a [T], range: Range },
    Columns(Columns<'a, T>),
}

/// The units before and after a unit that is written, and what is left and right of the place in it.
pub(crate) struct Columns<'a, T> {
    before: ArrayViewMut2<'a, T>,
    left: &'a [T],
    right: &'a [T],
    after: ArrayViewMut2<'a, T>,
    range: Range,
}

impl<T> Around<'_, T> {
    /// The elements of a range; `None` if they are the place that is written.
    #[inline]
    pub(crate) fn read(&self, from: Range) -> Option<&[T]> {
        match self {
            Around::None => None,
            Around::Flat { before, after, range } => {
                let end = range.at + range.span;
                if from.at == range.at {
                    None
                } else if from.at < range.at {
                    Some(&before[from.at..][..from.span])
                } else {
                    Some(&after[from.at - end..][..from.span])
                }
            }
            Around::Columns(Columns { before, left, right, after, range }) => {
                if from.at < range.at {
                    Some(unit_of(before.view(), from.at, from))
                } else if from.at > range.at {
                    Some(unit_of(after.view(), from.at - range.at - 1, from))
                } else if from.offset == range.offset {
                    None
                } else if from.offset < range.offset {
                    Some(&left[from.offset..][..from.span])
                } else {
                    Some(&right[from.offset - range.offset - range.span..][..from.span])
                }
            }
        }
    }
}

/// All other regions, while one is written.
pub(crate) struct Others<'v, 'a, T> {
    pub(crate) below: &'v [View<'a, T>],
    pub(crate) above: &'v [View<'a, T>],
    pub(crate) around: Around<'v, T>,
}

impl<T> Others<'_, '_, T> {
    /// The elements of a range of a region; `None` if they are the place that is written.
    #[inline]
    pub(crate) fn read(&self, region: usize, range: Range) -> Option<&[T]> {
        let written = self.below.len();
        if region < written {
            Some(self.below[region].read(range))
        } else if region > written {
            Some(self.above[region - written - 1].read(range))
        } else {
            self.around.read(range)
        }
    }

    /// An operand of an elementwise kernel.
    #[inline]
    pub(crate) fn source(&self, region: usize, range: Range, stride: usize, element: bool) -> Source<'_, T> {
        match self.read(region, range) {
            None => Source::Same,
            Some(data) if element => Source::Element { data, stride },
            Some(data) => Source::Lanes { data, stride },
        }
    }
}

/// Borrows a place to write, and everything else to read.
#[inline]
pub(crate) fn borrow<'v, 'a, T>(
    views: &'v mut [View<'a, T>],
    region: usize,
    range: Range,
) -> (&'v mut [T], Others<'v, 'a, T>) {
    let (below, rest) = views.split_at_mut(region);
    let (written, above) = rest.split_at_mut(1);
    let (to, around) = written[0].write(range);
    (to, Others { below, above, around })
}
