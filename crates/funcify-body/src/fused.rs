//! Bodies with their iteration spaces, and the memory layout of their streams.

use smallvec::SmallVec;

use crate::code::{Code, Source};
use crate::ir::{Body, Node, Op, Type};
use crate::placement::{Order, Padding, Placement, Sharing, Stream};

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
