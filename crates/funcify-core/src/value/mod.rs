//! Traced values, with their operators and methods.
//!
//! The methods add ops to the open graph, and broadcast their operands by NumPy's rules. Dtypes are never promoted: a
//! Rust number takes the dtype of the other operand.

mod activations;
mod build;
mod compositions;
mod elementwise;
#[cfg(test)]
mod failure_tests;
mod floats;
mod operand;
mod products;
mod structured;

pub use crate::handle::Value;
pub(crate) use activations::magnitude;
pub use build::{Builder, IntoType, apply, bind_size, concat, constant, full, iota, select, size, stack};
pub use compositions::{eye, tri_mask};
pub use operand::{Axes, Operand, SliceRange};
pub use products::einsum;

use crate::error::Site;
use crate::graph::{Failed, emit_value, fail, fail_value, tracer};
use crate::host::HostTensor;
use crate::ops::{
    ArgMax, Broadcast, Cast, DynamicSlice, DynamicUpdate, Gather, MatMul, Op, Pad, Reduce, ReduceKind, Reshape,
    Reverse, Scatter, ScatterMode, Slice, Take, Transpose,
};
use crate::types::{DType, Dim, Shape, TensorType};
use operand::{broadcast_batches, common_shape, normal_axis};

/// Returns the results, or `count` failed values if there was an error. The open graph has already recorded the error.
pub(crate) fn or_failed(results: Result<Vec<Value>, Failed>, count: usize) -> Vec<Value> {
    results.unwrap_or_else(|failed| vec![failed.into(); count])
}

impl Value {
    /// Returns `true` if two handles refer to the same value.
    pub(crate) fn same_as(self, other: Value) -> bool {
        self.parts().is_some() && self.parts() == other.parts()
    }

    /// Returns `true` if the value is the result of a failed op. Ops on such a value are not added to the graph.
    pub(crate) fn is_failed(self) -> bool {
        tracer::type_of(self).is_none()
    }

    /// Returns the value, or an error if it has failed. Rules call this before they inspect the type of a value that
    /// they computed.
    #[track_caller]
    pub fn checked(self) -> Result<Value, Failed> {
        tracer::check("value", Site::caller(), [self]).map(|()| self)
    }

    /// Returns the type of the value. If the value has failed, returns `f32[]`.
    pub fn ty(self) -> TensorType {
        tracer::type_of(self).unwrap_or_else(|| TensorType::scalar(DType::F32))
    }

    /// Returns the type of the value without axis 0. For a scalar or a failed value, returns its type unchanged.
    pub(crate) fn row_type(self) -> TensorType {
        let ty = self.ty();
        ty.row().unwrap_or(ty)
    }

