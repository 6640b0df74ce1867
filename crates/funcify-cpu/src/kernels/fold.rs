//! Kernels that fold the rows of an operand, separately for each lane, or the lanes of each row.
//!
//! A sum can also be taken over the elementwise product of two operands. A fold starts from its identity (0 for a sum,
//! 1 for a product, -inf for a maximum, inf for a minimum) or from the target's current value. Maximum and minimum
//! return NaN if any element is NaN, and treat -0 as less than +0.

use super::map::Target;
use super::source::{ElementRows, LaneRows, RowSource, Source, SourceRow};
use super::*;

/// The operation of a fold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
}

impl Fold {
    /// All folds.
    pub const ALL: [Fold; 4] = [Fold::Sum, Fold::Product, Fold::Max, Fold::Min];

    /// Returns the result of a fold over no elements.
    pub fn identity<T: Float>(self) -> T {
        match self {
            Fold::Sum => T::ZERO,
            Fold::Product => T::ONE,
            Fold::Max => T::from_f64(f64::NEG_INFINITY),
            Fold::Min => T::INFINITY,
        }
    }

    /// Applies the operation to two vectors, lane by lane.
    #[inline(always)]
    pub(crate) fn combine<T: Float, S: Simd>(self, simd: S, a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S> {
        match self {
            Fold::Sum => T::add(simd, a, b),
            Fold::Product => T::mul(simd, a, b),
            Fold::Max => T::max(simd, a, b),
            Fold::Min => T::min(simd, a, b),
        }
    }

    /// Applies the operation to two elements.
    #[inline(always)]
    pub(crate) fn combine_elements<T: Float>(self, a: T, b: T) -> T {
        match self {
            Fold::Sum => a.plus(b),
            Fold::Product => a.times(b),
            Fold::Max => a.larger(b),
            Fold::Min => a.smaller(b),
        }
    }
}

/// A fold of the rows of `a`, or of the elementwise product of `a` and `b`, into one row.
pub(crate) struct FoldRows<'a, T> {
    pub(crate) fold: Fold,
    pub(crate) to: &'a mut [T],
    pub(crate) rows: usize,
    pub(crate) a: Source<'a, T>,
    pub(crate) b: Option<Source<'a, T>>,
    /// `true` if the fold starts from the target's current values.
    pub(crate) accumulate: bool,
}

/// The minimum number of rows for which narrow tiles use several independent accumulators. With a single accumulator,
/// each addition must wait for the previous one.
const MIN_ROWS_FOR_CHAINS: usize = 64;

impl<T: Float> WithSimd for &mut FoldRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.rows < MIN_ROWS_FOR_CHAINS { self.all::<S, 1>(simd) } else { self.all::<S, 4>(simd) }
    }
}

impl<T: Float> FoldRows<'_, T> {
    /// Folds all columns: narrow tiles with `CHAINS` accumulators per vector, and wide tiles with one.
    #[inline(always)]
    fn all<S: Simd, const CHAINS: usize>(&mut self, simd: S) {
        let vectors = T::as_vectors::<S>(self.to).0.len();
        let mut at = 0;
        while at + 8 <= vectors {
            self.columns::<S, 8, 1>(simd, at);
            at += 8;
        }
        while at + 2 <= vectors {
            self.columns::<S, 2, CHAINS>(simd, at);
            at += 2;
        }
        if at < vectors {
            self.columns::<S, 1, CHAINS>(simd, at);
        }
        let first = vectors * T::lanes::<S>();
        if first < self.to.len() {
            self.tail::<S, CHAINS>(simd, first);
        }
    }

    /// Folds `WIDTH` vectors of lanes, starting at vector `at`.
    #[inline(always)]
    fn columns<S: Simd, const WIDTH: usize, const CHAINS: usize>(&mut self, simd: S, at: usize) {
        let (first, lanes) = (at * T::lanes::<S>(), WIDTH * T::lanes::<S>());
        let mut sums = [T::splat(simd, self.fold.identity()); WIDTH];
        if self.accumulate {
            sums.copy_from_slice(T::as_vectors::<S>(&self.to[first..][..lanes]).0);
        }
        let sums = self.rows_of::<S, _, WIDTH, CHAINS>(simd, FullRegisters { first }, sums);
        T::as_vectors_mut::<S>(&mut self.to[first..][..lanes]).0.copy_from_slice(&sums);
    }

    /// Folds the lanes after the last full vector.
    #[inline(always)]
    fn tail<S: Simd, const CHAINS: usize>(&mut self, simd: S, first: usize) {
        let to = &self.to[first..];
        let rest = Rest { first, lanes: to.len() };
        let sum = if self.accumulate { T::load_part(simd, to) } else { T::splat(simd, self.fold.identity()) };
        let [sum] = self.rows_of::<S, _, 1, CHAINS>(simd, rest, [sum]);
        T::store_part(simd, &mut self.to[first..], sum);
    }

    /// Folds the given columns of all rows into `start`, and returns the result.
    #[inline(always)]
    fn rows_of<S: Simd, C: Columns<T, S, WIDTH>, const WIDTH: usize, const CHAINS: usize>(
        &self,
        simd: S,
        columns: C,
        start: [T::Vector<S>; WIDTH],
    ) -> [T::Vector<S>; WIDTH] {
        let FoldRows { fold, rows, .. } = *self;
        let Source::Lanes { data, stride } = self.a else { return start };
        let a = LaneRows { data, stride };
        match (fold, self.b) {
            (Fold::Sum, Some(Source::Element { data, stride })) => {
                let terms = Scaled { a, by: ElementRows { data, stride }, columns };
                in_chains::<T, S, _, WIDTH, CHAINS>(simd, fold, rows, terms, start)
            }
            (Fold::Sum, Some(Source::Lanes { data, stride })) => {
                let terms = Products { a, b: LaneRows { data, stride }, columns };
                in_chains::<T, S, _, WIDTH, CHAINS>(simd, fold, rows, terms, start)
            }
            _ => in_chains::<T, S, _, WIDTH, CHAINS>(simd, fold, rows, PlainTerms { fold, a, columns }, start),
        }
    }
}

