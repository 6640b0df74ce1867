//! Methods of a value for cumulative reductions, sorting, convolution and table lookups.

use super::*;
use crate::graph::emit_at;
use crate::ops::{Conv, ConvOptions, Cumulative, Sort};

impl Value {
    /// Computes a cumulative reduction along an axis: element `i` of the result combines elements `0` to `i`, or
    /// element `i` and all later ones if `reverse` is `true`.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::ops::ReduceKind;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").cumulative(ReduceKind::Sum, 0, false))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into()])?, [[1f32, 3.0, 6.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn cumulative(self, kind: ReduceKind, axis: i64, reverse: bool) -> Value {
        self.with_axis("cumulative", axis, |axis| Cumulative { kind, axis, reverse })
    }

    /// Computes the cumulative sum along an axis, from the end if `reverse` is `true`. Integers wrap around.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").cumsum(0, true))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into()])?, [[6f32, 5.0, 3.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(self, axis: i64, reverse: bool) -> Value {
        self.cumulative(ReduceKind::Sum, axis, reverse)
    }

    /// Computes the cumulative product along an axis, from the end if `reverse` is `true`. Integers wrap around.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").cumprod(0, false))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into()])?, [[1f32, 2.0, 6.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn cumprod(self, axis: i64, reverse: bool) -> Value {
        self.cumulative(ReduceKind::Prod, axis, reverse)
    }

    /// Computes the cumulative maximum along an axis, from the end if `reverse` is `true`. NaN propagates to all later
    /// elements, or to all earlier ones if `reverse` is `true`.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").cummax(0, false))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 3.0, 2.0].into()])?, [[1f32, 3.0, 3.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn cummax(self, axis: i64, reverse: bool) -> Value {
        self.cumulative(ReduceKind::Max, axis, reverse)
    }

    /// Computes the cumulative minimum along an axis, from the end if `reverse` is `true`. NaN propagates to all later
    /// elements, or to all earlier ones if `reverse` is `true`.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").cummin(0, false))?;
    /// assert_eq!(evaluate(&graph, &[[2f32, 1.0, 3.0].into()])?, [[2f32, 1.0, 1.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn cummin(self, axis: i64, reverse: bool) -> Value {
        self.cumulative(ReduceKind::Min, axis, reverse)
    }

    /// Sorts the value along an axis. Returns the sorted elements and their original positions (i64). The sort is
    /// stable, and NaN is treated as the largest number.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").sort(0, false))?;
    /// assert_eq!(evaluate(&graph, &[[2f32, 3.0, 1.0].into()])?, [[1f32, 2.0, 3.0].into(), [2i64, 0, 1].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
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

    /// Returns the positions (i64) that would sort the value along an axis:
    /// `x.take_along(axis, x.argsort(axis, false))` is sorted. The same positions can be used to reorder other values.
    /// The sort is stable, and NaN is treated as the largest number.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").argsort(0, true))?;
    /// assert_eq!(evaluate(&graph, &[[2f32, 3.0, 1.0].into()])?, [[1i64, 0, 2].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(self, axis: i64, descending: bool) -> Value {
        self.sort(axis, descending).1
    }

    /// Returns the `k` largest elements along an axis, in descending order, and their positions (i64). NaN is treated
    /// as the largest number. Equal elements keep their order.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").top_k(0, 2))?;
    /// assert_eq!(evaluate(&graph, &[[2f32, 3.0, 1.0].into()])?, [[3f32, 2.0].into(), [1i64, 0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn top_k(self, axis: i64, k: impl Into<Dim>) -> (Value, Value) {
        let (sorted, positions) = self.sort(axis, true);
        if sorted.is_failed() {
            return (Value::failed(), Value::failed());
        }
        let k = k.into();
        (sorted.slice(axis, Dim::from(0)..k.clone()), positions.slice(axis, Dim::from(0)..k))
    }

    /// Takes one element per index along an axis; the same as [`gather`](Value::gather). Use it to reorder a value by
    /// the positions that [`argsort`](Value::argsort) returned for a value of the same shape.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("by_key", |g| {
    ///     let [x, key] = [g.input("x", "f32[3]"), g.input("key", "f32[3]")];
    ///     x.take_along(0, key.argsort(0, false))
    /// })?;
    /// let results = evaluate(&graph, &[[1f32, 2.0, 3.0].into(), [20f32, 30.0, 10.0].into()])?;
    /// assert_eq!(results, [[3f32, 1.0, 2.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn take_along(self, axis: i64, positions: Value) -> Value {
        self.gather(axis, positions)
    }

    /// Returns the position (i64) of the smallest element along an axis. The axis is removed. If several elements are
    /// the smallest, returns the position of the first one. If any element is NaN, returns the position of the first
    /// NaN.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").argmin(0))?;
    /// assert_eq!(evaluate(&graph, &[[2f32, 1.0, 3.0].into()])?, [1i64.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn argmin(self, axis: i64) -> Value {
        // Bitwise NOT reverses the order of all integers of a type. Negation would overflow for the smallest integer.
        let opposite = if self.dtype().is_int() { !self } else { -self };
        opposite.argmax(axis)
    }

    /// Computes the convolution (cross-correlation) of this value with a kernel, over one or two spatial axes. With one
    /// axis, the value has shape `[N, C, L]` and the kernel has shape `[O, C/groups, K]`; with two axes, the shapes are
    /// `[N, C, H, W]` and `[O, C/groups, KH, KW]`. N is the batch size, C is the number of input channels, and O is the
    /// number of output channels. Both operands are floats of the same dtype.
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

    /// Looks up rows of this table by integer indices: a table `[V, ..]` and indices `[N, T]` yield `[N, T, ..]`.
    /// Indices out of range are clamped.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("lookup", |g| g.input("table", "f32[V,2]").embedding(g.input("tokens", "i64[T]")))?;
    /// let results = evaluate(&graph, &[[[1f32, 2.0], [3.0, 4.0]].into(), [1i64, 0, 1].into()])?;
    /// assert_eq!(results, [[[3f32, 4.0], [1.0, 2.0], [3.0, 4.0]].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding(self, indices: Value) -> Value {
        self.take(0, indices)
    }

    /// Returns the one-hot encoding of each integer, along a new last axis of size `size`: 1 at the position given by
    /// the integer, and 0 elsewhere. The encoding of an integer out of range is all zeros.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{DType, Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "i64[2]").one_hot(3, DType::F32))?;
    /// assert_eq!(evaluate(&graph, &[[2i64, 7].into()])?, [[[0f32, 0.0, 1.0], [0.0; 3]].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
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
