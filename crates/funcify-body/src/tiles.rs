//! Runs bodies block by block, on tiles that fit into the L1 cache.

use std::cell::RefCell;

use pulp::Simd;
use pulp::bytemuck::{cast_slice, cast_slice_mut};

use crate::block::Block;
use crate::code::{Source, Step};
use crate::fused::{Fused, Order};
use crate::integer::Element;
use crate::ir::Op;
use crate::kernels::math::MathTable;
use crate::machine::{Machine, Work};
use crate::typed;

/// The maximum number of lanes in a block.
const BLOCK: usize = 1024;
/// The maximum number of lanes in a block if tiles of [`BLOCK`] lanes would not fit into the L1 cache.
const SMALL_BLOCK: usize = 256;

/// The maximum total size of a body's tiles, in bytes, at which they fit into the L1 cache together with its streams.
const TILES_IN_CACHE: usize = 24 << 10;

/// The memory of a body's streams. Each slice starts at the lowest element of the stream that the body accesses.
pub trait Streams {
    /// Returns the bytes of a stream that the body loads.
    fn read(&self, stream: usize) -> &[u8];
    /// Returns the bytes of a stream that the body stores to.
    fn write(&mut self, stream: usize) -> &mut [u8];
}

/// The memory for the values that a body computes. All bodies that run on the same `Tiles` share this memory.
#[derive(Debug, Default)]
pub struct Tiles {
    tiles: Vec<Vec<u64>>,
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
        let lanes = fused.lanes();
        if lanes == 0 {
            return;
        }
        while self.tiles.len() < code.tiles {
            self.tiles.push(vec![0; BLOCK]);
        }
        let is_large = || code.tiles * BLOCK * code.element(size_of::<T>()) > TILES_IN_CACHE;
        let block = if lanes > SMALL_BLOCK && is_large() { SMALL_BLOCK } else { BLOCK };
        let width = lanes.min(block);
        for (tile, op, ty) in &code.constants {
            typed::fill::<T>(*op, *ty, &mut bytes_mut(&mut self.tiles[*tile])[..width * ty.size(size_of::<T>())]);
        }
        let size = |stream: usize| paths[stream].ty.size(size_of::<T>());
        for start in (0..lanes).step_by(block) {
            let count = (lanes - start).min(block);
            for (stream, tile) in &code.loads {
                let path = &paths[*stream];
                let is_loaded = match path.order {
                    Order::Dense => false,
                    // The elements of the stream are the same in every block, so they are loaded only for the first
                    // block.
                    Order::Splat | Order::Strided if block.is_multiple_of(path.period) => start == 0,
                    Order::Splat | Order::Strided => true,
                };
                if is_loaded {
                    let to = &mut bytes_mut(&mut self.tiles[*tile])[..count * size(*stream)];
                    let lanes = Block { stream: path, start, count };
                    match size(*stream) {
                        8 => lanes.load::<u64>(cast_slice_mut(to), cast_slice(streams.read(*stream))),
                        4 => lanes.load::<u32>(cast_slice_mut(to), cast_slice(streams.read(*stream))),
                        _ => lanes.load::<u8>(to, streams.read(*stream)),
                    }
                }
            }
            for step in &code.steps {
                self.step::<T, S>(simd, step, fused, streams, (start, count));
            }
            // A loaded value that is stored unchanged is first copied to its tile, because another store may overwrite
            // its stream.
            for (source, _) in &code.stores {
                if let Source::Loaded(load) = source {
                    let (from, tile) = code.loads[*load];
                    if paths[from].order == Order::Dense {
                        let to = &mut bytes_mut(&mut self.tiles[tile])[..count * size(from)];
                        to.copy_from_slice(&streams.read(from)[start * size(from)..][..count * size(from)]);
                    }
                }
            }
            for (source, stream) in &code.stores {
                let path = &paths[*stream];
                let len = count * size(*stream);
                let tile = match source {
                    Source::Tile(tile) => *tile,
                    Source::Loaded(load) => code.loads[*load].1,
                };
                let from = &bytes(&self.tiles[tile])[..len];
                let lanes = Block { stream: path, start, count };
                match size(*stream) {
                    8 => lanes.store::<u64>(cast_slice(from), cast_slice_mut(streams.write(*stream))),
                    4 => lanes.store::<u32>(cast_slice(from), cast_slice_mut(streams.write(*stream))),
                    _ => lanes.store::<u8>(from, streams.write(*stream)),
                }
            }
        }
    }

    fn step<T: MathTable + Item, S: Simd>(
        &mut self,
        simd: S,
        step: &Step,
        fused: &Fused,
        streams: &impl Streams,
        (start, count): (usize, usize),
    ) {
        let Fused { code, streams: paths, .. } = fused;
        let mut to = std::mem::take(&mut self.tiles[step.to]);
        // Create the empty slices from `u64` slices, because even an empty slice must be aligned.
        let mut from: [&[u8]; 3] = [bytes(&[]); 3];
        for (from, source) in from.iter_mut().zip(&step.from) {
            *from = match source {
                Source::Tile(tile) => bytes(&self.tiles[*tile]),
                Source::Loaded(load) => match code.loads[*load] {
                    (stream, _) if paths[stream].order == Order::Dense => {
                        &streams.read(stream)[start * paths[stream].ty.size(size_of::<T>())..]
                    }
                    (_, tile) => bytes(&self.tiles[tile]),
                },
            };
        }
        let [ty, of] = step.types;
        let float = size_of::<T>();
        let mut sizes = [of.size(float); 3];
        if step.op == Op::Select {
            sizes[0] = 1;
        }
        for (from, size) in from.iter_mut().zip(sizes) {
            *from = &from[..(count * size).min(from.len())];
        }
        typed::run::<T, S>(simd, step.op, step.types, &mut bytes_mut(&mut to)[..count * ty.size(float)], &from);
        self.tiles[step.to] = to;
    }
}

/// The float type of a program: `f32` or `f64`.
pub trait Item: Element {}
impl Item for f32 {}
impl Item for f64 {}

#[inline(always)]
fn bytes(tile: &[u64]) -> &[u8] {
    cast_slice(tile)
}

#[inline(always)]
fn bytes_mut(tile: &mut [u64]) -> &mut [u8] {
    cast_slice_mut(tile)
}
