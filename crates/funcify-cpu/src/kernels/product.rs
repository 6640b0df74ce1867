//! Matrix products with a pre-packed right operand: target = then(init + Σ left · right).
//!
//! A tile has up to 12 rows (6 on processors with 16 registers) and two vectors of columns. The sums of a tile stay in
//! registers over the whole inner axis. The right operand is packed as panels `[k][two vectors]` and read sequentially.
//! The left operand is read in place, one element at a time. Rows are divided evenly among the tiles: 16 rows become 8
//! and 8, not 12 and 4.

use super::map::{Function1, Target};
use super::math::MathTable;
use super::movement::transpose;
use super::source::Source;
use super::table::Elementwise;
use super::unary::{self, Unary};
use super::*;

/// Returns the number of elements of a packed right operand with `k` rows and `n` columns. This number is large enough
/// for every instruction set.
pub const fn packed_len<T>(k: usize, n: usize) -> usize {
    const MAX_PANEL_BYTES: usize = 128;
    k * n.next_multiple_of(MAX_PANEL_BYTES / size_of::<T>())
}

/// The operands of one matrix product: a left operand and a packed right operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor<'a, T> {
    /// The elements of the left operand. Row r is `left[r * stride..][..k]`.
    pub(crate) left: &'a [T],
    pub(crate) stride: usize,
    /// The size of the inner axis.
    pub(crate) k: usize,
    /// The right operand, packed by [`pack`].
    pub(crate) packed: &'a [T],
}

impl<T> Factor<'_, T> {
    /// Returns the operands without the first rows of the left operand.
    pub(crate) fn skip_rows(self, rows: usize) -> Self {
        // The list of operands contains empty ones.
        Factor { left: self.left.get(rows * self.stride..).unwrap_or_default(), ..self }
    }
}

/// Packs a matrix with `k` rows and `n` columns, whose element (i, j) is `from[i * rows + j * columns]`. Pads the last
/// panel with zeros.
pub(crate) fn pack<T: Float, S: Simd>(_: S, to: &mut [T], from: &[T], [k, n]: [usize; 2], [rows, columns]: [usize; 2]) {
    let width = 2 * T::lanes::<S>();
    let (whole, last) = (n / width, n % width);
    if last > 0 {
        to[whole * k * width..][..k * width].fill(T::ZERO);
    }
    if columns == 1 {
        // Read in memory order, because the matrix might not be in the L1 or L2 cache.
        for i in 0..k {
            for (panel, part) in from[i * rows..][..n].chunks(width).enumerate() {
                to[(panel * k + i) * width..][..part.len()].copy_from_slice(part);
            }
        }
        return;
    }
    for (panel, to) in to.chunks_exact_mut(k * width).take(n.div_ceil(width)).enumerate() {
        let (first, lanes) = (panel * width, if panel < whole { width } else { last });
        if rows == 1 {
            transpose(Target { data: to, rows: k, lanes, stride: width }, &from[first * columns..], columns);
            continue;
        }
        for (i, to) in to.chunks_exact_mut(width).enumerate() {
            for (j, to) in to[..lanes].iter_mut().enumerate() {
                *to = from[i * rows + (first + j) * columns];
            }
        }
    }
}

/// Returns the maximum number of rows of a tile whose sums all fit in registers.
pub(crate) const fn most_rows<S: Simd>() -> usize {
    if Registers::<S>::ARE_FEW { 6 } else { 12 }
}

/// The register count of an instruction set. The count is a constant, so that the compiler does not instantiate tiles
/// that do not fit in registers.
pub(crate) struct Registers<S>(PhantomData<S>);

impl<S: Simd> Registers<S> {
    /// `true` if there are fewer than 32 registers.
    pub(crate) const ARE_FEW: bool = S::REGISTER_COUNT < 32;
}

