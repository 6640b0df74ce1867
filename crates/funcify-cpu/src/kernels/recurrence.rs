//! Loops over rows: each row follows from the one before it and from operands of its own.
//!
//! y[r] = a[r] · y[r-1] + x[r], or a running sum, product, maximum or minimum of x. The carry stays in a register for
//! all rows, so a loop of one lane costs a few cycles a step and no dispatch.
//!
//! A running sum of one lane is made in blocks of eight: the sums within a block do not wait for those of the block
//! before, so the loop costs one addition a block.

use pulp::{Simd, WithSimd};

use super::fold::Fold;
use super::map::Target;
use super::source::Source;
use crate::float::Float;

/// What a row does with the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recurrence {
    /// y = y before, folded with x.
    Running(Fold),
    /// y = a times y before, plus x; without a, their sum.
    Linear,
}

/// The loop, to be run by `Simd::vectorize`.
pub(crate) struct Recur<'a, T> {
    pub(crate) recurrence: Recurrence,
    pub(crate) target: Target<'a, T>,
    /// The row before the first.
    pub(crate) initial: Source<'a, T>,
    pub(crate) x: Source<'a, T>,
    /// The factor of [`Recurrence::Linear`].
    pub(crate) a: Option<Source<'a, T>>,
    /// Whether it starts at the last row.
    pub(crate) down: bool,
}

impl<T: Float> WithSimd for &mut Recur<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.target.lanes == 1 {
            return self.single(simd);
        }
        let lanes = T::lanes::<S>();
        for first in (0..self.target.lanes).step_by(lanes) {
            let count = lanes.min(self.target.lanes - first);
            let mut carry = part_of(simd, self.initial, 0, first, count);
            for step in 0..self.target.rows {
                let row = if self.down { self.target.rows - 1 - step } else { step };
                let to = &mut self.target.row(row)[first..][..count];
                let x = match self.x {
                    Source::Same => load(simd, to),
                    x => part_of(simd, x, row, first, count),
                };
                carry = match (self.recurrence, self.a) {
                    (Recurrence::Linear, Some(a)) => T::mul_add(simd, part_of(simd, a, row, first, count), carry, x),
                    (Recurrence::Running(Fold::Product), _) => T::mul(simd, carry, x),
                    (Recurrence::Running(Fold::Max), _) => T::max(simd, carry, x),
                    (Recurrence::Running(Fold::Min), _) => T::min(simd, carry, x),
                    _ => T::add(simd, carry, x),
                };
                match T::as_vectors_mut::<S>(to) {
                    ([vector], _) => *vector = carry,
                    (_, tail) => T::store_part(simd, tail, carry),
                }
            }
        }
    }
}

#[inline(always)]
fn load<T: Float, S: Simd>(simd: S, from: &[T]) -> T::Vector<S> {
    match T::as_vectors::<S>(from) {
        ([vector], _) => *vector,
        (_, tail) => T::load_part(simd, tail),
    }
}

#[inline(always)]
fn part_of<T: Float, S: Simd>(simd: S, source: Source<'_, T>, row: usize, first: usize, count: usize) -> T::Vector<S> {
    match source {
        Source::Lanes { data, stride } => load(simd, &data[row * stride + first..][..count]),
        Source::Element { data, stride } => T::splat(simd, data[row * stride]),
        Source::Same => T::splat(simd, T::ZERO),
    }
}

impl<T: Float> Recur<'_, T> {
    /// One lane: elements in scalar registers.
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

/// Running sums of a block after `carry`; gives the last.
#[inline(always)]
fn sum_block<T: Float>(to: &mut [T; BLOCK], x: &[T; BLOCK], carry: T) -> T {
    let mut sum = T::ZERO;
    for index in 0..BLOCK {
        sum = if index == 0 { x[0] } else { sum.plus(x[index]) };
        to[index] = carry.plus(sum);
    }
    to[BLOCK - 1]
}