    /// Returns the element type.
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }

    /// Returns the shape.
    pub fn shape(self) -> Shape {
        self.ty().shape
    }

    /// Returns the number of dimensions.
    pub fn rank(self) -> usize {
        self.ty().rank()
    }

    /// Returns the size of an axis. A negative axis counts from the end.
    #[track_caller]
    pub fn dim(self, axis: i64) -> Dim {
        let shape = self.shape();
        normal_axis("dim", axis, shape.rank(), &[self]).map_or(Dim::from(0), |axis| shape[axis].clone())
    }

    /// Sets the name of the value in the text form.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::Graph;
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[]").exp().named("rate"))?;
    /// assert!(graph.to_string().contains("%rate"));
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn named(self, name: &str) -> Self {
        tracer::set_name(self, name, Site::caller());
        self
    }

    /// Applies an op with one operand and one result to this value. The op's site is the caller's line.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, ops::Reverse, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").emit(Reverse { axis: 0 }))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0].into()])?, [[2f32, 1.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn emit(self, op: impl Into<Op>) -> Value {
        emit_value(op, &[self], Site::caller())
    }

    /// Converts the elements to another dtype. Returns the value itself if it already has that dtype.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{DType, Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").cast(DType::I64))?;
    /// assert_eq!(evaluate(&graph, &[[1.7f32, -1.7].into()])?, [[1i64, -1].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Value {
        if self.dtype() == dtype && !self.is_failed() { self } else { self.emit(Cast { dtype }) }
    }

    /// Returns a tensor of zeros of the same type. For booleans, zero is `false`.
    #[track_caller]
    pub fn zeros_like(self) -> Value {
        self.full_like(0.0)
    }

    /// Returns a tensor of ones of the same type. For booleans, one is `true`.
    #[track_caller]
    pub fn ones_like(self) -> Value {
        self.full_like(1.0)
    }

    /// Returns a tensor of the same type filled with `number`, which is converted to the dtype.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").full_like(0.5))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0].into()])?, [[0.5f32, 0.5].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn full_like(self, number: f64) -> Value {
        full(self.shape(), self.dtype(), number)
    }

    /// Multiplies matrices like NumPy's `@`. Leading axes are batch axes, which are broadcast. A vector on the left
    /// becomes a row, and a vector on the right becomes a column; the added axis is removed from the result. Both
    /// operands must have the same dtype. Integers wrap around.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("product", |g| g.input("w", "f32[2,2]").matmul(g.input("x", "f32[2]")))?;
    /// let results = evaluate(&graph, &[[[1f32, 2.0], [3.0, 4.0]].into(), [1f32, 10.0].into()])?;
    /// assert_eq!(results, [[21f32, 43.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(self, right: Value) -> Value {
        if self.is_failed() || right.is_failed() {
            return emit_value(MatMul, &[self, right], Site::caller());
        }
        let left_matrix = if self.rank() == 1 { self.unsqueeze(0) } else { self };
        let right_matrix = if right.rank() == 1 { right.unsqueeze(1) } else { right };
        let matrices = broadcast_batches(left_matrix, right_matrix);
        let (left_matrix, right_matrix) = matrices.unwrap_or((left_matrix, right_matrix));
        let mut product = emit_value(MatMul, &[left_matrix, right_matrix], Site::caller());
        if right.rank() == 1 {
            product = product.squeeze(-1);
        }
        if self.rank() == 1 {
            product = product.squeeze(if right.rank() == 1 { -1 } else { -2 });
        }
        product
    }

    #[track_caller]
    fn reduce(self, kind: ReduceKind, axes: Axes) -> Value {
        match axes.normal(kind.name(), self) {
            Some(axes) => self.emit(Reduce { kind, axes }),
            None => Value::failed(),
        }
    }

    /// Computes the mean along the given axes. The axes are removed. The mean of no elements is NaN.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[T]").mean(0))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 6.0].into()])?, [3f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn mean(self, axes: impl Into<Axes>) -> Value {
        let axes = axes.into();
        let Some(reduced) = axes.normal("mean", self) else {
            return Value::failed();
        };
        let shape = self.shape();
        let count = reduced.iter().fold(Dim::from(1), |product, axis| product * &shape[*axis]);
        self.sum(axes) / size(count, self.dtype())
    }

    /// Returns the position (i64) of the first maximum along an axis, or of the first NaN. The axis is removed.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[T]").argmax(0))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 3.0, 2.0].into()])?, [1i64.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn argmax(self, axis: i64) -> Value {
        self.with_axis("argmax", axis, |axis| ArgMax { axis })
    }

    /// Broadcasts the value to `shape` by NumPy's rules. Returns the value itself if it already has this shape.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").broadcast_to([2, 2]))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0].into()])?, [[[1f32, 2.0], [1.0, 2.0]].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_to(self, shape: impl Into<Shape>) -> Value {
        let shape = shape.into();
        if self.shape() == shape && !self.is_failed() { self } else { self.emit(Broadcast { shape }) }
    }

    /// Changes the shape of the value. The elements keep their row-major order.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[4]").reshape([2, 2]))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0, 4.0].into()])?, [[[1f32, 2.0], [3.0, 4.0]].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape(self, shape: impl Into<Shape>) -> Value {
        self.emit(Reshape { shape: shape.into() })
    }

    /// Permutes the axes: axis `i` of the result is axis `axes[i]` of the value.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// let graph = funcify::Graph::build("f", |g| g.input("x", "f32[A,B,C]").transpose([2, 0, 1]))?;
    /// assert_eq!(graph.output_type(0).to_string(), "f32[C,A,B]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn transpose(self, axes: impl Into<Vec<usize>>) -> Value {
        self.emit(Transpose { axes: axes.into() })
    }

    /// Swaps the last two axes.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// let graph = funcify::Graph::build("f", |g| g.input("x", "f32[A,B,C]").t())?;
    /// assert_eq!(graph.output_type(0).to_string(), "f32[A,C,B]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn t(self) -> Value {
        let rank = self.rank();
        let mut axes: Vec<usize> = (0..rank).collect();
        if rank >= 2 {
            axes.swap(rank - 2, rank - 1);
        }
        self.transpose(axes)
    }

    /// Moves one axis to another position; the other axes keep their order.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// let graph = funcify::Graph::build("f", |g| g.input("x", "f32[A,B,C]").move_axis(0, -1))?;
    /// assert_eq!(graph.output_type(0).to_string(), "f32[B,C,A]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn move_axis(self, from: i64, to: i64) -> Value {
        let rank = self.rank();
        let normal = [from, to].map(|axis| normal_axis("move_axis", axis, rank, &[self]));
        let [Some(from), Some(to)] = normal else {
            return Value::failed();
        };
        if from == to {
            return self;
        }
        let mut axes: Vec<usize> = (0..rank).filter(|axis| *axis != from).collect();
        axes.insert(to, from);
        self.transpose(axes)
    }

    /// Inserts a new axis of size one at position `axis`.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// let graph = funcify::Graph::build("f", |g| g.input("x", "f32[A]").unsqueeze(0))?;
    /// assert_eq!(graph.output_type(0).to_string(), "f32[1,A]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn unsqueeze(self, axis: i64) -> Value {
        let shape = self.shape();
        match normal_axis("unsqueeze", axis, shape.rank() + 1, &[self]) {
            Some(axis) => self.reshape(shape.with_inserted(axis, 1)),
            None => Value::failed(),
        }
    }

    /// Removes an axis of size one.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// let graph = funcify::Graph::build("f", |g| g.input("x", "f32[A,1]").squeeze(-1))?;
    /// assert_eq!(graph.output_type(0).to_string(), "f32[A]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn squeeze(self, axis: i64) -> Value {
        self.with_axis("squeeze", axis, |axis| Reshape { shape: self.shape().without(axis) })
    }

    /// Slices the value along an axis: `x.slice(0, 1..)`, `x.slice(-1, ..3)`, `x.slice(0, 2..x.dim(0) - 1)`. Negative
    /// bounds count from the end.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[T]").slice(0, 1..))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into()])?, [[2f32, 3.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn slice(self, axis: i64, range: impl SliceRange) -> Value {
        self.slice_step(axis, range, 1)
    }

    /// Like [`slice`](Value::slice), but takes only every `step`-th position of the range.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").slice_step(0, .., 2))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into()])?, [[1f32, 3.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn slice_step(self, axis: i64, range: impl SliceRange, step: usize) -> Value {
        self.with_axis("slice", axis, |axis| {
            let (start, limit) = range.bounds(&self.shape()[axis]);
            Slice { axis, start, limit, step }
        })
    }

    /// Splits the value into its `N` slices along an axis, which must have size `N`. The slices do not have this axis.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("difference", |g| {
    ///     let [x, y] = g.input("pair", "f32[2]").unstack(0);
    ///     x - y
    /// })?;
    /// assert_eq!(evaluate(&graph, &[[5f32, 2.0].into()])?, [3f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn unstack<const N: usize>(self, axis: i64) -> [Value; N] {
        let size = self.dim(axis);
        if !self.is_failed() && size != Dim::from(N) {
            fail("unstack", Site::caller(), &[self], |at| {
                let fix = "unstack into as many parts as the axis has elements";
                at.mismatch("the axis", format!("size {N}"), size, fix)
            });
        }
        let mut parts = [Value::failed(); N];
        for (position, part) in parts.iter_mut().enumerate() {
            *part = self.index(axis, position as i64);
        }
        parts
    }

    /// Returns the slice at a fixed position along an axis. The axis is removed. A negative position counts from the
    /// end.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[T]").index(0, -1))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into()])?, [3f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn index(self, axis: i64, position: i64) -> Value {
        let slice = self.with_axis("index", axis, |axis| {
            let start = if position < 0 { self.shape()[axis].clone() + position } else { Dim::from(position) };
            Slice { axis, limit: start.clone() + 1, start, step: 1 }
        });
        slice.squeeze(axis)
    }

    /// Reverses the order of the elements along an axis.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[T]").reverse(0))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into()])?, [[3f32, 2.0, 1.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn reverse(self, axis: i64) -> Value {
        self.with_axis("reverse", axis, |axis| Reverse { axis })
    }

    /// Pads an axis with `number`: adds `low` elements before and `high` elements after the existing ones.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[T]").pad(0, 1, 2, 0.0))?;
    /// assert_eq!(evaluate(&graph, &[[5f32].into()])?, [[0f32, 5.0, 0.0, 0.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn pad(self, axis: i64, low: impl Into<Dim>, high: impl Into<Dim>, number: f64) -> Value {
        let value = constant(HostTensor::scalar(number).cast(self.dtype()));
        let (low, high) = (low.into(), high.into());
        self.with_axis_and("pad", axis, &[value], |axis| Pad { axis, low, high, interior: 0 })
    }

    /// Returns a slice of `size` elements along an axis. The start is computed at run time, and clamped so that the
    /// slice fits in the axis.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[T]").dynamic_slice(0, g.input("at", "i64[]"), 2))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into(), 1i64.into()])?, [[2f32, 3.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn dynamic_slice(self, axis: i64, start: Value, size: impl Into<Dim>) -> Value {
        let size = size.into();
        self.with_axis_and("dynamic_slice", axis, &[start], |axis| DynamicSlice { axis, size })
    }

    /// Returns the slice at one position along an axis. The position is computed at run time, and clamped to the axis.
    /// The axis is removed.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[T]").dynamic_index(0, g.input("at", "i64[]")))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into(), 1i64.into()])?, [2f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn dynamic_index(self, axis: i64, position: Value) -> Value {
        self.dynamic_slice(axis, position, 1).squeeze(axis)
    }

    /// Overwrites a slice along an axis with `part`. The slice begins at `start`, which is computed at run time, and
    /// clamped so that `part` fits in the axis.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, constant, evaluate};
    ///
    /// let graph = Graph::build("f", |g| {
    ///     g.input("x", "f32[3]").dynamic_update(0, constant([9f32]), g.input("at", "i64[]"))
    /// })?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into(), 1i64.into()])?, [[1f32, 9.0, 3.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn dynamic_update(self, axis: i64, part: Value, start: Value) -> Value {
        self.with_axis_and("dynamic_update", axis, &[part, start], |axis| DynamicUpdate { axis })
    }

    /// Returns the slices at the given integer indices along an axis. Indices out of range are clamped. In the result,
    /// the axes of `indices` replace that axis.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[T]").take(0, g.input("at", "i64[N]")))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into(), [2i64, 0].into()])?, [[3f32, 1.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn take(self, axis: i64, indices: Value) -> Value {
        self.with_axis_and("take", axis, &[indices], |axis| Take { axis })
    }

    /// Gathers one element per index along an axis. `indices` has the shape of the value, except along that axis.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[T]").gather(0, g.input("at", "i64[T]")))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 2.0, 3.0].into(), [2i64, 0, 0].into()])?, [[3f32, 1.0, 1.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn gather(self, axis: i64, indices: Value) -> Value {
        self.with_axis_and("gather", axis, &[indices], |axis| Gather { axis })
    }

    /// Scatters updates along an axis: each update replaces one element or is combined with it, as `mode` specifies.
    /// Updates with an index out of range are skipped.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, constant, evaluate, ops::ScatterMode};
    ///
    /// let graph = Graph::build("counts", |g| {
    ///     let x = g.input("x", "i64[3]");
    ///     x.scatter(0, constant([2i64, 0, 2]), x.ones_like(), ScatterMode::Add)
    /// })?;
    /// assert_eq!(evaluate(&graph, &[[0i64; 3].into()])?, [[1i64, 0, 2].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter(self, axis: i64, indices: Value, updates: Value, mode: ScatterMode) -> Value {
        self.with_axis_and("scatter", axis, &[indices, updates], |axis| Scatter { axis, mode })
    }

    #[track_caller]
    fn with_axis<O: Into<Op>>(self, name: &str, axis: i64, op: impl FnOnce(usize) -> O) -> Value {
        self.with_axis_and(name, axis, &[], op)
    }

    #[track_caller]
    fn with_axis_and<O: Into<Op>>(self, name: &str, axis: i64, others: &[Value], op: impl FnOnce(usize) -> O) -> Value {
        match normal_axis(name, axis, self.rank(), &[self]) {
            Some(axis) => emit_value(op(axis), &[&[self], others].concat(), Site::caller()),
            None => Value::failed(),
        }
    }

    /// Broadcasts both values to their common shape. Returns `None` if a value has failed. If there is no common shape,
    /// reports an error and returns `None`.
    #[track_caller]
    fn broadcast_shapes(op: &str, left: Value, right: Value) -> Option<(Value, Value)> {
        tracer::check(op, Site::caller(), [left, right]).ok()?;
        let (a, b) = (left.ty(), right.ty());
        match common_shape(&a.shape, &b.shape) {
            Some(shape) => Some((left.broadcast_to(&shape), right.broadcast_to(&shape))),
            None => {
                fail(op, Site::caller(), &[left, right], |at| {
                    let fix = "make the dimensions equal, or 1; `unsqueeze` adds dimensions of size 1";
                    at.mismatch("the right operand", format!("a shape that broadcasts with {a}"), b, fix)
                });
                None
            }
        }
    }
}
