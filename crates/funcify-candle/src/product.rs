//! Multiplies float matrices using `gemm`, the library that Candle calls on the CPU. This file contains the only unsafe
//! code in the crate, because `gemm` has no safe interface.

use std::sync::OnceLock;

use candle_core::{WithDType, utils};
use gemm::{Parallelism, gemm};
use half::f16;
use ndarray::ArrayView3;

/// An element type that `gemm` supports.
pub(crate) trait Number: WithDType {}

impl Number for f16 {}
impl Number for f32 {}
impl Number for f64 {}

/// Multiplies each pair of matrices: `[batch, rows, inner]` times `[batch, inner, columns]`. Returns the products in
/// row-major order.
pub(crate) fn products<T: Number>(left: ArrayView3<'_, T>, right: ArrayView3<'_, T>) -> Vec<T> {
    let ((batch, rows, inner), columns) = (left.dim(), right.dim().2);
    assert_eq!(right.dim(), (batch, inner, columns), "the type rule fixes the shapes of the operands");
    let mut products = vec![T::zero(); batch * rows * columns];
    let pairs = left.outer_iter().zip(right.outer_iter());
    for ((left, right), to) in pairs.zip(products.chunks_exact_mut((rows * columns).max(1))) {
        let ([left_row, left_column], [right_row, right_column]) = (strides(left.strides()), strides(right.strides()));
        #[expect(unsafe_code, reason = "`gemm` has no safe function")]
        // SAFETY: with these strides, every index into a view stays within the elements that the view borrows. `to` has
        // `rows * columns` elements, is written only at `row * columns + column`, and does not overlap the operands.
        // `gemm` supports `T`.
        unsafe {
            gemm(
                rows,
                columns,
                inner,
                to.as_mut_ptr(),
                1,
                columns as isize,
                false,
                left.as_ptr(),
                left_column,
                left_row,
                right.as_ptr(),
                right_column,
                right_row,
                T::zero(),
                T::one(),
                false,
                false,
                false,
                parallelism(),
            );
        }
    }
    products
}

/// Returns the row stride and the column stride of a matrix.
fn strides(strides: &[isize]) -> [isize; 2] {
    [strides[0], strides[1]]
}

/// Returns the parallelism for `gemm`: the number of threads that Candle would use. Queries Candle only once.
fn parallelism() -> Parallelism {
    static THREADS: OnceLock<usize> = OnceLock::new();
    match *THREADS.get_or_init(utils::get_num_threads) {
        0 | 1 => Parallelism::None,
        threads => Parallelism::Rayon(threads),
    }
}
