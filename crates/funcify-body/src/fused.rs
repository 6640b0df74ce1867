//! Bodies with their iteration spaces, and the memory layout of their streams.

use smallvec::SmallVec;

use crate::code::Code;
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
}

/// The memory of a body's streams. Each slice starts at the lowest element that the body accesses in the stream.
pub trait Streams {
    /// Returns the bytes of a stream that the body loads.
    fn read(&self, stream: usize) -> &[u8];
    /// Returns the bytes of a stream that the body stores to.
    fn write(&mut self, stream: usize) -> &mut [u8];
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
    /// reversed.
    pub fn new(body: Body, sizes: &[usize], strides: Vec<Vec<isize>>) -> Self {
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
        Fused { code: Code::new(&body), sizes: sizes.into(), streams, types, body }
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
        (Fused::new(self.body.clone(), &sizes, strides), self.streams.iter().map(offset).collect())
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

    /// Returns the number of elements from the lowest to the highest element, inclusive, that the body accesses in a
    /// stream.
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

    /// Returns `true` if the two streams have the same strides.
    pub fn is_parallel(&self, one: usize, other: usize) -> bool {
        self.streams[one].strides == self.streams[other].strides
    }
}

impl Stream {
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