/// Computes a sum of matrix products. The sum starts from `init`, or from 0 if `init` is `None`. At the end, applies
/// `then` to each element.
pub(crate) fn product<T: MathTable, S: Simd>(
    simd: S,
    target: &mut Target<'_, T>,
    factors: &[Factor<'_, T>],
    init: Option<Source<'_, T>>,
    then: Option<Unary>,
) {
    let then = match (target.rows, then) {
        // For a single row, apply the function before the sums are stored, because a single-row product is often on the
        // critical path of a recurrent network.
        (1, Some(Unary::Tanh)) => return one_row::<T, S, unary::Tanh>(simd, target, factors, init),
        (1, Some(Unary::Sigmoid)) => return one_row::<T, S, unary::Sigmoid>(simd, target, factors, init),
        (1, then) => {
            one_row::<T, S, unary::Copy>(simd, target, factors, init);
            then
        }
        (_, then) => {
            rows(simd, target, factors, init);
            then
        }
    };
    if let Some(then) = then {
        then.run(simd, target, &[Source::Same; 3]);
    }
}

/// Runs a tile, and passes the number of rows to the tile as a const parameter. If that many rows do not fit in
/// registers, the maximum number that fits is passed instead.
macro_rules! with_rows {
    ($simd:ident, $rows:expr, $tile:ident $fields:tt) => {
        match $rows {
            1 => $simd.vectorize($tile::<T, 1> $fields),
            2 => $simd.vectorize($tile::<T, 2> $fields),
            3 => $simd.vectorize($tile::<T, 3> $fields),
            4 => $simd.vectorize($tile::<T, 4> $fields),
            5 => $simd.vectorize($tile::<T, 5> $fields),
            _ if $crate::kernels::product::Registers::<S>::ARE_FEW => $simd.vectorize($tile::<T, 6> $fields),
            6 => $simd.vectorize($tile::<T, 6> $fields),
            7 => $simd.vectorize($tile::<T, 7> $fields),
            8 => $simd.vectorize($tile::<T, 8> $fields),
            9 => $simd.vectorize($tile::<T, 9> $fields),
            10 => $simd.vectorize($tile::<T, 10> $fields),
            11 => $simd.vectorize($tile::<T, 11> $fields),
            _ => $simd.vectorize($tile::<T, 12> $fields),
        }
    };
}

pub(crate) use with_rows;

/// Computes a product whose left operand has several rows.
fn rows<T: Float, S: Simd>(
    simd: S,
    target: &mut Target<'_, T>,
    factors: &[Factor<'_, T>],
    init: Option<Source<'_, T>>,
) {
    let tiles = target.rows.div_ceil(most_rows::<S>());
    for first_column in (0..target.lanes).step_by(2 * T::lanes::<S>()) {
        let mut first_row = 0;
        for tile in 0..tiles {
            let rows = (target.rows - first_row).div_ceil(tiles - tile);
            let target = &mut *target;
            let place = TilePlace { first_row, first_column };
            with_rows!(simd, rows, Tile { target, factors, init, place });
            first_row += rows;
        }
    }
}

/// The position of a tile in the target.
#[derive(Clone, Copy)]
struct TilePlace {
    first_row: usize,
    first_column: usize,
}

/// A tile to be computed: `ROWS` rows and one panel of columns.
struct Tile<'t, 'to, 'a, T, const ROWS: usize> {
    target: &'t mut Target<'to, T>,
    factors: &'t [Factor<'a, T>],
    init: Option<Source<'a, T>>,
    place: TilePlace,
}

impl<T: Float, const ROWS: usize> WithSimd for Tile<'_, '_, '_, T, ROWS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.target.lanes - self.place.first_column >= 2 * T::lanes::<S>() {
            self.run::<S, true>(simd);
        } else {
            self.run::<S, false>(simd);
        }
    }
}

impl<T: Float, const ROWS: usize> Tile<'_, '_, '_, T, ROWS> {
    /// Computes the tile. `WHOLE` is `true` if the columns fill two vectors.
    #[inline(always)]
    fn run<S: Simd, const WHOLE: bool>(self, simd: S) {
        let Tile { target, factors, init, place: TilePlace { first_row, first_column } } = self;
        let width = 2 * T::lanes::<S>();
        let columns = if WHOLE { width } else { target.lanes - first_column };
        let mut start = [[T::splat(simd, T::ZERO); 2]; ROWS];
        if let Some(init) = init {
            for (row, start) in start.iter_mut().enumerate() {
                let at = (first_row + row, first_column);
                *start = match init {
                    Source::Lanes { data, stride } => {
                        load_columns::<T, S, WHOLE>(simd, &data[at.0 * stride + at.1..][..columns])
                    }
                    Source::Element { data, stride } => [T::splat(simd, data[at.0 * stride]); 2],
                    Source::Same => load_columns::<T, S, WHOLE>(simd, &target.row(at.0)[at.1..][..columns]),
                };
            }
        }
        // The sums have an array of their own, which the inner loop alone uses: the compiler keeps an array in memory,
        // and stores each sum after each step, if any loop over it is not unrolled.
        let mut sums = start;
        for factor in factors {
            let k = factor.k;
            let rows: [&[T]; ROWS] = std::array::from_fn(|row| &factor.left[(first_row + row) * factor.stride..][..k]);
            let panel = &panels::<T, S>(factor.packed)[first_column / width * k..][..k];
            for i in 0..k {
                let [left_half, right_half] = panel[i];
                for row in 0..ROWS {
                    let x = T::splat(simd, rows[row][i]);
                    sums[row][0] = T::mul_add(simd, x, left_half, sums[row][0]);
                    sums[row][1] = T::mul_add(simd, x, right_half, sums[row][1]);
                }
            }
        }
        let done = sums;
        for (row, sums) in done.into_iter().enumerate() {
            let to = &mut target.row(first_row + row)[first_column..][..columns];
            match T::as_vectors_mut::<S>(to).0 {
                [a, b] if WHOLE => [*a, *b] = sums,
                _ => store_pair::<T, S>(simd, to, sums),
            }
        }
    }
}

