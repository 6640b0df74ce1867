//! Runs bodies block by block, on tiles that fit into the L1 cache.

use std::cell::RefCell;

use pulp::Simd;
use pulp::bytemuck::{cast_slice, cast_slice_mut};

use crate::block::Block;
use crate::code::{Constant, Load, Operand, Place, Source, Step};
use crate::fused::{Fused, Streams};
use crate::integer::Element;
use crate::kernels::math::MathTable;
use crate::machine::{Machine, Work};
use crate::pair_kernels::run_pair;
use crate::placement::Order;
use crate::single;
use crate::typed;

/// The number of bytes in a tile. Larger tiles would not stay in the L1 cache until they are read, and smaller ones
/// would spend a larger part of the time on the fixed cost of a step, about 15 ns.
const TILE_BYTES: usize = 4096;

/// The number of words of 64 bits in a cache line.
const LINE_WORDS: usize = 8;

/// The memory for the values that a body computes. All bodies that run on the same `Tiles` share this memory.
#[derive(Debug, Default)]
pub struct Tiles {
    memory: Vec<u64>,
}

/// The tiles of a running body, one after the other. Each begins at a cache line, because a vector that crosses a line
/// takes two accesses.
struct Slots<'t> {
    memory: &'t mut [u64],
    /// The distance between two tiles in words.
    stride: usize,
}

/// The tiles of a running body except one, which is being written.
struct OtherSlots<'t> {
    before: &'t [u64],
    after: &'t [u64],
    written: usize,
    stride: usize,
}

impl<'t> Slots<'t> {
    /// Returns `count` tiles of at least `bytes` bytes in `memory`, which grows if it is too small.
    fn new(memory: &'t mut Vec<u64>, count: usize, bytes: usize) -> Self {
        // Add a line, so that the same lane of two tiles is never at a distance that is a multiple of the page size.
        // The processor would mistake a load for one that depends on an earlier store to the other tile.
        let stride = bytes.div_ceil(size_of::<u64>()).next_multiple_of(LINE_WORDS) + LINE_WORDS;
        if memory.len() < count * stride + LINE_WORDS {
            memory.resize(count * stride + LINE_WORDS, 0);
        }
        let skipped = memory.as_ptr().align_offset(LINE_WORDS * size_of::<u64>());
        Slots { memory: &mut memory[skipped..], stride }
    }

    #[inline(always)]
    fn tile(&self, tile: usize) -> &[u8] {
        cast_slice(&self.memory[tile * self.stride..][..self.stride])
    }

    #[inline(always)]
    fn tile_mut(&mut self, tile: usize) -> &mut [u8] {
        cast_slice_mut(&mut self.memory[tile * self.stride..][..self.stride])
    }

    /// Returns a tile to write, and the other tiles.
    #[inline(always)]
    fn split(&mut self, written: usize) -> (&mut [u8], OtherSlots<'_>) {
        let (before, rest) = self.memory.split_at_mut(written * self.stride);
        let (tile, after) = rest.split_at_mut(self.stride);
        (cast_slice_mut(tile), OtherSlots { before, after, written, stride: self.stride })
    }
}

impl<'t> OtherSlots<'t> {
    #[inline(always)]
    fn tile(&self, tile: usize) -> &'t [u8] {
        let words = match tile < self.written {
            true => &self.before[tile * self.stride..],
            false => &self.after[(tile - self.written - 1) * self.stride..],
        };
        cast_slice(&words[..self.stride])
    }
}

thread_local! {
    static OF_THREAD: RefCell<Tiles> = RefCell::default();
}

/// Calls `run` with the tiles of this thread.
pub fn with_tiles<R>(run: impl FnOnce(&mut Tiles) -> R) -> R {
    OF_THREAD.with_borrow_mut(run)
}

