//! Methods of a value that are composed from ops: softmax and similar functions, statistics, triangular matrices and
//! diagonals.

use super::*;

/// Creates a boolean matrix that is `true` on and below a diagonal. The element at row `i` and column `j` is `true` if
/// `j <= i + diagonal`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, tri_mask};
///
/// let graph = Graph::build("causal", |_| tri_mask(2, 3, 0))?;
/// assert_eq!(evaluate(&graph, &[])?, [[[true, false, false], [true, true, false]].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn tri_mask(rows: impl Into<Dim>, columns: impl Into<Dim>, diagonal: i64) -> Value {
    let rows = iota(rows, DType::I64).unsqueeze(1) + diagonal;
    rows.ge(iota(columns, DType::I64))
}

/// Creates the identity matrix.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, eye};
///
/// let graph = Graph::build("identity", |_| eye(2, DType::F32))?;
/// assert_eq!(evaluate(&graph, &[])?, [[[1f32, 0.0], [0.0, 1.0]].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn eye(size: impl Into<Dim>, dtype: DType) -> Value {
    let positions = iota(size, DType::I64);
    positions.unsqueeze(1).eq(positions).cast(dtype)
}

impl Value {
    /// Computes log(sum(exp(x))) along an axis without overflow. The axis is removed. As in JAX, the result is -inf if
    /// all elements are -inf, inf if any element is inf, and NaN if any element is NaN.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").logsumexp(0))?;
    /// assert_eq!(evaluate(&graph, &[[1000f32, 0.0].into()])?, [1000f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn logsumexp(self, axis: i64) -> Value {
        let largest = self.max(axis).stop_gradient();
        // Subtract 0 instead of an infinite maximum, because infinity minus infinity would be NaN.
        let largest = select(largest.abs().lt(f64::INFINITY), largest, 0.0);
        let shifted = self - largest.unsqueeze(axis);
        shifted.exp().sum(axis).log() + largest
    }

    /// Computes exp(x) / sum(exp(x)) along an axis without overflow. As in JAX, a row yields NaN if it contains inf, or
    /// if all its elements are -inf.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").softmax(0))?;
    /// assert_eq!(evaluate(&graph, &[[1000f32, 1000.0].into()])?, [[0.5f32, 0.5].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn softmax(self, axis: i64) -> Value {
        let weights = (self - self.max(axis).stop_gradient().unsqueeze(axis)).exp();
        weights / weights.sum(axis).unsqueeze(axis)
    }

    /// Computes log(softmax(x)) along an axis without overflow. The result is accurate even if all elements are large.
    /// As in JAX, a row yields NaN if it contains inf, or if all its elements are -inf.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").log_softmax(0))?;
    /// assert_eq!(evaluate(&graph, &[[0f32, 1000.0].into()])?, [[-1000f32, 0.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn log_softmax(self, axis: i64) -> Value {
        let shifted = self - self.max(axis).stop_gradient().unsqueeze(axis);
        shifted - shifted.exp().sum(axis).log().unsqueeze(axis)
    }

    /// Computes the Euclidean norm, sqrt(sum(x^2)), along the given axes. The axes are removed.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").norm(..))?;
    /// assert_eq!(evaluate(&graph, &[[3f32, 4.0].into()])?, [5f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn norm(self, axes: impl Into<Axes>) -> Value {
        self.square().sum(axes).sqrt()
    }

    /// Computes the variance along the given axes: the mean squared deviation from the mean, like NumPy's `var` with
    /// `ddof=0`. The axes are removed. The variance of zero elements is NaN.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").var(0))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 3.0].into()])?, [1f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn var(self, axes: impl Into<Axes>) -> Value {
        let axes = axes.into();
        let Some(reduced) = axes.normal("var", self) else {
            return Value::failed();
        };
        let mut mean = self.mean(axes.clone());
        for axis in reduced {
            mean = mean.unsqueeze(axis as i64);
        }
        (self - mean).square().mean(axes)
    }

    /// Computes the standard deviation along the given axes: the square root of [`var`](Value::var). The axes are
    /// removed.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").std(0))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 5.0].into()])?, [2f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn std(self, axes: impl Into<Axes>) -> Value {
        self.var(axes).sqrt()
    }

    /// Sets the elements above a diagonal to zero, in the matrices formed by the last two axes. Diagonal 0 is the main
    /// diagonal, and diagonal 1 is directly above the main diagonal.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2,2]").tril(0))?;
    /// assert_eq!(evaluate(&graph, &[[[1f32, 2.0], [3.0, 4.0]].into()])?, [[[1f32, 0.0], [3.0, 4.0]].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn tril(self, diagonal: i64) -> Value {
        match self.matrix("tril") {
            Some([rows, columns]) => select(tri_mask(rows, columns, diagonal), self, self.zeros_like()),
            None => Value::failed(),
        }
    }

    /// Sets the elements below a diagonal to zero, in the matrices formed by the last two axes. Diagonal 0 is the main
    /// diagonal, and diagonal 1 is directly above the main diagonal.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2,2]").triu(0))?;
    /// assert_eq!(evaluate(&graph, &[[[1f32, 2.0], [3.0, 4.0]].into()])?, [[[1f32, 2.0], [0.0, 4.0]].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn triu(self, diagonal: i64) -> Value {
        match self.matrix("triu") {
            Some([rows, columns]) => select(tri_mask(rows, columns, diagonal - 1), self.zeros_like(), self),
            None => Value::failed(),
        }
    }

    /// Extracts the diagonals of the square matrices formed by the last two axes: `[.., n, n]` becomes `[.., n]`.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2,2]").diagonal())?;
    /// assert_eq!(evaluate(&graph, &[[[1f32, 2.0], [3.0, 4.0]].into()])?, [[1f32, 4.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal(self) -> Value {
        let Some([rows, columns]) = self.matrix("diagonal") else {
            return Value::failed();
        };
        if rows != columns {
            return fail_value("diagonal", Site::caller(), &[self], |at| {
                let fix = "slice it to equal numbers of rows and columns";
                at.mismatch("the operand", "square matrices", self.ty(), fix)
            });
        }
        let shape = self.shape().with_dim(self.rank() - 1, 1);
        self.gather(-1, iota(rows, DType::I64).unsqueeze(1).broadcast_to(shape)).squeeze(-1)
    }

    /// Returns the sizes of the last two axes. If the value has failed or has fewer than two axes, reports an error and
    /// returns `None`.
    #[track_caller]
    fn matrix(self, op: &str) -> Option<[Dim; 2]> {
        let shape = self.shape();
        let rank = shape.rank();
        if rank >= 2 && !self.is_failed() {
            return Some([shape[rank - 2].clone(), shape[rank - 1].clone()]);
        }
        fail(op, Site::caller(), &[self], |at| {
            at.mismatch("the operand", "rank 2 or more", self.ty(), "reshape it to matrices")
        });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, HostTensor, evaluate};

    /// Checks that `f` returns `expected` for `x`. NaN compares equal to NaN.
    fn check(x: impl Into<HostTensor>, f: impl Fn(Value) -> Value, expected: impl Into<HostTensor>) {
        let (x, expected) = (x.into(), expected.into());
        let graph = Graph::build("f", |b| f(b.input("x", x.ty()))).unwrap_or_else(|error| panic!("{error}"));
        let found = evaluate(&graph, &[x]).unwrap().swap_remove(0);
        let (a, b) = (found.to_f64_vec(), expected.to_f64_vec());
        let same = a.iter().zip(&b).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
        assert!(found.ty() == expected.ty() && same, "{found:?} is not {expected:?}");
    }

    #[test]
    fn rows_with_infinities() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let rows = [[-inf, -inf], [inf, 0.0], [nan, 0.0], [-inf, 0.0], [1e300, -1e300]];
        check(rows, |x| x.logsumexp(1), [-inf, inf, nan, 0.0, 1e300]);
        check(rows, |x| x.softmax(1), [[nan, nan], [nan, nan], [nan, nan], [0.0, 1.0], [1.0, 0.0]]);
        check(rows, |x| x.log_softmax(1), [[nan, nan], [nan, nan], [nan, nan], [-inf, 0.0], [0.0, -2e300]]);
    }

    #[test]
    fn large_rows_keep_their_differences() {
        let half = (0.5f64.ln()) as f32;
        check([[3e8f32, 3e8]], |x| x.log_softmax(1), [[half, half]]);
        check([[3e38f32, 3e38]], |x| x.softmax(1), [[0.5f32, 0.5]]);
    }

    #[test]
    fn statistics() {
        check([[1f64, 3.0], [5.0, 9.0]], |x| x.var(1), [1f64, 4.0]);
        check([[1f64, 3.0], [5.0, 9.0]], |x| x.std(0), [2f64, 3.0]);
        check([[1f64, 3.0], [5.0, 7.0]], |x| x.var(..), HostTensor::scalar(5f64));
        check([3f64, 4.0], |x| x.norm(0), HostTensor::scalar(5f64));
        check([0f32; 0], |x| x.var(0), HostTensor::scalar(f32::NAN));
    }

    #[test]
    fn triangles_and_diagonals() {
        let x = [[1i32, 2, 3], [4, 5, 6], [7, 8, 9]];
        check(x, |x| x.tril(0), [[1i32, 0, 0], [4, 5, 0], [7, 8, 9]]);
        check(x, |x| x.tril(1), [[1i32, 2, 0], [4, 5, 6], [7, 8, 9]]);
        check(x, |x| x.triu(0), [[1i32, 2, 3], [0, 5, 6], [0, 0, 9]]);
        check(x, |x| x.triu(-1), [[1i32, 2, 3], [4, 5, 6], [0, 8, 9]]);
        check(x, Value::diagonal, [1i32, 5, 9]);
        check(x, |x| x.slice(0, ..2).triu(2), [[0i32, 0, 3], [0, 0, 0]]);
        check([[f32::NAN, f32::INFINITY], [1.0, 2.0]], |x| x.triu(1), [[0f32, f32::INFINITY], [0.0, 0.0]]);
        check([0u8], |_| eye(2, DType::U8), [[1u8, 0], [0, 1]]);
    }

    #[test]
    fn integers_become_rows_and_positions() {
        check([2u8, 0, 255], |x| x.one_hot(3, DType::F32), [[0f32, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0; 3]]);
        check([2u8, 255, 255], |x| x.one_hot(256, DType::I32).sum(0).slice(0, 254..), [0i32, 2]);
        check(
            [[1f32, 2.0], [3.0, 4.0]],
            |x| x.embedding(super::super::constant([1i64, 0, 7])),
            [[3f32, 4.0], [1.0, 2.0], [3.0, 4.0]],
        );
        check([[i64::MIN, 3, i64::MIN], [i64::MAX, 2, 2]], |x| x.argmin(1), [0i64, 1]);
        check([[0u8, 255], [255, 0]], |x| x.argmin(1), [0i64, 1]);
        check([[1f32, f32::NAN, -3.0], [0.0, -0.0, 1.0]], |x| x.argmin(1), [1i64, 0]);
    }

    #[test]
    fn in_the_order_of_another() {
        let keys = [[3i64, 1, 2], [1, 3, 1]];
        check(keys, |x| x.top_k(-1, 2).0, [[3i64, 2], [3, 1]]);
        check(keys, |x| x.top_k(-1, 2).1, [[0i64, 2], [1, 0]]);
        check(keys, |x| (x * 10).take_along(1, x.argsort(1, false)), [[10i64, 20, 30], [10, 10, 30]]);
    }

    #[test]
    fn refusals_name_what_the_user_called() {
        let refused = |f: fn(Value) -> Value| {
            Graph::build("f", |b| f(b.input("x", "f32[2,3]"))).expect_err("it is rejected").to_string()
        };
        for (f, expected) in [
            (Value::diagonal as fn(Value) -> Value, "square matrices"),
            (|x| x.sum(0).tril(0), "rank 2 or more"),
            (|x| x.one_hot(3, DType::F32), "an integer type"),
            (|x| x.top_k(1, 4).0, "4"),
            (|x| x.sort(2, false).0, "an axis from -2 to 1"),
            (|x| x.var(5), "an axis from -2 to 1"),
        ] {
            let error = refused(f);
            assert!(error.contains(expected), "{error}\ndoes not say {expected}");
        }
    }
}
