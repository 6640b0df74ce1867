//! Bodies with their iteration spaces, and the memory layout of their streams.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::code::{Code, Source};
use crate::ir::{Body, Node, Op, Type};

/// A body with its iteration space: the sizes of the axes over which it runs, and the strides of each stream along
/// these axes.
#[derive(Clone, Debug)]
pub struct Fused {
    pub(crate) body: Body,
    pub(crate) code: Code,
    /// The sizes of the axes, outermost first.
    pub(crate) sizes: SmallVec<[usize; 4]>,
    pub(crate) streams: Vec<Stream>,
    /// The types of the body's values, each once.
    types: SmallVec<[Type; 4]>,
    pub(crate) padding: Option<Padding>,
    sharing: Sharing,
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
    streams: &'f [Stream],
    is_padded: bool,
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
    fn find(sizes: &[usize], streams: &[Stream]) -> Option<Self> {
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

/// The memory of a body's streams. Each slice starts at the lowest element that the body accesses in the stream.
pub trait Streams {
    /// Returns the bytes of a stream that the body loads.
    fn read(&self, stream: usize) -> &[u8];
    /// Returns the bytes of a stream that the body stores to.
    fn write(&mut self, stream: usize) -> &mut [u8];
    /// Calls `run` with the bytes of a stream to write, and the bytes of up to four streams to read, which do not share
    /// memory with it. The slices of missing streams are empty.
    fn write_beside(&mut self, stream: usize, read: [Option<usize>; 4], run: impl FnOnce(&mut [u8], &[&[u8]; 4]));
}

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

impl Fused {
    /// Creates a body that runs over axes of the given sizes. `strides` holds, for each stream, its stride along each
    /// axis, in elements. A stream starts at the lowest address that the body accesses in it, even if an axis is
    /// reversed. Any stored stream may share memory with a loaded one: see [`with_apart`](Fused::with_apart).
    pub fn new(body: Body, sizes: &[usize], strides: Vec<Vec<isize>>) -> Self {
        Fused::with_sharing(body, sizes, strides, Sharing::Any)
    }

    /// Creates a body like [`Fused::new`], and declares which streams are apart: `are_apart` returns `true` if a stored
    /// stream (its first argument) and a loaded stream (its second one) share no memory. Such a body stores more of its
    /// results without a copy.
    pub fn with_apart(
        body: Body,
        sizes: &[usize],
        strides: Vec<Vec<isize>>,
        are_apart: impl Fn(usize, usize) -> bool,
    ) -> Self {
        let loads = || body.nodes().iter().filter_map(|node| if let Op::Load(at) = node.op { Some(at) } else { None });
        let stores = body.stores().iter().map(|(_, stream)| *stream);
        let pairs = stores.flat_map(|stored| loads().map(move |loaded| (stored, loaded)));
        let pairs = pairs.filter(|(stored, loaded)| !are_apart(*stored, *loaded)).collect();
        Fused::with_sharing(body, sizes, strides, Sharing::Pairs(pairs))
    }

    fn with_sharing(body: Body, sizes: &[usize], strides: Vec<Vec<isize>>, sharing: Sharing) -> Self {
        let streams = strides.into_iter().enumerate().map(|(index, strides)| {
            let is_load = |node: &&Node| node.op == Op::Load(index);
            let stored = || body.stores().iter().find(|(_, stream)| *stream == index).map(|(value, _)| *value);
            let loaded = body.nodes().iter().find(is_load).map(|node| node.ty);
            let ty = loaded.or_else(|| Some(body.nodes()[stored()?].ty)).expect("a stream is loaded or stored");
            Stream::new(ty, sizes, strides)
        });
        let streams: Vec<Stream> = streams.collect();
        let mut types: SmallVec<[Type; 4]> = SmallVec::new();
        for node in body.nodes() {
            if !types.contains(&node.ty) {
                types.push(node.ty);
            }
        }
        let padding = Padding::find(sizes, &streams);
        let code = Code::new(&body, &Placement { streams: &streams, is_padded: padding.is_some(), sharing: &sharing });
        Fused { code, sizes: sizes.into(), streams, types, padding, sharing, body }
    }

    /// Returns the body restricted to the indices `start..end` of the outermost axis. Also returns, for each stream,
    /// the number of elements from the start of the stream in `self` to its start in the restricted body.
    pub fn part(&self, start: usize, end: usize) -> (Fused, Vec<usize>) {
        let (sizes, whole) = ([&[end - start], &self.sizes[1..]].concat(), self.sizes[0]);
        // A stream that is reversed along the outermost axis starts at the last index of that axis.
        let offset = |stream: &Stream| match stream.strides[0] {
            stride if stride < 0 => stride.unsigned_abs() * (whole - end),
            stride => stride.unsigned_abs() * start,
        };
        let strides = self.streams.iter().map(|stream| stream.strides.to_vec()).collect();
        let part = Fused::with_sharing(self.body.clone(), &sizes, strides, self.sharing.clone());
        (part, self.streams.iter().map(offset).collect())
    }

    /// Returns the body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Returns the sizes of the axes, outermost first.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Returns the number of lanes.
    pub fn lanes(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Returns `true` if steps read the lanes of a stream where they are, because they are adjacent in memory.
    #[inline(always)]
    pub(crate) fn is_in_place(&self, stream: usize) -> bool {
        self.streams[stream].is_in_place(self.padding.is_some())
    }

    /// Returns the number of streams.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns the type of a stream's elements.
    pub fn ty(&self, stream: usize) -> Type {
        self.streams[stream].ty
    }

    /// Returns the size in bytes of the body's largest element. `float` is the size of a float.
    pub(crate) fn element(&self, float: usize) -> usize {
        self.types.iter().map(|ty| ty.size(float)).max().unwrap_or(1)
    }

    /// Returns the length of the range that the body accesses in a stream, in elements: the distance from the lowest to
    /// the highest offset, plus one.
    pub fn span(&self, stream: usize) -> usize {
        let steps = self.streams[stream].strides.iter().zip(&self.sizes);
        1 + steps.map(|(stride, size)| stride.unsigned_abs() * (size - 1)).sum::<usize>()
    }

    /// Returns the offset of a lane in a stream, in elements. `index` holds an index for each axis.
    pub fn offset(&self, stream: usize, index: &[usize]) -> usize {
        let Stream { first, strides, .. } = &self.streams[stream];
        let moved: isize = strides.iter().zip(index).map(|(stride, index)| stride * *index as isize).sum();
        first.wrapping_add_signed(moved)
    }

    /// Returns `true` if the strides prove that no two lanes of a stream share an element.
    pub fn is_injective(&self, stream: usize) -> bool {
        let strides = self.streams[stream].strides.iter().zip(&self.sizes).filter(|(_, size)| **size > 1);
        let mut steps: Vec<(usize, usize)> = strides.map(|(stride, size)| (stride.unsigned_abs(), *size)).collect();
        steps.sort_unstable();
        let mut reach = 0;
        steps.into_iter().all(|(stride, size)| {
            let is_beyond = stride > reach;
            reach += stride * (size - 1);
            is_beyond
        })
    }

    /// Returns `true` if [`with_apart`](Fused::with_apart) declared that a stored stream shares no memory with a loaded
    /// stream.
    pub fn are_apart(&self, stored: usize, loaded: usize) -> bool {
        self.sharing.are_apart(stored, loaded)
    }

    /// Returns the streams whose results are computed in a tile and then copied, because steps load memory that the
    /// stream may share.
    pub fn copied_stores(&self) -> impl Iterator<Item = usize> {
        let stores = self.code.stores.iter().filter(|(source, _)| matches!(source, Source::Tile(_)));
        stores.map(|(_, stream)| *stream).filter(|stream| self.streams[*stream].order == Order::Dense)
    }

    /// Returns `true` if the two streams have the same strides.
    pub fn is_parallel(&self, one: usize, other: usize) -> bool {
        self.streams[one].strides == self.streams[other].strides
    }
}

impl Stream {
    /// Returns `true` if steps read the lanes where they are. `is_padded` is `true` if the body also runs on the gaps
    /// between rows.
    #[inline(always)]
    fn is_in_place(&self, is_padded: bool) -> bool {
        match self.order {
            Order::Splat => false,
            Order::Dense => true,
            Order::Strided => is_padded,
        }
    }

    fn new(ty: Type, sizes: &[usize], strides: Vec<isize>) -> Self {
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
