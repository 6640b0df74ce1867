//! Kernels that sort a tensor along an axis, or find the position of the largest element along an axis.

use super::*;

/// An element type with a total order in which NaN is the greatest, and -0 and +0 are equal.
pub(super) trait Ordered: Pod + PartialOrd {
    /// An integer type that holds the sort key of an element (an unsigned integer with the same order) and the position
    /// of the element.
    type Packed: Packed;

    /// Packs an element and its position into an integer. The integers are ordered by element, and by position if the
    /// elements are equal. With `descending`, the greatest element comes first.
    fn pack(self, position: usize, descending: bool) -> Self::Packed;
    /// Extracts the position from a packed integer.
    fn position(packed: Self::Packed) -> usize;
    /// Returns `true` if the element is NaN.
    fn is_nan(self) -> bool;
}

macro_rules! ordered {
    ($($element:ident: $key:ident in $packed:ident, |$x:ident| $to_key:expr, $is_nan:path;)*) => {$(
        impl Ordered for $element {
            type Packed = $packed;

            #[inline(always)]
            fn pack(self, position: usize, descending: bool) -> $packed {
                let $x = self;
                let key: $key = $to_key;
                $packed::from(if descending { !key } else { key }) << $key::BITS | position as $packed
            }
            #[inline(always)]
            fn position(packed: $packed) -> usize {
                packed as $key as usize
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $is_nan(self)
            }
        }
    )*};
}

ordered! {
    i64: u64 in u128, |x| (x as u64) ^ (1 << 63), never;
    i32: u32 in u64, |x| (x as u32) ^ (1 << 31), never;
    u32: u32 in u64, |x| x, never;
    u8: u32 in u64, |x| x.into(), never;
    f32: u32 in u64, |x| match (x + 0.0).to_bits() {
        _ if x.is_nan() => u32::MAX,
        bits if bits >> 31 == 1 => !bits,
        bits => bits | 1 << 31,
    }, f32::is_nan;
    f64: u64 in u128, |x| match (x + 0.0).to_bits() {
        _ if x.is_nan() => u64::MAX,
        bits if bits >> 63 == 1 => !bits,
        bits => bits | 1 << 63,
    }, f64::is_nan;
}

fn never<E>(_: E) -> bool {
    false
}

/// An integer type that holds the sort key of an element in the upper half, and the position of the element in the
/// lower half.
pub(super) trait Packed: Pod + Ord {
    /// The number of bytes in the key.
    const KEY_BYTES: usize;

    /// Returns byte `index` of the key. Byte 0 is the lowest.
    fn digit(self, index: usize) -> usize;
}

impl Packed for u64 {
    const KEY_BYTES: usize = 4;

    #[inline(always)]
    fn digit(self, index: usize) -> usize {
        (self >> (32 + 8 * index)) as usize & 0xff
    }
}

impl Packed for u128 {
    const KEY_BYTES: usize = 8;

    #[inline(always)]
    fn digit(self, index: usize) -> usize {
        ((self >> 64) as u64 >> (8 * index)) as usize & 0xff
    }
}

/// The minimum length of a line for which a radix sort is faster than a comparison sort.
const MIN_SIZE_FOR_DIGITS: usize = 512;

/// Sorts packed integers. The positions in them must be in ascending order before the call. `spare` is scratch memory
/// of the same length.
fn sort<P: Packed>(line: &mut [P], spare: &mut [P]) {
    if line.len() < MIN_SIZE_FOR_DIGITS {
        return line.sort_unstable();
    }
    let mut counts = [[0; 256]; 8];
    for packed in line.iter() {
        for (digit, counts) in counts.iter_mut().take(P::KEY_BYTES).enumerate() {
            counts[packed.digit(digit)] += 1;
        }
    }
    let (mut from, mut to) = (line, spare);
    let mut is_in_spare = false;
    for (digit, counts) in counts.iter_mut().take(P::KEY_BYTES).enumerate() {
        if counts.contains(&from.len()) {
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            (*count, next) = (next, next + *count);
        }
        for packed in from.iter() {
            let place = &mut counts[packed.digit(digit)];
            to[*place] = *packed;
            *place += 1;
        }
        (from, to, is_in_spare) = (to, from, !is_in_spare);
    }
    if is_in_spare {
        to.copy_from_slice(from);
    }
}

/// A kernel that stably sorts each line of a tensor. The results are the sorted elements and their original positions.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    pub(super) lines: Lines,
    pub(super) descending: bool,
    pub(super) ty: ElementType,
}