/// Folds the terms of all rows into `start`, and returns the result. Rows are assigned to `CHAINS` accumulators in
/// turn.
#[inline(always)]
fn in_chains<T: Float, S: Simd, R: Terms<T, S, WIDTH>, const WIDTH: usize, const CHAINS: usize>(
    simd: S,
    fold: Fold,
    rows: usize,
    terms: R,
    start: [T::Vector<S>; WIDTH],
) -> [T::Vector<S>; WIDTH] {
    let mut chains = [[T::splat(simd, fold.identity()); WIDTH]; CHAINS];
    chains[0] = start;
    let in_chains = rows - rows % CHAINS;
    for first in (0..in_chains).step_by(CHAINS) {
        for (chain, sums) in chains.iter_mut().enumerate() {
            terms.fold(simd, first + chain, sums);
        }
    }
    for row in in_chains..rows {
        terms.fold(simd, row, &mut chains[0]);
    }
    let mut sums = chains[0];
    for chain in &chains[1..] {
        for (sum, term) in sums.iter_mut().zip(chain) {
            *sum = fold.combine::<T, S>(simd, *sum, *term);
        }
    }
    sums
}

/// The terms that each row contributes to a fold over rows: `WIDTH` vectors of adjacent columns.
trait Terms<T: Float, S: Simd, const WIDTH: usize>: Copy {
    /// Folds the terms of a row into `sums`.
    fn fold(self, simd: S, row: usize, sums: &mut [T::Vector<S>; WIDTH]);
}

/// Terms that are the lanes of a single operand.
#[derive(Clone, Copy)]
struct PlainTerms<'a, T, C> {
    fold: Fold,
    a: LaneRows<'a, T>,
    columns: C,
}

/// Terms that are the lanes of each row, multiplied by one element per row. Only sums have such terms.
#[derive(Clone, Copy)]
struct Scaled<'a, T, C> {
    a: LaneRows<'a, T>,
    by: ElementRows<'a, T>,
    columns: C,
}

/// Terms that are the lane-by-lane products of two operands. Only sums have such terms.
#[derive(Clone, Copy)]
struct Products<'a, T, C> {
    a: LaneRows<'a, T>,
    b: LaneRows<'a, T>,
    columns: C,
}

impl<T: Float, S: Simd, C: Columns<T, S, WIDTH>, const WIDTH: usize> Terms<T, S, WIDTH> for PlainTerms<'_, T, C> {
    #[inline(always)]
    fn fold(self, simd: S, row: usize, sums: &mut [T::Vector<S>; WIDTH]) {
        let a = self.columns.of(simd, self.a, row);
        for (sum, a) in sums.iter_mut().zip(a) {
            *sum = self.fold.combine::<T, S>(simd, *sum, a);
        }
    }
}

impl<T: Float, S: Simd, C: Columns<T, S, WIDTH>, const WIDTH: usize> Terms<T, S, WIDTH> for Scaled<'_, T, C> {
    #[inline(always)]
    fn fold(self, simd: S, row: usize, sums: &mut [T::Vector<S>; WIDTH]) {
        let by = T::splat(simd, self.by.data[row * self.by.stride]);
        let a = self.columns.of(simd, self.a, row);
        for (sum, a) in sums.iter_mut().zip(a) {
            *sum = T::mul_add(simd, a, by, *sum);
        }
    }
}

