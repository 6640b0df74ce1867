//! Elementwise kernels: one function of one, two or three registers, over the rows and lanes of a destination.
//!
//! A function is a type with an inlined method, not a closure: closures do not take over the instruction set of the
//! function that they are in.

use pulp::{Simd, WithSimd};

use super::source::{ElementRows, LaneRows, Row, Rows, SameRows, Source};
use crate::float::Float;

/// The rows and lanes that a kernel writes.
#[derive(Debug)]
pub(crate) struct Target<'a, T> {
    /// From the first element to the last.
    pub(crate) data: &'a mut [T],
    /// How many rows.
    pub(crate) rows: usize,
    /// Elements a row.
    pub(crate) lanes: usize,
    /// Elements from one row to the next.
    pub(crate) stride: usize,
}

impl<T> Target<'_, T> {
    /// Row `row`.
    #[inline(always)]
    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.stride..][..self.lanes]
    }
}

/// A function of one register.
pub(crate) trait Function1<T: Float> {
    /// Its value.
    fn apply<S: Simd>(simd: S, a: T::Vector<S>) -> T::Vector<S>;
}

/// A function of two registers.
pub(crate) trait Function2<T: Float> {
    /// Its value.
    fn apply<S: Simd>(simd: S, a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S>;
}

/// A function of three registers.
pub(crate) trait Function3<T: Float> {
    /// Its value.
    fn apply<S: Simd>(simd: S, a: T::Vector<S>, b: T::Vector<S>, c: T::Vector<S>) -> T::Vector<S>;
}

/// Runs `$run` with the operands' kinds as types.
macro_rules! by_kind {
    ($source:expr, |$rows:ident| $run:expr) => {
        match $source {
            Source::Lanes { data, stride } => {
                let $rows = LaneRows { data, stride };
                $run
            }
            Source::Element { data, stride } => {
                let $rows = ElementRows { data, stride };
                $run
            }
            Source::Same => {
                let $rows = SameRows;
                $run
            }
        }
    };
}

/// A function of one operand, to be run by `Simd::vectorize`.
pub(crate) struct Map1<'a, T, F> {
    pub(crate) target: Target<'a, T>,
    pub(crate) source: Source<'a, T>,
    pub(crate) function: F,
}

impl<T: Float, F: Function1<T>> WithSimd for Map1<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        by_kind!(self.source, |a| rows1::<T, S, F, _>(simd, self.target, a));
    }
}

#[inline(always)]
fn rows1<T: Float, S: Simd, F: Function1<T>, A: Rows<T, S>>(simd: S, mut target: Target<'_, T>, a: A) {
    for row in 0..target.rows {
        let a = a.row(simd, row, target.lanes);
        let (vectors, tail) = T::as_vectors_mut::<S>(target.row(row));
        for (index, to) in vectors.iter_mut().enumerate() {
            *to = F::apply(simd, a.vector(index, *to));
        }
        if !tail.is_empty() {
            let old = T::load_part(simd, tail);
            T::store_part(simd, tail, F::apply(simd, a.tail(simd, old)));
        }
    }
}

/// A function of two operands, to be run by `Simd::vectorize`.
pub(crate) struct Map2<'a, T, F> {
    pub(crate) target: Target<'a, T>,
    pub(crate) sources: [Source<'a, T>; 2],
    pub(crate) function: F,
}

impl<T: Float, F: Function2<T>> WithSimd for Map2<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [a, b] = self.sources;
        by_kind!(a, |a| by_kind!(b, |b| rows2::<T, S, F, _, _>(simd, self.target, a, b)));
    }
}

#[inline(always)]
fn rows2<T: Float, S: Simd, F: Function2<T>, A: Rows<T, S>, B: Rows<T, S>>(
    simd: S,
    mut target: Target<'_, T>,
    a: A,
    b: B,
) {
    for row in 0..target.rows {
        let (a, b) = (a.row(simd, row, target.lanes), b.row(simd, row, target.lanes));
        let (vectors, tail) = T::as_vectors_mut::<S>(target.row(row));
        for (index, to) in vectors.iter_mut().enumerate() {
            *to = F::apply(simd, a.vector(index, *to), b.vector(index, *to));
        }
        if !tail.is_empty() {
            let old = T::load_part(simd, tail);
            T::store_part(simd, tail, F::apply(simd, a.tail(simd, old), b.tail(simd, old)));
        }
    }
}

/// A function of three operands, to be run by `Simd::vectorize`.
pub(crate) struct Map3<'a, T, F> {
    pub(crate) target: Target<'a, T>,
    pub(crate) sources: [Source<'a, T>; 3],
    pub(crate) function: F,
}

impl<T: Float, F: Function3<T>> WithSimd for Map3<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [a, b, c] = self.sources;
        by_kind!(a, |a| by_kind!(b, |b| by_kind!(c, |c| rows3::<T, S, F, _, _, _>(simd, self.target, a, b, c))));
    }
}

#[inline(always)]
fn rows3<T: Float, S: Simd, F: Function3<T>, A: Rows<T, S>, B: Rows<T, S>, C: Rows<T, S>>(
    simd: S,
    mut target: Target<'_, T>,
    a: A,
    b: B,
    c: C,
) {
    for row in 0..target.rows {
        let lanes = target.lanes;
        let (a, b, c) = (a.row(simd, row, lanes), b.row(simd, row, lanes), c.row(simd, row, lanes));
        let (vectors, tail) = T::as_vectors_mut::<S>(target.row(row));
        for (index, to) in vectors.iter_mut().enumerate() {
            *to = F::apply(simd, a.vector(index, *to), b.vector(index, *to), c.vector(index, *to));
        }
        if !tail.is_empty() {
            let old = T::load_part(simd, tail);
            let y = F::apply(simd, a.tail(simd, old), b.tail(simd, old), c.tail(simd, old));
            T::store_part(simd, tail, y);
        }
    }
}
