//! Describes where a body's streams are in memory: their paths, the gaps between their rows, and which of them share
//! memory.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::ir::Type;

/// The path of a stream through memory.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) ty: Type,
    /// The offset of the first lane, which is not 0 if an axis is reversed.
    pub(crate) first: usize,
    /// The stride along each axis, in elements.
    pub(crate) strides: SmallVec<[isize; 4]>,
    pub(crate) order: Order,
    /// The axes with more than one lane. Adjacent axes are merged if the stream has a constant stride across both.
    pub(crate) axes: SmallVec<[Axis; 4]>,
    /// The number of lanes after which the stream repeats.
    pub(crate) period: usize,
}

/// An axis of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) size: usize,
    /// The stride, in elements.
    pub(crate) stride: isize,
}

/// The order of the lanes of a stream in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// All lanes use the same element.
    Splat,
    /// Consecutive lanes are adjacent in memory.
    Dense,
    /// Any other order.
    Strided,
}

impl Stream {
    /// Returns `true` if steps read the lanes where they are. `is_padded` is `true` if the body also runs on the gaps
    /// between rows.
    #[inline(always)]
    pub(crate) fn is_in_place(&self, is_padded: bool) -> bool {
        match self.order {
            Order::Splat => false,
            Order::Dense => true,
            Order::Strided => is_padded,
        }
    }

    /// Describes the path of a stream with the given strides over axes of the given sizes.
    pub(crate) fn new(ty: Type, sizes: &[usize], strides: Vec<isize>) -> Self {
        let back = strides.iter().zip(sizes).filter(|(stride, _)| **stride < 0);
        let first = back.map(|(stride, size)| stride.unsigned_abs() * (size - 1)).sum();
        let mut next = 1;
        let is_dense = sizes.iter().zip(&strides).rev().all(|(size, stride)| {
            let is_adjacent = *size == 1 || *stride == next;
            next *= *size as isize;
            is_adjacent
        });
        let order = match strides.iter().zip(sizes).all(|(stride, size)| *stride == 0 || *size == 1) {
            true if sizes.iter().any(|size| *size > 1) => Order::Splat,
            _ if is_dense => Order::Dense,
            _ => Order::Strided,
        };
        let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
        for (size, stride) in sizes.iter().zip(&strides).filter(|(size, _)| **size != 1) {
            match axes.last_mut() {
                Some(outer) if outer.stride == stride * *size as isize => {
                    *outer = Axis { size: outer.size * size, stride: *stride };
                }
                _ => axes.push(Axis { size: *size, stride: *stride }),
            }
        }
        let period = axes.iter().skip_while(|axis| axis.stride == 0).map(|axis| axis.size).product();
        Stream { ty, first, strides: strides.into(), order, axes, period }
    }
}

/// The pairs of streams that may share memory.
#[derive(Clone, Debug)]
pub(crate) enum Sharing {
    /// Any two streams.
    Any,
    /// Only these: a stored stream and a loaded one.
    Pairs(Arc<[(usize, usize)]>),
}

impl Sharing {
    /// Returns `true` if a stored and a loaded stream share no memory.
    pub(crate) fn are_apart(&self, stored: usize, loaded: usize) -> bool {
        match self {
            Sharing::Any => false,
            Sharing::Pairs(pairs) => !pairs.contains(&(stored, loaded)),
        }
    }
}

/// The placement of a body's streams in memory.
pub(crate) struct Placement<'f> {
    pub(crate) streams: &'f [Stream],
    pub(crate) is_padded: bool,
    pub(crate) sharing: &'f Sharing,
}

impl Placement<'_> {
    /// Returns the offset of the element of a stream that all lanes use, or `None` if each lane has its own element.
    pub(crate) fn single(&self, stream: usize) -> Option<usize> {
        let Stream { order, first, .. } = self.streams[stream];
        (order == Order::Splat).then_some(first)
    }

    /// Returns `true` if steps read the lanes of a stream where they are, because they are adjacent in memory.
    pub(crate) fn is_in_place(&self, stream: usize) -> bool {
        self.streams[stream].is_in_place(self.is_padded)
    }

    /// Returns `true` if steps can write to a stream, because its lanes are adjacent in memory.
    pub(crate) fn is_dense(&self, stream: usize) -> bool {
        !self.is_padded && self.streams[stream].order == Order::Dense
    }
}

/// The rows of an iteration space whose streams, apart from those that use a single element, all have the same strides
/// and only small gaps between their rows. The body then runs on the gaps, too, as if they were lanes, because it need
/// not copy the rows of such streams to tiles. It stores only the lanes of the rows.
#[derive(Clone, Debug)]
pub(crate) struct Padding {
    /// The number of lanes, including those in the gaps.
    pub(crate) lanes: usize,
    /// The number of lanes in a row.
    pub(crate) width: usize,
    /// The first lane of each row.
    pub(crate) rows: Vec<usize>,
}

impl Padding {
    /// The maximum number of lanes, including those in the gaps, per lane in a row.
    const MAX_LANES: f64 = 1.25;
    /// The minimum number of lanes in a row. Rows are stored one by one, which would take longer for shorter rows.
    const MIN_WIDTH: usize = 16;

    /// Returns the padding of an iteration space, or `None` if the streams have different strides, no gaps, or large
    /// gaps.
    pub(crate) fn find(sizes: &[usize], streams: &[Stream]) -> Option<Self> {
        let (width, outer) = sizes.split_last().filter(|(width, _)| **width >= Self::MIN_WIDTH)?;
        let mut padded = streams.iter().filter(|stream| stream.order != Order::Splat);
        let Stream { strides, order, .. } = padded.next()?;
        let is_same = |other: &Stream| other.strides == *strides;
        if *order != Order::Strided || strides.last() != Some(&1) || !padded.all(is_same) {
            return None;
        }
        let strides: Option<SmallVec<[usize; 4]>> =
            strides.iter().map(|stride| usize::try_from(*stride).ok()).collect();
        let strides = strides?;
        let reach = outer.iter().zip(&strides).map(|(size, stride)| stride * (size.max(&1) - 1));
        let lanes = reach.sum::<usize>() + width;
        if lanes as f64 > Self::MAX_LANES * sizes.iter().product::<usize>() as f64 {
            return None;
        }
        let mut rows = vec![0];
        for (size, stride) in outer.iter().zip(strides) {
            rows = rows.iter().flat_map(|row| (0..*size).map(move |index| row + index * stride)).collect();
        }
        let are_apart = rows.windows(2).all(|rows| rows[0] + width <= rows[1]);
        are_apart.then_some(Padding { lanes, width: *width, rows })
    }

    /// Stores a block of lanes that begins at lane `start`. `size` is the number of bytes per element.
    pub(crate) fn store(&self, start: usize, from: &[u8], data: &mut [u8], size: usize) {
        let end = start + from.len() / size;
        let first = self.rows.partition_point(|row| row + self.width <= start);
        for row in self.rows[first..].iter().take_while(|row| **row < end) {
            let (first, last) = ((*row).max(start), (row + self.width).min(end));
            data[first * size..last * size].copy_from_slice(&from[(first - start) * size..(last - start) * size]);
        }
    }
}