impl<T: Float, S: Simd, C: Columns<T, S, WIDTH>, const WIDTH: usize> Terms<T, S, WIDTH> for Products<'_, T, C> {
    #[inline(always)]
    fn fold(self, simd: S, row: usize, sums: &mut [T::Vector<S>; WIDTH]) {
        let (a, b) = (self.columns.of(simd, self.a, row), self.columns.of(simd, self.b, row));
        for index in 0..WIDTH {
            sums[index] = T::mul_add(simd, a[index], b[index], sums[index]);
        }
    }
}

/// A range of columns, which are loaded from each row as `WIDTH` vectors.
trait Columns<T: Float, S: Simd, const WIDTH: usize>: Copy {
    /// Loads these columns of the row with index `row`.
    fn of(self, simd: S, rows: LaneRows<'_, T>, row: usize) -> [T::Vector<S>; WIDTH];
}

/// Columns that fill whole vectors, starting at lane `first`.
#[derive(Clone, Copy)]
struct FullRegisters {
    first: usize,
}

impl<T: Float, S: Simd, const WIDTH: usize> Columns<T, S, WIDTH> for FullRegisters {
    #[inline(always)]
    fn of(self, simd: S, rows: LaneRows<'_, T>, row: usize) -> [T::Vector<S>; WIDTH] {
        let lanes = &rows.data[row * rows.stride + self.first..][..WIDTH * T::lanes::<S>()];
        let mut vectors = [T::splat(simd, T::ZERO); WIDTH];
        vectors.copy_from_slice(T::as_vectors::<S>(lanes).0);
        vectors
    }
}

/// The columns after the last full vector.
#[derive(Clone, Copy)]
struct Rest {
    first: usize,
    lanes: usize,
}

impl<T: Float, S: Simd> Columns<T, S, 1> for Rest {
    #[inline(always)]
    fn of(self, simd: S, rows: LaneRows<'_, T>, row: usize) -> [T::Vector<S>; 1] {
        [T::load_part(simd, &rows.data[row * rows.stride + self.first..][..self.lanes])]
    }
}

/// A fold of the lanes of each row of `a`, or of the elementwise product of `a` and `b`, into the first element of the
/// same row of `to`.
pub(crate) struct FoldLanes<'a, T> {
    pub(crate) fold: Fold,
    pub(crate) to: Target<'a, T>,
    pub(crate) lanes: usize,
    pub(crate) a: Source<'a, T>,
    pub(crate) b: Option<Source<'a, T>>,
    /// `true` if the fold starts from the target's current values.
    pub(crate) accumulate: bool,
}

impl<T: Float> WithSimd for &mut FoldLanes<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.lanes < T::lanes::<S>() {
            return match self.lanes {
                2 => self.short_rows::<S, 2>(simd),
                3 => self.short_rows::<S, 3>(simd),
                4 => self.short_rows::<S, 4>(simd),
                8 => self.short_rows::<S, 8>(simd),
                _ => self.short_rows::<S, 0>(simd),
            };
        }
        match (self.a, self.b) {
            (Source::Lanes { data, stride }, None) => {
                self.rows::<S, _, ElementRows<'_, T>>(simd, LaneRows { data, stride }, None);
            }
            (Source::Lanes { data, stride }, Some(Source::Lanes { data: b, stride: b_stride })) => {
                let b = LaneRows { data: b, stride: b_stride };
                self.rows::<S, _, _>(simd, LaneRows { data, stride }, Some(b));
            }
            (Source::Lanes { data, stride }, Some(Source::Element { data: b, stride: b_stride })) => {
                let b = ElementRows { data: b, stride: b_stride };
                self.rows::<S, _, _>(simd, LaneRows { data, stride }, Some(b));
            }
            _ => {}
        }
    }
}

