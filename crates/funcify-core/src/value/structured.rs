//! The methods of a value that go along an axis in order, or slide over it: running reductions, sorting, convolution.

use super::*;
use crate::graph::emit_at;
use crate::ops::{Conv, ConvOptions, Cumulative, Sort};

impl Value {
    /// The running reduction of an axis: element `i` combines those up to and with `i`, or in reverse those from `i` on.
    #[track_caller]
    pub fn cumulative(self, kind: ReduceKind, axis: i64, reverse: bool) -> Value {
        self.with_axis("cumulative", axis, |axis| Cumulative { kind, axis, reverse })
    }

    /// The running sum of an axis; integers wrap. `reverse` starts from the end.
    #[track_caller]
    pub fn cumsum(self, axis: i64, reverse: bool) -> Value {
        self.cumulative(ReduceKind::Sum, axis, reverse)
    }

    /// The running product of an axis; integers wrap. `reverse` starts from the end.
    #[track_caller]
    pub fn cumprod(self, axis: i64, reverse: bool) -> Value {
        self.cumulative(ReduceKind::Prod, axis, reverse)
    }

    /// The largest so far along an axis; NaN wins from where it stands on. `reverse` starts from the end.
    #[track_caller]
    pub fn cummax(self, axis: i64, reverse: bool) -> Value {
        self.cumulative(ReduceKind::Max, axis, reverse)
    }

    /// The smallest so far along an axis; NaN wins from where it stands on. `reverse` starts from the end.
    #[track_caller]
    pub fn cummin(self, axis: i64, reverse: bool) -> Value {
        self.cumulative(ReduceKind::Min, axis, reverse)
    }

    /// The elements of an axis in order, and the position (i64) that each had. Stable; NaN is the greatest number.
    #[track_caller]
    pub fn sort(self, axis: i64, descending: bool) -> (Value, Value) {
        match normal_axis("sort", axis, self.rank(), &[self]) {
            Some(axis) => {
                let results = or_failed(emit_at(Sort { axis, descending }, &[self], Site::caller()), 2);
                (results[0], results[1])
            }
            None => (Value::failed(), Value::failed()),
        }
    }

    /// The positions (i64) that put an axis in order: `x.take_along(axis, x.argsort(axis, false))` is sorted, and so can
    /// other values be put in the order of `x`. Stable; NaN is the greatest number.
    #[track_caller]
    pub fn argsort(self, axis: i64, descending: bool) -> Value {
        self.sort(axis, descending).1
    }

    /// The `k` greatest elements of an axis, the greatest first, and their positions (i64). NaN is the greatest number; of
    /// equals the first come first.
    #[track_caller]
    pub fn top_k(self, axis: i64, k: impl Into<Dim>) -> (Value, Value) {
        let (sorted, positions) = self.sort(axis, true);
        if sorted.is_failed() {
            return (Value::failed(), Value::failed());
        }
        let k = k.into();
        (sorted.slice(axis, Dim::from(0)..k.clone()), positions.slice(axis, Dim::from(0)..k))
    }

    /// One element an index along an axis, as [`gather`](Value::gather): what [`argsort`](Value::argsort) gives is taken
    /// from any value of that shape.
    #[track_caller]
    pub fn take_along(self, axis: i64, positions: Value) -> Value {
        self.gather(axis, positions)
    }

    /// The position (i64) of the smallest element along an axis, which disappears: the first of equals, the first NaN if
    /// there is one.
    #[track_caller]
    pub fn argmin(self, axis: i64) -> Value {
        // The bits of an integer turned over put all integers of its type in the opposite order; a minus sign would not.
        let opposite = if self.dtype().is_int() { !self } else { -self };
        opposite.argmax(axis)
    }

    /// The convolution (cross-correlation) with a kernel: `[N, C, L]` with `[O, C/groups, K]`, or `[N, C, H, W]` with
    /// `[O, C/groups, K, L]`. Floats of one dtype.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, ops::ConvOptions};
    /// let graph = Graph::build("causal", |g| {
    ///     let (x, kernel) = (g.input("x", "f32[N,8,T]"), g.input("kernel", "f32[16,8,4]"));
    ///     x.conv(kernel, ConvOptions { padding: [(3, 0)], ..ConvOptions::default() })
    /// })?;
    /// assert_eq!(graph.output_type(0).to_string(), "f32[N,16,T]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn conv<const D: usize>(self, kernel: Value, options: ConvOptions<D>) -> Value {
        emit_value(Conv::from(options), &[self, kernel], Site::caller())
    }

    /// Rows of this table by integer indices, whose axes come first: `[V, ..]` and `[N, T]` give `[N, T, ..]`. Indices are
    /// clamped.
    #[track_caller]
    pub fn embedding(self, indices: Value) -> Value {
        self.take(0, indices)
    }

    /// 1 at each integer's own place along a new last axis of that size, else 0; all 0 for an integer outside of it.
    #[track_caller]
    pub fn one_hot(self, size: impl Into<Dim>, dtype: DType) -> Value {
        if !self.is_failed() && !self.dtype().is_int() {
            return fail_value("one_hot", Site::caller(), &[self], |at| {
                at.mismatch("the indices", "an integer type", self.ty(), "cast the indices to i64")
            });
        }
        self.cast(DType::I64).unsqueeze(-1).eq(super::iota(size, DType::I64)).cast(dtype)
    }
}
