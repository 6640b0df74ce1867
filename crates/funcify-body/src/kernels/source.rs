//! Defines the operands of kernels: one element per lane, one element per row (broadcast to all lanes), or the
//! destination itself.

use super::*;

/// An operand of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a, T> {
    /// One element per lane: row r starts at `data[r * stride]`. A stride of 0 broadcasts one row to all rows.
    Lanes { data: &'a [T], stride: usize },
    /// One element per row, broadcast to all lanes: the element of row r is `data[r * stride]`.
    Element { data: &'a [T], stride: usize },
    /// The destination itself: the operand is the destination's contents before the instruction runs.
    Same,
}

impl<'a, T> Source<'a, T> {
    /// Returns the operand without its first rows.
    pub fn skip_rows(self, rows: usize) -> Self {
        match self {
            Source::Lanes { data, stride } => Source::Lanes { data: &data[rows * stride..], stride },
            Source::Element { data, stride } => Source::Element { data: &data[rows * stride..], stride },
            Source::Same => Source::Same,
        }
    }
}

impl<T: Float> Source<'_, T> {
    /// Returns the element at a row and lane. `old` is the current element of the destination at this position.
    pub fn element(&self, row: usize, lane: usize, old: T) -> T {
        match self {
            Source::Lanes { data, stride } => data[row * stride + lane],
            Source::Element { data, stride } => data[row * stride],
            Source::Same => old,
        }
    }
}

/// The rows of an operand. Each implementation supports one kind of operand, or distinguishes two kinds at run time.
pub trait RowSource<T: Float, S: Simd>: Copy {
    /// A row of the operand.
    type Row: SourceRow<T, S>;

    /// Returns row `row`, which has `lanes` elements.
    fn row(self, simd: S, row: usize, lanes: usize) -> Self::Row;
}

/// A row of an operand.
pub trait SourceRow<T: Float, S: Simd> {
    /// Returns vector `index` of the row. `old` is the destination's current vector at this index.
    fn vector(&self, index: usize, old: T::Vector<S>) -> T::Vector<S>;
    /// Returns the elements after the last full vector, padded to a full vector. `old` holds the corresponding elements
    /// of the destination.
    fn tail(&self, simd: S, old: T::Vector<S>) -> T::Vector<S>;
}

/// Rows with one element per lane.
#[derive(Clone, Copy)]
pub struct LaneRows<'a, T> {
    pub data: &'a [T],
    pub stride: usize,
}

/// A row with one element per lane.
pub struct LaneRow<'a, T: Float, S: Simd> {
    vectors: &'a [T::Vector<S>],
    tail: &'a [T],
}

impl<'a, T: Float, S: Simd> RowSource<T, S> for LaneRows<'a, T> {
    type Row = LaneRow<'a, T, S>;

    #[inline(always)]
    fn row(self, _: S, row: usize, lanes: usize) -> Self::Row {
        let (vectors, tail) = T::as_vectors::<S>(&self.data[row * self.stride..][..lanes]);
        LaneRow { vectors, tail }
    }
}

impl<T: Float, S: Simd> SourceRow<T, S> for LaneRow<'_, T, S> {
    #[inline(always)]
    fn vector(&self, index: usize, _: T::Vector<S>) -> T::Vector<S> {
        self.vectors[index]
    }
    #[inline(always)]
    fn tail(&self, simd: S, _: T::Vector<S>) -> T::Vector<S> {
        T::load_part(simd, self.tail)
    }
}

/// Rows with one element each, broadcast to all lanes.
#[derive(Clone, Copy)]
pub struct ElementRows<'a, T> {
    pub data: &'a [T],
    pub stride: usize,
}

/// A row with one element, broadcast to all lanes of a vector.
pub struct ElementRow<T: Float, S: Simd>(T::Vector<S>);

impl<T: Float, S: Simd> RowSource<T, S> for ElementRows<'_, T> {
    type Row = ElementRow<T, S>;

    #[inline(always)]
    fn row(self, simd: S, row: usize, _: usize) -> Self::Row {
        ElementRow(T::splat(simd, self.data[row * self.stride]))
    }
}