impl<T: Float> FoldLanes<'_, T> {
    /// Folds rows that are shorter than a vector, element by element. The rows have `LANES` lanes, or any number of
    /// lanes if `LANES` is 0. Additions in different rows are independent of each other, so the processor can overlap
    /// them.
    #[inline(always)]
    fn short_rows<S: Simd, const LANES: usize>(&mut self, simd: S) {
        match self.fold {
            Fold::Sum => self.short_rows_by::<S, LANES>(simd, Fold::Sum),
            Fold::Product => self.short_rows_by::<S, LANES>(simd, Fold::Product),
            Fold::Max => self.short_rows_by::<S, LANES>(simd, Fold::Max),
            Fold::Min => self.short_rows_by::<S, LANES>(simd, Fold::Min),
        }
    }

    #[inline(always)]
    fn short_rows_by<S: Simd, const LANES: usize>(&mut self, _: S, fold: Fold) {
        let Source::Lanes { data, stride } = self.a else { return };
        let lanes = if LANES == 0 { self.lanes } else { LANES };
        for row in 0..self.to.rows {
            let mut value = fold.identity();
            let a = &data[row * stride..][..lanes];
            match (fold, self.b) {
                (Fold::Sum, Some(Source::Lanes { data, stride })) => {
                    for (a, b) in a.iter().zip(&data[row * stride..][..lanes]) {
                        value = fold.combine_elements(value, a.times(*b));
                    }
                }
                (Fold::Sum, Some(Source::Element { data, stride })) => {
                    for a in a {
                        value = fold.combine_elements(value, a.times(data[row * stride]));
                    }
                }
                _ => {
                    for a in a {
                        value = fold.combine_elements(value, *a);
                    }
                }
            }
            let to = &mut self.to.data[row * self.to.stride];
            *to = if self.accumulate { fold.combine_elements(*to, value) } else { value };
        }
    }

    #[inline(always)]
    fn rows<S: Simd, A: RowSource<T, S>, B: RowSource<T, S>>(&mut self, simd: S, a: A, b: Option<B>) {
        let (fold, lanes) = (self.fold, self.lanes);
        let identity = T::splat(simd, fold.identity());
        let full = lanes / T::lanes::<S>();
        for row in 0..self.to.rows {
            let a = a.row(simd, row, lanes);
            #[allow(clippy::manual_map, reason = "a closure would not inherit the instruction set")]
            let b = match b {
                Some(b) => Some(b.row(simd, row, lanes)),
                None => None,
            };
            let mut sums = [identity; 4];
            let mut at = 0;
            while at + 4 <= full {
                for (part, sum) in sums.iter_mut().enumerate() {
                    *sum = with_term(simd, fold, *sum, &a, b.as_ref(), at + part);
                }
                at += 4;
            }
            for index in at..full {
                sums[0] = with_term(simd, fold, sums[0], &a, b.as_ref(), index);
            }
            let left = fold.combine::<T, S>(simd, sums[0], sums[1]);
            let right = fold.combine::<T, S>(simd, sums[2], sums[3]);
            let mut all = [fold.combine::<T, S>(simd, left, right)];
            let mut value = match fold {
                Fold::Sum => T::sum(simd, all[0]),
                Fold::Product => T::product(simd, all[0]),
                Fold::Max | Fold::Min => in_halves(fold, T::elements::<S>(&mut all)),
            };
            if full * T::lanes::<S>() < lanes {
                value = fold.combine_elements(value, self.tail_of::<S>(simd, row, full * T::lanes::<S>()));
            }
            let to = &mut self.to.row(row)[0];
            *to = if self.accumulate { fold.combine_elements(*to, value) } else { value };
        }
    }

    /// Folds the elements after the last full vector.
    #[inline(always)]
    fn tail_of<S: Simd>(&self, _: S, row: usize, first: usize) -> T {
        let mut value = self.fold.identity::<T>();
        for lane in first..self.lanes {
            let a = self.a.element(row, lane, T::ZERO);
            let factor = self.b.map_or(T::ONE, |b| b.element(row, lane, T::ZERO));
            let term = if self.fold == Fold::Sum { a.times(factor) } else { a };
            value = self.fold.combine_elements(value, term);
        }
        value
    }
}

/// Folds elements by repeatedly folding one half into the other. Used only for folds whose result does not depend on
/// the order.
#[inline(always)]
fn in_halves<T: Float>(fold: Fold, elements: &mut [T]) -> T {
    let mut half = elements.len() / 2;
    while half > 0 {
        let (left, right) = elements.split_at_mut(half);
        for (left, right) in left.iter_mut().zip(right) {
            *left = fold.combine_elements(*left, *right);
        }
        half /= 2;
    }
    elements[0]
}

/// Returns `sum` combined with vector `index` of `a`, or of the product of `a` and `b`.
#[inline(always)]
fn with_term<T: Float, S: Simd>(
    simd: S,
    fold: Fold,
    sum: T::Vector<S>,
    a: &impl SourceRow<T, S>,
    b: Option<&impl SourceRow<T, S>>,
    index: usize,
) -> T::Vector<S> {
    let x = a.vector(index, sum);
    match b {
        Some(b) if fold == Fold::Sum => T::mul_add(simd, x, b.vector(index, sum), sum),
        _ => fold.combine::<T, S>(simd, sum, x),
    }
}
