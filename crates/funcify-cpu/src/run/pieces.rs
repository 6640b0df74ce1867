//! Divides the lanes of a fused body into pieces, and runs the pieces on several threads. The lanes are independent, so
//! the number of threads does not affect the results.

use funcify_body::{Fused, Item, Op, Streams, Type, with_tiles};
use pulp::Simd;
use pulp::bytemuck::{Pod, cast_slice, cast_slice_mut};
use smallvec::SmallVec;

use crate::kernels::math::MathTable;
use crate::threads::{MAX_PIECES, MIN_NS_PER_PIECE};
use crate::views::{Range, View};

/// The estimated time per lane of an op, in nanoseconds.
const NS_PER_OP: f64 = 0.1;
/// The estimated time per lane of a unary function of floats, in nanoseconds.
const NS_PER_FUNCTION: f64 = 0.5;
/// A number of lanes that fills whole cache lines, for every element type. A body with only one axis is divided at
/// multiples of this number.
const LANES_PER_LINE: usize = 64;
/// The pieces of a fused body.
#[derive(Debug)]
pub(super) struct Pieces(Vec<Piece>);

#[derive(Debug)]
struct Piece {
    fused: Fused,
    /// The offset of this piece within each stream of the whole body, in elements.
    offsets: Vec<usize>,
}

/// The memory of a piece: the bytes of its streams.
struct Memory<'m> {
    /// The bytes of each stream that is only loaded.
    reads: SmallVec<[&'m [u8]; 16]>,
    /// The bytes of the stored streams.
    writes: SmallVec<[&'m mut [u8]; 8]>,
    /// For each stream, its index in `writes` if the body stores the stream, or loads the stream from memory that the
    /// body overwrites. The index is `None` if the stream is in `reads`.
    written: SmallVec<[Option<usize>; 16]>,
}

impl Streams for Memory<'_> {
    fn read(&self, stream: usize) -> &[u8] {
        match self.written[stream] {
            Some(index) => self.writes[index],
            None => self.reads[stream],
        }
    }

    fn write(&mut self, stream: usize) -> &mut [u8] {
        let index = self.written[stream].expect("a stored stream is among the written ones");
        self.writes[index]
    }

    fn write_beside(&mut self, stream: usize, read: [Option<usize>; 4], run: impl FnOnce(&mut [u8], &[&[u8]; 4])) {
        let index = self.written[stream].expect("a stored stream is among the written ones");
        let to = std::mem::take(&mut self.writes[index]);
        run(to, &read.map(|read| read.map_or(&[][..], |read| self.read(read))));
        self.writes[index] = to;
    }
}

/// The range of a stored stream in one piece.
#[derive(Clone, Copy)]
struct Stored {
    piece: usize,
    stream: usize,
    start: usize,
    end: usize,
}

/// The location and type of each stream of a body. The location is a region and a range, in items of the region's view.
#[derive(Clone, Copy)]
pub(super) struct Places<'p> {
    pub(super) ranges: &'p [(usize, Range)],
    pub(super) types: &'p [Type],
}

impl Pieces {
    /// Divides a body along its outermost axis. Returns `None` if the body is too small, or if the thread pool has only
    /// one thread.
    pub(super) fn of(fused: &Fused) -> Option<Self> {
        let pieces = (nanoseconds(fused) / MIN_NS_PER_PIECE) as usize;
        let size = *fused.sizes().first()?;
        let unit = if fused.sizes().len() == 1 { LANES_PER_LINE } else { 1 };
        // Create at most one piece per thread, so that the cache of a thread is likely to hold the data that the thread
        // wrote earlier.
        let pieces = pieces.min(rayon::current_num_threads()).min(MAX_PIECES).min(size / unit);
        if pieces < 2 {
            return None;
        }
        let bound = |piece: usize| if piece == pieces { size } else { size / unit * piece / pieces * unit };
        let piece = |piece: usize| {
            let (fused, offsets) = fused.part(bound(piece), bound(piece + 1));
            Piece { fused, offsets }
        };
        Some(Pieces((0..pieces).map(piece).collect()))
    }