impl Tiles {
    /// Runs a body on all its lanes, with the instruction set of `machine`.
    pub fn run_on<T: MathTable + Item>(&mut self, machine: Machine, fused: &Fused, streams: &mut impl Streams) {
        struct Run<'r, T, M> {
            tiles: &'r mut Tiles,
            fused: &'r Fused,
            streams: &'r mut M,
            float: std::marker::PhantomData<T>,
        }
        impl<T: MathTable + Item, M: Streams> Work for Run<'_, T, M> {
            type Output = ();

            fn run<S: Simd>(self, simd: S) {
                self.tiles.run::<T, S>(simd, self.fused, self.streams);
            }
        }
        machine.run(Run { tiles: self, fused, streams, float: std::marker::PhantomData::<T> });
    }

    /// Runs a body on all its lanes, with the instruction set `S`.
    pub fn run<T: MathTable + Item, S: Simd>(&mut self, simd: S, fused: &Fused, streams: &mut impl Streams) {
        let Fused { code, streams: paths, .. } = fused;
        let lanes = fused.padding.as_ref().map_or(fused.lanes(), |padding| padding.lanes);
        if lanes == 0 {
            return;
        }
        let is_in_place = |stream: usize| fused.is_in_place(stream);
        if single::is_faster(fused) {
            return single::run::<T, S>(simd, fused, &mut self.memory, streams);
        }
        let element = fused.element(size_of::<T>());
        let block = TILE_BYTES / element;
        let width = lanes.min(block);
        let mut slots = Slots::new(&mut self.memory, code.tiles, width * element);
        for Constant { tile, op, ty, is_whole } in &code.constants {
            let lanes = if *is_whole { width } else { 1 };
            typed::fill::<T>(*op, *ty, &mut slots.tile_mut(*tile)[..lanes * ty.size(size_of::<T>())]);
        }
        let size = |stream: usize| paths[stream].ty.size(size_of::<T>());
        for start in (0..lanes).step_by(block) {
            let count = (lanes - start).min(block);
            for Load { stream, tile, is_whole } in &code.loads {
                let path = &paths[*stream];
                let is_loaded = match path.order {
                    _ if is_in_place(*stream) => false,
                    Order::Dense => false,
                    // Steps read the element where it is.
                    Order::Splat if !is_whole => false,
                    // The elements of the stream are the same in every block, so they are loaded only for the first
                    // block.
                    Order::Splat | Order::Strided if block.is_multiple_of(path.period) => start == 0,
                    Order::Splat | Order::Strided => true,
                };
                if is_loaded {
                    let to = &mut slots.tile_mut(*tile)[..count * size(*stream)];
                    let lanes = Block { stream: path, start, count };
                    match size(*stream) {
                        8 => lanes.load::<u64>(cast_slice_mut(to), cast_slice(streams.read(*stream))),
                        4 => lanes.load::<u32>(cast_slice_mut(to), cast_slice(streams.read(*stream))),
                        _ => lanes.load::<u8>(to, streams.read(*stream)),
                    }
                }
            }
            for step in &code.steps {
                run_step::<T, S>(simd, step, (&mut slots, streams), (start, count));
            }
            // A loaded value that is stored unchanged is first copied to its tile, because another store may overwrite
            // its stream.
            for (source, _) in &code.stores {
                if let Source::Loaded(load) = source {
                    let Load { stream: from, tile, .. } = code.loads[*load];
                    if is_in_place(from) {
                        let to = &mut slots.tile_mut(tile)[..count * size(from)];
                        to.copy_from_slice(&streams.read(from)[start * size(from)..][..count * size(from)]);
                    }
                }
            }
            for (source, stream) in &code.stores {
                let path = &paths[*stream];
                let len = count * size(*stream);
                let tile = match source {
                    Source::Tile(tile) => *tile,
                    Source::Constant(constant) => code.constants[*constant].tile,
                    Source::Loaded(load) => code.loads[*load].tile,
                    Source::Stored(_) => unreachable!("a value that is stored twice has a tile"),
                };
                let from = &slots.tile(tile)[..len];
                if let Some(padding) = &fused.padding {
                    padding.store(start, from, streams.write(*stream), size(*stream));
                    continue;
                }
                let lanes = Block { stream: path, start, count };
                match size(*stream) {
                    8 => lanes.store::<u64>(cast_slice(from), cast_slice_mut(streams.write(*stream))),
                    4 => lanes.store::<u32>(cast_slice(from), cast_slice_mut(streams.write(*stream))),
                    _ => lanes.store::<u8>(from, streams.write(*stream)),
                }
            }
        }
    }
}

