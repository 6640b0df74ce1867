//! Recurrences over rows: each row depends on the previous one, and on the same row of other operands.
//!
//! A kernel computes the rows y[r] of its target from the rows of operands a and x: y[r] = a[r] · y[r-1] + x[r], or a
//! running sum, product, maximum or minimum of x. The carry stays in a register for all rows. With one lane, a step
//! therefore takes only a few cycles and needs no instruction dispatch. With many lanes, several vectors are processed
//! together, row by row.
//!
//! A running sum of one lane is computed in blocks of eight rows. The sums within a block do not wait for the previous
//! block, so the dependency chain has one addition per block.

use super::fold::Fold;
use super::map::Target;
use super::source::Source;
use super::*;

/// The formula that computes a row `y[r]` from the previous one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recurrence {
    /// Folds `x[r]` into `y[r-1]`.
    Running(Fold),
    /// Computes `a[r] * y[r-1] + x[r]`, or `y[r-1] + x[r]` if there is no factor a.
    Linear,
}

impl Recurrence {
    /// Returns the fold that combines `x[r]` with `y[r-1]` if there is no factor a.
    #[inline(always)]
    fn fold(self) -> Fold {
        match self {
            Recurrence::Running(fold) => fold,
            Recurrence::Linear => Fold::Sum,
        }
    }
}

/// A recurrence over rows, to be run by `Simd::vectorize`.
pub(crate) struct Recur<'a, T> {
    pub(crate) recurrence: Recurrence,
    pub(crate) target: Target<'a, T>,
    /// The value of y before the first step.
    pub(crate) initial: Source<'a, T>,
    pub(crate) x: Source<'a, T>,
    /// The factor a of [`Recurrence::Linear`].
    pub(crate) a: Option<Source<'a, T>>,
    /// `true` if the loop runs from the last row to the first.
    pub(crate) down: bool,
}

impl<T: Float> WithSimd for &mut Recur<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (lanes, width) = (self.target.lanes, T::lanes::<S>());
        if lanes == 1 {
            return self.single(simd);
        }
        let mut first = 0;
        if size_of::<T::Vector<S>>() == WIDE_REGISTER_BYTES {
            while first + 2 * MAX_VECTORS * width <= lanes {
                self.columns::<S, { 2 * MAX_VECTORS }>(simd, first);
                first += 2 * MAX_VECTORS * width;
            }
        }
        while first + MAX_VECTORS * width <= lanes {
            self.columns::<S, MAX_VECTORS>(simd, first);
            first += MAX_VECTORS * width;
        }
        while first + width <= lanes {
            self.columns::<S, 1>(simd, first);
            first += width;
        }
        if first == lanes {
            return;
        }
        // The last lanes are computed as a full vector that overlaps the previous vector. This is not possible if x is
        // the destination, because the overlapping lanes of x have been overwritten.
        if lanes < width || matches!(self.x, Source::Same) {
            self.part(simd, first);
        } else {
            self.columns::<S, 1>(simd, lanes - width);
        }
    }
}

/// The number of vectors that are processed together, row by row. These vectors are adjacent, so that memory is read
/// sequentially. Processors with vectors of [`WIDE_REGISTER_BYTES`] bytes use twice as many.
const MAX_VECTORS: usize = 8;
const WIDE_REGISTER_BYTES: usize = 64;