impl<T: Float, S: Simd> SourceRow<T, S> for ElementRow<T, S> {
    #[inline(always)]
    fn vector(&self, _: usize, _: T::Vector<S>) -> T::Vector<S> {
        self.0
    }
    #[inline(always)]
    fn tail(&self, _: S, _: T::Vector<S>) -> T::Vector<S> {
        self.0
    }
}

/// The rows of the destination itself.
#[derive(Clone, Copy)]
pub struct SameRows;

impl<T: Float, S: Simd> RowSource<T, S> for SameRows {
    type Row = SameRows;

    #[inline(always)]
    fn row(self, _: S, _: usize, _: usize) -> SameRows {
        SameRows
    }
}

impl<T: Float, S: Simd> SourceRow<T, S> for SameRows {
    #[inline(always)]
    fn vector(&self, _: usize, old: T::Vector<S>) -> T::Vector<S> {
        old
    }
    #[inline(always)]
    fn tail(&self, _: S, old: T::Vector<S>) -> T::Vector<S> {
        old
    }
}

/// Rows with one element per lane, or with one element that is broadcast to all lanes. The kind of the rows is tested
/// at run time, so this type suits ops that cost more than the test.
#[derive(Clone, Copy)]
pub struct LaneOrElementRows<'a, T> {
    pub data: &'a [T],
    pub stride: usize,
    pub element: bool,
}

/// A row with one element per lane, or with one element that is broadcast to all lanes. In the latter case, `lanes` is
/// not read.
pub struct LaneOrElementRow<'a, T: Float, S: Simd> {
    lanes: LaneRow<'a, T, S>,
    splat: [T::Vector<S>; 1],
    element: bool,
}

impl<'a, T: Float, S: Simd> RowSource<T, S> for LaneOrElementRows<'a, T> {
    type Row = LaneOrElementRow<'a, T, S>;

    #[inline(always)]
    fn row(self, simd: S, row: usize, lanes: usize) -> Self::Row {
        let data = &self.data[row * self.stride..];
        let (vectors, tail) = T::as_vectors::<S>(if self.element { &[] } else { &data[..lanes] });
        LaneOrElementRow { lanes: LaneRow { vectors, tail }, splat: [T::splat(simd, data[0])], element: self.element }
    }
}

impl<T: Float, S: Simd> SourceRow<T, S> for LaneOrElementRow<'_, T, S> {
    #[inline(always)]
    fn vector(&self, index: usize, _: T::Vector<S>) -> T::Vector<S> {
        let (vectors, mask) = if self.element { (&self.splat[..], 0) } else { (self.lanes.vectors, usize::MAX) };
        vectors[index & mask]
    }
    #[inline(always)]
    fn tail(&self, simd: S, old: T::Vector<S>) -> T::Vector<S> {
        if self.element { self.splat[0] } else { self.lanes.tail(simd, old) }
    }
}

/// Rows with one element per lane, or the rows of the destination. The kind of the rows is tested at run time, so this
/// type suits ops that cost more than the test.
#[derive(Clone, Copy)]
pub struct LaneOrSameRows<'a, T> {
    pub data: &'a [T],
    pub stride: usize,
    pub same: bool,
}

/// A row with one element per lane, or a row of the destination. In the latter case, `lanes` is not read.
pub struct LaneOrSameRow<'a, T: Float, S: Simd> {
    lanes: LaneRow<'a, T, S>,
    same: bool,
}

impl<'a, T: Float, S: Simd> RowSource<T, S> for LaneOrSameRows<'a, T> {
    type Row = LaneOrSameRow<'a, T, S>;

    #[inline(always)]
    fn row(self, simd: S, row: usize, lanes: usize) -> Self::Row {
        let rows = LaneRows { data: self.data, stride: self.stride };
        LaneOrSameRow { lanes: rows.row(simd, row, if self.same { 0 } else { lanes }), same: self.same }
    }
}

impl<T: Float, S: Simd> SourceRow<T, S> for LaneOrSameRow<'_, T, S> {
    #[inline(always)]
    fn vector(&self, index: usize, old: T::Vector<S>) -> T::Vector<S> {
        if self.same { old } else { self.lanes.vectors[index] }
    }
    #[inline(always)]
    fn tail(&self, simd: S, old: T::Vector<S>) -> T::Vector<S> {
        if self.same { old } else { self.lanes.tail(simd, old) }
    }
}