/// Computes a product whose left operand has a single row, and applies a function to each element of the result.
fn one_row<T: Float, S: Simd, F: Function1<T>>(
    simd: S,
    target: &mut Target<'_, T>,
    factors: &[Factor<'_, T>],
    init: Option<Source<'_, T>>,
) {
    simd.vectorize(OneRow { to: target.row(0), factors, init, then: PhantomData::<F> });
}

/// A product whose left operand has a single row. It uses four accumulators per vector of columns, so that consecutive
/// additions do not depend on each other.
struct OneRow<'t, 'a, T, F> {
    to: &'t mut [T],
    factors: &'t [Factor<'a, T>],
    init: Option<Source<'a, T>>,
    then: PhantomData<F>,
}

impl<T: Float, F: Function1<T>> WithSimd for OneRow<'_, '_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = 2 * T::lanes::<S>();
        let zero = T::splat(simd, T::ZERO);
        for (index, to) in self.to.chunks_mut(width).enumerate() {
            let first = index * width;
            let mut sums = [[zero; 2]; 4];
            sums[0] = match self.init {
                None => [zero; 2],
                Some(Source::Lanes { data, .. }) => load_pair::<T, S>(simd, &data[first..][..to.len()]),
                Some(Source::Element { data, .. }) => [T::splat(simd, data[0]); 2],
                Some(Source::Same) => load_pair::<T, S>(simd, to),
            };
            for factor in self.factors {
                let k = factor.k;
                let (fours, rest) = factor.left[..k].as_chunks::<4>();
                let panel = &panels::<T, S>(factor.packed)[index * k..][..k];
                let (panel_fours, panel_rest) = panel.as_chunks::<4>();
                for (x, right) in fours.iter().zip(panel_fours) {
                    for part in 0..4 {
                        add_row::<T, S>(simd, &mut sums[part], x[part], right[part]);
                    }
                }
                for (part, (x, right)) in rest.iter().zip(panel_rest).enumerate() {
                    add_row::<T, S>(simd, &mut sums[part], *x, *right);
                }
            }
            let [first, second, third, fourth] = sums;
            let (left, right) = (add_pairs::<T, S>(simd, first, second), add_pairs::<T, S>(simd, third, fourth));
            let sums = add_pairs::<T, S>(simd, left, right);
            store_pair::<T, S>(simd, to, [F::apply(simd, sums[0]), F::apply(simd, sums[1])]);
        }
    }
}

#[inline(always)]
pub(crate) fn add_pairs<T: Float, S: Simd>(simd: S, a: [T::Vector<S>; 2], b: [T::Vector<S>; 2]) -> [T::Vector<S>; 2] {
    [T::add(simd, a[0], b[0]), T::add(simd, a[1], b[1])]
}

#[inline(always)]
fn add_row<T: Float, S: Simd>(simd: S, sums: &mut [T::Vector<S>; 2], x: T, right: [T::Vector<S>; 2]) {
    let x = T::splat(simd, x);
    sums[0] = T::mul_add(simd, x, right[0], sums[0]);
    sums[1] = T::mul_add(simd, x, right[1], sums[1]);
}

/// Splits packed elements into pairs of vectors.
#[inline(always)]
fn panels<T: Float, S: Simd>(packed: &[T]) -> &[[T::Vector<S>; 2]] {
    T::as_vectors::<S>(packed).0.as_chunks::<2>().0
}

/// Loads the columns of a tile from one row. `WHOLE` is `true` if the columns fill two vectors.
#[inline(always)]
pub(crate) fn load_columns<T: Float, S: Simd, const WHOLE: bool>(simd: S, from: &[T]) -> [T::Vector<S>; 2] {
    match T::as_vectors::<S>(from).0 {
        [a, b] if WHOLE => [*a, *b],
        _ => load_pair::<T, S>(simd, from),
    }
}

/// Loads up to two vectors of elements, and sets missing elements to 0.
#[inline(always)]
pub(crate) fn load_pair<T: Float, S: Simd>(simd: S, from: &[T]) -> [T::Vector<S>; 2] {
    match T::as_vectors::<S>(from) {
        ([a, b], _) => [*a, *b],
        ([a], tail) => [*a, T::load_part(simd, tail)],
        (_, tail) => [T::load_part(simd, tail), T::splat(simd, T::ZERO)],
    }
}

/// Fills the slice with the first elements of two vectors.
#[inline(always)]
pub(crate) fn store_pair<T: Float, S: Simd>(simd: S, to: &mut [T], values: [T::Vector<S>; 2]) {
    match T::as_vectors_mut::<S>(to) {
        ([a, b], _) => [*a, *b] = values,
        ([a], tail) => {
            *a = values[0];
            T::store_part(simd, tail, values[1]);
        }
        (_, tail) => T::store_part(simd, tail, values[0]),
    }
}