impl Sort {
    /// The maximum size of a line. Positions must fit in 32 bits.
    pub(super) const MAX_SIZE: usize = u32::MAX as usize;

    pub(super) fn run(&self, result: usize, to: &mut [u8], from: &[&[u8]]) {
        match result {
            1 => with_element!(self.ty, E => self.positions::<E>(elements_mut(to), elements(from[0]))),
            _ => with_element!(self.ty, E => {
                self.elements::<E>(elements_mut(to), elements(from[0]), elements(from[2]));
            }),
        }
    }

    fn positions<E: Ordered>(&self, to: &mut [i64], x: &[E]) {
        let Lines { size, stride, .. } = self.lines;
        with_scratch(2 * size, |scratch: &mut [E::Packed]| {
            let (line, spare) = scratch.split_at_mut(size);
            for start in self.lines.starts() {
                for (position, packed) in line.iter_mut().enumerate() {
                    *packed = x[start + position * stride].pack(position, self.descending);
                }
                sort(line, spare);
                for (target, packed) in line.iter().enumerate() {
                    to[start + target * stride] = E::position(*packed) as i64;
                }
            }
        });
    }

    /// Writes the sorted elements. `positions` holds the original position of each sorted element.
    fn elements<E: Ordered>(&self, to: &mut [E], x: &[E], positions: &[i64]) {
        let Lines { size, stride, .. } = self.lines;
        for start in self.lines.starts() {
            for target in 0..size {
                let place = start + target * stride;
                to[place] = x[start + positions[place] as usize * stride];
            }
        }
    }
}

/// A kernel that finds the position of the first NaN in each line or, if there is none, of the first maximum.
#[derive(Clone, Debug)]
pub(crate) struct ArgMax {
    pub(super) lines: Lines,
    pub(super) ty: ElementType,
}

/// The number of elements that are compared at once.
const LANES: usize = 32;

impl<E: Ordered> InnerLoop<(&mut [i64], &[E])> for ArgMax {
    #[inline(always)]
    fn run_loop(&self, (to, x): (&mut [i64], &[E])) {
        if self.lines.stride == 1 { self.along_rows(to, x) } else { self.across_rows(to, x) }
    }
}

impl ArgMax {
    pub(super) fn run<S: Simd>(&self, simd: S, to: &mut [i64], x: &[u8]) {
        with_element!(self.ty, E => {
            let x: &[E] = elements(x);
            simd.vectorize(LoopCall(self, (to, x)));
        });
    }

    /// Writes the position of the largest element of each line, for lines that are contiguous in memory.
    #[inline(always)]
    fn along_rows<E: Ordered>(&self, to: &mut [i64], x: &[E]) {
        for (to, line) in to.iter_mut().zip(x.chunks_exact(self.lines.size)) {
            let (mut largest, mut has_nan) = ([line[0]; LANES], false);
            let (chunks, rest) = line.as_chunks::<LANES>();
            for chunk in chunks {
                for (largest, x) in largest.iter_mut().zip(chunk) {
                    *largest = if *x > *largest { *x } else { *largest };
                    has_nan |= x.is_nan();
                }
            }
            let mut all = largest[0];
            for x in largest.iter().chain(rest) {
                all = if *x > all { *x } else { all };
                has_nan |= x.is_nan();
            }
            let position = match has_nan {
                true => line.iter().position(|x| x.is_nan()),
                false => line.iter().position(|x| *x == all),
            };
            *to = position.expect("the largest element is in the line") as i64;
        }
    }

    /// Writes the position of the largest element of each line, for lines that are interleaved in memory. Processes
    /// several lines at once.
    #[inline(always)]
    fn across_rows<E: Ordered>(&self, to: &mut [i64], x: &[E]) {
        let Lines { size, stride, .. } = self.lines;
        for (to, start) in to.chunks_exact_mut(stride.max(1)).zip(self.lines.blocks()) {
            for (index, to) in to.chunks_mut(LANES).enumerate() {
                let first = start + index * LANES;
                let mut largest = [x[first]; LANES];
                largest[..to.len()].copy_from_slice(&x[first..][..to.len()]);
                to.fill(0);
                for position in 1..size {
                    let row = &x[first + position * stride..][..to.len()];
                    for ((to, largest), x) in to.iter_mut().zip(&mut largest).zip(row) {
                        let is_larger = *x > *largest || x.is_nan() & !largest.is_nan();
                        *to = if is_larger { position as i64 } else { *to };
                        *largest = if is_larger { *x } else { *largest };
                    }
                }
            }
        }
    }
}
