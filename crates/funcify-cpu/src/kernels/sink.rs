//! Adds the sum of leftᵀ · right over blocks of rows to a target matrix.
//!
//! A backward loop uses this kernel to add up the gradient of a weight over several steps (a strip). Each tile is
//! accumulated from 0 in registers, and then added to the target. If the sums started from the target instead, all
//! steps of the loop would form one long chain of dependent additions. The rows of a step form a block, and the blocks
//! of a strip may be anywhere in memory.

use super::map::Target;
use super::product::{add_pairs, load_columns, load_pair, most_rows, store_pair, with_rows};
use super::*;

/// The left or right operand, as blocks of rows. Within a block, the stride between rows is `stride` elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<'a, T> {
    pub(crate) blocks: &'a [&'a [T]],
    pub(crate) stride: usize,
}

/// Adds Σ leftᵀ · right to the target, which has a row for each column of the left operand. `rows` is the number of
/// rows per block.
pub(crate) fn sink<T: Float, S: Simd>(
    simd: S,
    mut target: Target<'_, T>,
    rows: usize,
    left: Side<'_, T>,
    right: Side<'_, T>,
) {
    let tiles = target.rows.div_ceil(most_rows::<S>());
    for first_column in (0..target.lanes).step_by(2 * T::lanes::<S>()) {
        let mut first_row = 0;
        for tile in 0..tiles {
            let height = (target.rows - first_row).div_ceil(tiles - tile);
            let target = &mut target;
            let work = Sums { rows, left, right, first_row, first_column };
            with_rows!(simd, height, Tile { target, work });
            first_row += height;
        }
    }
}

/// The outer products whose sum is added to the tile of the target at `first_row` and `first_column`.
#[derive(Clone, Copy)]
struct Sums<'a, T> {
    rows: usize,
    left: Side<'a, T>,
    right: Side<'a, T>,
    first_row: usize,
    first_column: usize,
}

/// A tile of the target, with `ROWS` rows and two vectors of columns.
struct Tile<'t, 'a, T, const ROWS: usize> {
    target: &'t mut Target<'a, T>,
    work: Sums<'t, T>,
}

impl<T: Float, const ROWS: usize> WithSimd for Tile<'_, '_, T, ROWS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Tile { target, work } = self;
        let width = 2 * T::lanes::<S>();
        let columns = width.min(target.lanes - work.first_column);
        let sums = if columns == width {
            work.sum::<S, ROWS, true>(simd, width)
        } else {
            work.sum::<S, ROWS, false>(simd, columns)
        };
        for (row, sums) in sums.into_iter().enumerate() {
            let to = &mut target.row(work.first_row + row)[work.first_column..][..columns];
            let old = load_pair::<T, S>(simd, to);
            store_pair::<T, S>(simd, to, add_pairs::<T, S>(simd, old, sums));
        }
    }
}

impl<T: Float> Sums<'_, T> {
    /// Returns the sums of the outer products, accumulated from 0. `WHOLE` is `true` if the columns of the tile fill
    /// two vectors.
    #[inline(always)]
    fn sum<S: Simd, const ROWS: usize, const WHOLE: bool>(self, simd: S, columns: usize) -> [[T::Vector<S>; 2]; ROWS] {
        let mut sums = [[T::splat(simd, T::ZERO); 2]; ROWS];
        for (left, right) in self.left.blocks.iter().zip(self.right.blocks) {
            for row in 0..self.rows {
                let (left, _) = left[row * self.left.stride + self.first_row..].as_chunks::<ROWS>();
                let right = &right[row * self.right.stride + self.first_column..][..columns];
                let [left_half, right_half] = load_columns::<T, S, WHOLE>(simd, right);
                for (sums, x) in sums.iter_mut().zip(left[0]) {
                    let x = T::splat(simd, x);
                    sums[0] = T::mul_add(simd, x, left_half, sums[0]);
                    sums[1] = T::mul_add(simd, x, right_half, sums[1]);
                }
            }
        }
        sums
    }
}