    /// Runs all pieces. Returns `false`, without running any of them, if the pieces cannot borrow their memory
    /// separately.
    pub(super) fn run<T: MathTable + Item, S: Simd>(
        &self,
        simd: S,
        views: &mut [View<'_, T>],
        integers: &mut [View<'_, u8>],
        places: Places<'_>,
    ) -> bool {
        let streams = places.types.len();
        let memory = |_: &Piece| Memory {
            reads: SmallVec::from_elem(&[][..], streams),
            writes: SmallVec::new(),
            written: SmallVec::from_elem(None, streams),
        };
        let mut memories: SmallVec<[Memory<'_>; MAX_PIECES]> = self.0.iter().map(memory).collect();
        let are_apart = self.borrow(views, places, (size_of::<T>(), true), &mut memories)
            && self.borrow(integers, places, (size_of::<T>(), false), &mut memories);
        if are_apart {
            run_all::<T, S>(simd, &self.0, &mut memories);
        }
        are_apart
    }

    /// Borrows the memory of the streams in regions of floats if `are_floats` is set, and in regions of integers
    /// otherwise. Returns `false` if the pieces cannot borrow their memory separately.
    fn borrow<'m, E: Pod>(
        &self,
        views: &'m mut [View<'_, E>],
        places: Places<'_>,
        (float, are_floats): (usize, bool),
        memories: &mut [Memory<'m>],
    ) -> bool {
        let is_own = |stream: &usize| (places.types[*stream] == Type::Float) == are_floats;
        // The range of a stream in one piece, in items of the view.
        let range = |piece: usize, stream: usize| {
            let Piece { fused, offsets } = &self.0[piece];
            let items = places.types[stream].size(float) / size_of::<E>();
            let start = places.ranges[stream].1.at + offsets[stream] * items;
            [start, start + fused.span(stream) * items]
        };
        let stores = || self.0[0].fused.body().stores().iter().map(|(_, stream)| *stream).filter(is_own);
        let is_stored = |stream: usize| stores().any(|stored| stored == stream);
        for (region, view) in views.iter_mut().enumerate() {
            let is_here = |stream: &usize| is_own(stream) && places.ranges[*stream].0 == region;
            let mut loads = (0..places.types.len()).filter(is_here).filter(|stream| !is_stored(*stream)).peekable();
            let mut stored: SmallVec<[Stored; 32]> = SmallVec::new();
            for stream in stores().filter(is_here) {
                for piece in 0..self.0.len() {
                    let [start, end] = range(piece, stream);
                    stored.push(Stored { piece, stream, start, end });
                }
            }
            if stored.is_empty() && loads.peek().is_none() {
                continue;
            }
            stored.sort_unstable_by_key(|stored| stored.start);
            if stored.windows(2).any(|pair| pair[0].end > pair[1].start) {
                return false;
            }
            // Cut the region at each stored range. All pieces may read the gaps between these ranges.
            let mut gaps: SmallVec<[(usize, &'m [E]); 32]> = SmallVec::new();
            match view {
                View::Read(data) if stored.is_empty() => gaps.push((0, data)),
                View::Own(data) => {
                    let (mut rest, mut at): (&'m mut [E], usize) = (data, 0);
                    for Stored { piece, stream, start, end } in &stored {
                        let (gap, others) = rest.split_at_mut(start - at);
                        let (own, others) = others.split_at_mut(end - start);
                        gaps.push((at, gap));
                        memories[*piece].written[*stream] = Some(memories[*piece].writes.len());
                        memories[*piece].writes.push(cast_slice_mut(own));
                        (rest, at) = (others, *end);
                    }
                    gaps.push((at, rest));
                }
                View::Read(_) | View::Columns(_) | View::None => return false,
            }
            for stream in loads {
                for (piece, memory) in memories.iter_mut().enumerate() {
                    let [start, end] = range(piece, stream);
                    let is_same = |stored: &&Stored| (stored.piece, stored.start, stored.end) == (piece, start, end);
                    if let Some(same) = stored.iter().find(is_same) {
                        memory.written[stream] = memory.written[same.stream];
                        continue;
                    }
                    let contains = |(at, gap): &&(usize, &[E])| *at <= start && end <= at + gap.len();
                    let Some((at, gap)) = gaps.iter().find(contains) else { return false };
                    memory.reads[stream] = cast_slice(&gap[start - at..end - at]);
                }
            }
        }
        true
    }
}

/// Runs pieces, dividing them among the threads of the pool.
fn run_all<T: MathTable + Item, S: Simd>(simd: S, pieces: &[Piece], memories: &mut [Memory<'_>]) {
    if let ([piece], [memory]) = (pieces, &mut *memories) {
        return with_tiles(|tiles| tiles.run::<T, S>(simd, &piece.fused, memory));
    }
    let (first, rest) = pieces.split_at(pieces.len() / 2);
    let (own, others) = memories.split_at_mut(first.len());
    rayon::join(|| run_all::<T, S>(simd, first, own), || run_all::<T, S>(simd, rest, others));
}

/// Returns the estimated time of a body, in nanoseconds.
pub(super) fn nanoseconds(fused: &Fused) -> f64 {
    let cost = |op: Op| match op {
        Op::Unary(_) => NS_PER_FUNCTION,
        _ => NS_PER_OP,
    };
    fused.lanes() as f64 * fused.body().nodes().iter().map(|node| cost(node.op())).sum::<f64>()
}
