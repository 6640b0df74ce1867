//! A kernel that multiplies batches of integer matrices.

use funcify_body::IntBinary;
use funcify_body::integer::Integer;

use super::*;

/// A kernel that multiplies two batches of integer matrices. Products and sums wrap around on overflow.
#[derive(Clone, Debug)]
pub(crate) struct IntegerProduct {
    matrices: usize,
    rows: usize,
    inner: usize,
    columns: usize,
    ty: ElementType,
}

impl IntegerProduct {
    /// Creates the kernel for a left operand of shape `left` and a result of shape `result`.
    pub(super) fn new(left: &[usize], result: &[usize], ty: ElementType) -> Self {
        let [batch @ .., rows, columns] = result else { unreachable!("the type rule requires at least two axes") };
        let inner = *left.last().expect("the type rule requires at least two axes");
        IntegerProduct { matrices: batch.iter().product(), rows: *rows, inner, columns: *columns, ty }
    }

    /// Returns the number of multiplications in all products.
    pub(super) fn terms(&self) -> f64 {
        (self.matrices * self.rows * self.columns) as f64 * self.inner as f64
    }

    pub(super) fn run<S: Simd>(&self, simd: S, to: &mut [u8], left: &[u8], right: &[u8]) {
        with_element!(integer self.ty, E => {
            let (to, left, right): (&mut [E], &[E], &[E]) = (elements_mut(to), elements(left), elements(right));
            simd.vectorize(LoopCall(self, (to, left, right)));
        });
    }
}

impl<I: Integer> InnerLoop<(&mut [I], &[I], &[I])> for IntegerProduct {
    #[inline(always)]
    fn run_loop(&self, (to, left, right): (&mut [I], &[I], &[I])) {
        let IntegerProduct { rows, inner, columns, .. } = *self;
        let (sum, product) = (|a, b| I::binary(IntBinary::Add, a, b), |a, b| I::binary(IntBinary::Mul, a, b));
        to.fill(I::of(0));
        for matrix in 0..self.matrices {
            let right = &right[matrix * inner * columns..][..inner * columns];
            for row in matrix * rows..(matrix + 1) * rows {
                let (to, left) = (&mut to[row * columns..][..columns], &left[row * inner..][..inner]);
                if columns == 1 {
                    to[0] = left.iter().zip(right).fold(to[0], |total, (x, y)| sum(total, product(*x, *y)));
                    continue;
                }
                for (x, line) in left.iter().zip(right.chunks_exact(columns.max(1))) {
                    to.iter_mut().zip(line).for_each(|(to, y)| *to = sum(*to, product(*x, *y)));
                }
            }
        }
    }
}