impl Operand {
    /// Returns the bytes of the operand in the block of `count` lanes that begins at lane `start`, given all bytes of
    /// its place. `float` is the size of a float.
    #[inline(always)]
    fn lanes<'b>(&self, bytes: &'b [u8], (start, count): (usize, usize), float: usize) -> &'b [u8] {
        let size = self.ty.size(float);
        let (first, count) = match (self.single, self.place) {
            (Some(first), _) => (first, 1),
            (None, Place::Tile(_)) => (0, count),
            (None, Place::Stream(_)) => (start, count),
        };
        &bytes[first * size..][..count * size]
    }
}

/// Runs a step on `count` lanes, beginning at lane `start`.
#[inline(always)]
fn run_step<T: MathTable + Item, S: Simd>(
    simd: S,
    step: &Step,
    (slots, streams): (&mut Slots<'_>, &mut impl Streams),
    (start, count): (usize, usize),
) {
    let float = size_of::<T>();
    match step.to {
        Place::Tile(tile) => {
            let (to, others) = slots.split(tile);
            let mut from = no_operands();
            for (from, operand) in from.iter_mut().zip(&step.from) {
                let bytes = match operand.place {
                    Place::Tile(tile) => others.tile(tile),
                    Place::Stream(stream) => streams.read(stream),
                };
                *from = operand.lanes(bytes, (start, count), float);
            }
            compute::<T, S>(simd, step, to, &from, count);
        }
        Place::Stream(to) => run_step_to_stream::<T, S>(simd, step, to, (slots, streams), (start, count)),
    }
}

/// Runs a step whose destination is a stream.
#[inline(never)]
fn run_step_to_stream<T: MathTable + Item, S: Simd>(
    simd: S,
    step: &Step,
    to: usize,
    (slots, streams): (&Slots<'_>, &mut impl Streams),
    (start, count): (usize, usize),
) {
    let float = size_of::<T>();
    let mut read = [None; 4];
    for (read, operand) in read.iter_mut().zip(&step.from) {
        if let Place::Stream(stream) = operand.place {
            *read = Some(stream);
        }
    }
    streams.write_beside(to, read, |to, beside| {
        let mut from = no_operands();
        for ((from, operand), bytes) in from.iter_mut().zip(&step.from).zip(beside) {
            let bytes = match operand.place {
                Place::Tile(tile) => slots.tile(tile),
                Place::Stream(_) => bytes,
            };
            *from = operand.lanes(bytes, (start, count), float);
        }
        compute::<T, S>(simd, step, &mut to[start * step.types[0].size(float)..], &from, count);
    });
}

/// Returns empty slices for the operands that a step lacks. Even an empty slice must be aligned.
#[inline(always)]
fn no_operands() -> [&'static [u8]; 4] {
    [cast_slice::<u64, u8>(&[]); 4]
}

/// Computes the result of a step in `count` lanes.
#[inline(always)]
fn compute<T: MathTable + Item, S: Simd>(simd: S, step: &Step, to: &mut [u8], from: &[&[u8]; 4], count: usize) {
    let size = step.types[0].size(size_of::<T>());
    let lanes = if step.is_single { 1 } else { count };
    let result = &mut to[..lanes * size];
    match step.second {
        Some(second) => run_pair::<T, S>(simd, step.op, second, step.types, result, from),
        None => typed::run::<T, S>(simd, step.op, step.types, result, from),
    }
    if step.is_single {
        typed::spread(&mut to[..count * size], size);
    }
}

/// The float type of a program: `f32` or `f64`.
pub trait Item: Element {}
impl Item for f32 {}
impl Item for f64 {}