impl<T: Float> Recur<'_, T> {
    /// Runs all steps for `WIDTH` vectors of lanes, starting at lane `first`.
    #[inline(always)]
    fn columns<S: Simd, const WIDTH: usize>(&mut self, simd: S, first: usize) {
        let lanes = WIDTH * T::lanes::<S>();
        let mut carry = vectors_of::<T, S, WIDTH>(simd, self.initial, 0, first);
        for step in 0..self.target.rows {
            let row = self.row_of(step);
            let to = &mut T::as_vectors_mut::<S>(&mut self.target.row(row)[first..][..lanes]).0[..WIDTH];
            let mut x = [carry[0]; WIDTH];
            match self.x {
                Source::Same => x.copy_from_slice(to),
                other => x = vectors_of(simd, other, row, first),
            }
            match self.a {
                Some(a) if self.recurrence == Recurrence::Linear => {
                    let a = vectors_of::<T, S, WIDTH>(simd, a, row, first);
                    for index in 0..WIDTH {
                        carry[index] = T::mul_add(simd, a[index], carry[index], x[index]);
                    }
                }
                _ => {
                    let fold = self.recurrence.fold();
                    for index in 0..WIDTH {
                        carry[index] = fold.combine::<T, S>(simd, carry[index], x[index]);
                    }
                }
            }
            to.copy_from_slice(&carry);
        }
    }

    /// Runs all steps for the lanes from `first` on, which do not fill a vector.
    #[inline(always)]
    fn part<S: Simd>(&mut self, simd: S, first: usize) {
        let count = self.target.lanes - first;
        let mut carry = part_of(simd, self.initial, 0, first, count);
        for step in 0..self.target.rows {
            let row = self.row_of(step);
            let to = &mut self.target.row(row)[first..][..count];
            let x = match self.x {
                Source::Same => T::load_part(simd, to),
                x => part_of(simd, x, row, first, count),
            };
            carry = match self.a {
                Some(a) if self.recurrence == Recurrence::Linear => {
                    T::mul_add(simd, part_of(simd, a, row, first, count), carry, x)
                }
                _ => self.recurrence.fold().combine::<T, S>(simd, carry, x),
            };
            T::store_part(simd, to, carry);
        }
    }

    /// Returns the index of the row that a step computes.
    #[inline(always)]
    fn row_of(&self, step: usize) -> usize {
        if self.down { self.target.rows - 1 - step } else { step }
    }
}

/// Loads `WIDTH` vectors of a row, starting at lane `first`.
#[inline(always)]
fn vectors_of<T: Float, S: Simd, const WIDTH: usize>(
    simd: S,
    source: Source<'_, T>,
    row: usize,
    first: usize,
) -> [T::Vector<S>; WIDTH] {
    match source {
        Source::Lanes { data, stride } => {
            let lanes = WIDTH * T::lanes::<S>();
            let mut vectors = [T::splat(simd, T::ZERO); WIDTH];
            vectors.copy_from_slice(T::as_vectors::<S>(&data[row * stride + first..][..lanes]).0);
            vectors
        }
        Source::Element { data, stride } => [T::splat(simd, data[row * stride]); WIDTH],
        Source::Same => [T::splat(simd, T::ZERO); WIDTH],
    }
}

/// Loads `count` elements of a row, starting at lane `first`. `count` is less than the number of lanes in a vector.
#[inline(always)]
fn part_of<T: Float, S: Simd>(simd: S, source: Source<'_, T>, row: usize, first: usize, count: usize) -> T::Vector<S> {
    match source {
        Source::Lanes { data, stride } => T::load_part(simd, &data[row * stride + first..][..count]),
        Source::Element { data, stride } => T::splat(simd, data[row * stride]),
        Source::Same => T::splat(simd, T::ZERO),
    }
}

impl<T: Float> Recur<'_, T> {
    /// Runs all steps for a single lane, with scalar arithmetic.
    #[inline(always)]
    fn single<S: Simd>(&mut self, _: S) {
        let Recur { recurrence, ref mut target, initial, x, a, down } = *self;
        let (rows, to_stride) = (target.rows, target.stride);
        let mut carry = initial.element(0, 0, T::ZERO);
        let mut done = 0;
        if let (Recurrence::Running(Fold::Sum), Source::Lanes { data, stride: 1 }, 1, false) =
            (recurrence, x, to_stride, down)
        {
            let (blocks, _) = target.data[..rows].as_chunks_mut::<BLOCK>();
            for (to, x) in blocks.iter_mut().zip(data.as_chunks::<BLOCK>().0) {
                carry = sum_block(to, x, carry);
            }
            done = rows / BLOCK * BLOCK;
        }
        for step in done..rows {
            let row = if down { rows - 1 - step } else { step };
            let to = &mut target.data[row * to_stride];
            let term = x.element(row, 0, *to);
            carry = match (recurrence, a) {
                (Recurrence::Linear, Some(a)) => T::mul_add_element::<S>(a.element(row, 0, *to), carry, term),
                (Recurrence::Running(fold), _) => fold.combine_elements(carry, term),
                (Recurrence::Linear, None) => carry.plus(term),
            };
            *to = carry;
        }
    }
}

const BLOCK: usize = 8;

/// Computes the running sums of a block, starting from `carry`. Returns the last sum.
#[inline(always)]
fn sum_block<T: Float>(to: &mut [T; BLOCK], x: &[T; BLOCK], carry: T) -> T {
    let mut sum = T::ZERO;
    for index in 0..BLOCK {
        sum = if index == 0 { x[0] } else { sum.plus(x[index]) };
        to[index] = carry.plus(sum);
    }
    to[BLOCK - 1]
}
