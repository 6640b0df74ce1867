//! Runs a fused body on two threads, each on one half of the lanes. The lanes are independent, so the results are those of
//! a single thread.

use funcify_body::{Fused, Item, Op, Streams, Type, with_tiles};
use pulp::Simd;
use pulp::bytemuck::{Pod, cast_slice, cast_slice_mut};
use smallvec::SmallVec;

use crate::kernels::math::MathTable;
use crate::views::{Range, View};

/// The minimum estimated time of a body, in nanoseconds, for which a second thread pays off.
const MIN_NS_FOR_THREADS: f64 = 40_000.0;
/// The estimated time per lane, in nanoseconds: of an op, and of a function of one float.
const NS_PER_OP: f64 = 0.1;
const NS_PER_FUNCTION: f64 = 0.5;
/// The number of lanes to which the first half is rounded if there is only one axis: a whole number of cache lines.
const LANES_PER_LINE: usize = 64;

/// The two halves of a fused body.
#[derive(Debug)]
pub(super) struct Halves([HalfBody; 2]);

#[derive(Debug)]
struct HalfBody {
    fused: Fused,
    /// The offset of each stream from the start of the whole stream, in elements.
    offsets: Vec<usize>,
}

/// The memory of one half: the bytes of its streams.
struct Half<'m> {
    /// The bytes of each stream that is only loaded.
    reads: SmallVec<[&'m [u8]; 8]>,
    /// The bytes of the stored streams.
    writes: SmallVec<[&'m mut [u8]; 4]>,
    /// The index in `writes` of each stream that is stored, or that is loaded from memory that the body overwrites.
    written: SmallVec<[Option<usize>; 8]>,
}

impl Streams for Half<'_> {
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
}

/// The range of a stored stream in one half.
#[derive(Clone, Copy)]
struct Stored {
    half: usize,
    stream: usize,
    start: usize,
    end: usize,
}

/// The streams of a body: the region and the range of each one, in items of the region's view, and its type.
#[derive(Clone, Copy)]
pub(super) struct Places<'p> {
    pub(super) ranges: &'p [(usize, Range)],
    pub(super) types: &'p [Type],
}

impl Halves {
    /// Divides a body along its outermost axis. Returns `None` if it is too small.
    pub(super) fn of(fused: &Fused) -> Option<Self> {
        if nanoseconds(fused) < MIN_NS_FOR_THREADS {
            return None;
        }
        let middle = match fused.sizes() {
            [size] => (size / 2).next_multiple_of(LANES_PER_LINE),
            [size, ..] => size / 2,
            [] => return None,
        };
        if middle == 0 || middle >= fused.sizes()[0] {
            return None;
        }
        Some(Halves(fused.split(middle).map(|(fused, offsets)| HalfBody { fused, offsets })))
    }

    /// Runs both halves. Returns `false`, without running anything, if they would access the same memory.
    pub(super) fn run<T: MathTable + Item, S: Simd>(
        &self,
        simd: S,
        views: &mut [View<'_, T>],
        integers: &mut [View<'_, u8>],
        places: Places<'_>,
    ) -> bool {
        let streams = places.types.len();
        let mut halves = [(); 2].map(|()| Half {
            reads: SmallVec::from_elem(&[][..], streams),
            writes: SmallVec::new(),
            written: SmallVec::from_elem(None, streams),
        });
        let are_apart = self.borrow(views, places, (size_of::<T>(), true), &mut halves)
            && self.borrow(integers, places, (size_of::<T>(), false), &mut halves);
        if are_apart {
            let [first, second] = &self.0;
            let [one, other] = &mut halves;
            rayon::join(
                || with_tiles(|tiles| tiles.run::<T, S>(simd, &first.fused, one)),
                || with_tiles(|tiles| tiles.run::<T, S>(simd, &second.fused, other)),
            );
        }
        are_apart
    }

    /// Borrows the memory of the streams in regions of floats if `are_floats` is set, or else of those in regions of
    /// integers. Returns `false` if the halves would access the same memory.
    fn borrow<'m, E: Pod>(
        &self,
        views: &'m mut [View<'_, E>],
        places: Places<'_>,
        (float, are_floats): (usize, bool),
        halves: &mut [Half<'m>; 2],
    ) -> bool {
        let is_own = |stream: &usize| (places.types[*stream] == Type::Float) == are_floats;
        // The range of a stream of a half, in items of the view.
        let range = |half: usize, stream: usize| {
            let HalfBody { fused, offsets } = &self.0[half];
            let items = places.types[stream].size(float) / size_of::<E>();
            let start = places.ranges[stream].1.at + offsets[stream] * items;
            [start, start + fused.span(stream) * items]
        };
        let stores = || self.0[0].fused.body().stores().iter().map(|(_, stream)| *stream).filter(is_own);
        let is_stored = |stream: usize| stores().any(|stored| stored == stream);
        for (region, view) in views.iter_mut().enumerate() {
            let is_here = |stream: &usize| is_own(stream) && places.ranges[*stream].0 == region;
            let mut loads = (0..places.types.len()).filter(is_here).filter(|stream| !is_stored(*stream)).peekable();
            let mut stored: SmallVec<[Stored; 8]> = SmallVec::new();
            for stream in stores().filter(is_here) {
                for half in 0..2 {
                    let [start, end] = range(half, stream);
                    stored.push(Stored { half, stream, start, end });
                }
            }
            if stored.is_empty() && loads.peek().is_none() {
                continue;
            }
            stored.sort_unstable_by_key(|stored| stored.start);
            if stored.windows(2).any(|pair| pair[0].end > pair[1].start) {
                return false;
            }
            // Cuts the region at each stored range. The gaps between them can be read by both halves.
            let mut gaps: SmallVec<[(usize, &'m [E]); 8]> = SmallVec::new();
            match view {
                View::Read(data) if stored.is_empty() => gaps.push((0, data)),
                View::Own(data) => {
                    let (mut rest, mut at): (&'m mut [E], usize) = (data, 0);
                    for Stored { half, stream, start, end } in &stored {
                        let (gap, others) = rest.split_at_mut(start - at);
                        let (own, others) = others.split_at_mut(end - start);
                        gaps.push((at, gap));
                        halves[*half].written[*stream] = Some(halves[*half].writes.len());
                        halves[*half].writes.push(cast_slice_mut(own));
                        (rest, at) = (others, *end);
                    }
                    gaps.push((at, rest));
                }
                View::Read(_) | View::Columns(_) | View::None => return false,
            }
            for stream in loads {
                for (half, memory) in halves.iter_mut().enumerate() {
                    let [start, end] = range(half, stream);
                    let is_same = |stored: &&Stored| (stored.half, stored.start, stored.end) == (half, start, end);
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

/// Returns the estimated time of a body, in nanoseconds.
fn nanoseconds(fused: &Fused) -> f64 {
    let cost = |op: Op| match op {
        Op::Unary(_) => NS_PER_FUNCTION,
        _ => NS_PER_OP,
    };
    fused.lanes() as f64 * fused.body().nodes().iter().map(|node| cost(node.op())).sum::<f64>()
}
