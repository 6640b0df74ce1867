//! A value of the trace that is being built, its operators and its methods.
//!
//! Shapes are broadcast to a common one by NumPy's rule, by ops that the builder inserts. Dtypes are never
//! promoted: a number written in Rust takes the dtype of the value that it meets.

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

/// The results, or as many values that stand for the error: what the user's functions give.
pub(crate) fn or_failed(results: Result<Vec<Value>, Failed>, count: usize) -> Vec<Value> {
    results.unwrap_or_else(|failed| vec![failed.into(); count])
}

impl Value {
    /// Whether two names are of one value.
    pub(crate) fn same_as(self, other: Value) -> bool {
        self.parts().is_some() && self.parts() == other.parts()
    }

    /// Whether an op has failed, so that nothing more is built from this value.
    pub(crate) fn is_failed(self) -> bool {
        tracer::type_of(self).is_none()
    }

    /// The value, if nothing has failed: for a rule that looks at the type of what it has computed.
    #[track_caller]
    pub fn checked(self) -> Result<Value, Failed> {
        tracer::check("value", Site::caller(), [self]).map(|()| self)
    }

    /// Its type. After a failure it is that of a scalar.
    pub fn ty(self) -> TensorType {
        tracer::type_of(self).unwrap_or_else(|| TensorType::scalar(DType::F32))
    }

    /// The type of a row along axis 0. After a failure, and of a scalar, it is that of the value.
    pub(crate) fn row_type(self) -> TensorType {
        let ty = self.ty();
        ty.row().unwrap_or(ty)
    }

    /// Its element type.
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }

    /// Its shape.
    pub fn shape(self) -> Shape {
        self.ty().shape
    }

    /// How many dimensions it has.
    pub fn rank(self) -> usize {
        self.ty().rank()
    }

    /// The size of an axis, which may be negative to count from the end.
    #[track_caller]
    pub fn dim(self, axis: i64) -> Dim {
        let shape = self.shape();
        normal_axis("dim", axis, shape.rank(), &[self]).map_or(Dim::from(0), |axis| shape[axis].clone())
    }

    /// Gives it a name, which the text form shows.
    #[track_caller]
    pub fn named(self, name: &str) -> Self {
        tracer::set_name(self, name, Site::caller());
        self
    }

    /// Adds an op of one operand and one result, for the line of the caller.
    #[track_caller]
    pub fn emit(self, op: impl Into<Op>) -> Value {
        emit_value(op, &[self], Site::caller())
    }

    /// Elementwise conversion to another dtype; the value itself if it has that dtype.
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Value {
        if self.dtype() == dtype && !self.is_failed() { self } else { self.emit(Cast { dtype }) }
    }

    /// Zeros (`false` for booleans) of its type.
    #[track_caller]
    pub fn zeros_like(self) -> Value {
        self.full_like(0.0)
    }

    /// Ones (`true` for booleans) of its type.
    #[track_caller]
    pub fn ones_like(self) -> Value {
        self.full_like(1.0)
    }

    /// One number, converted to its dtype, in its shape.
    #[track_caller]
    pub fn full_like(self, number: f64) -> Value {
        full(self.shape(), self.dtype(), number)
    }

    /// The product of matrices, as NumPy's `@`: batched over leading axes, which are broadcast; a vector on the
    /// left is a row, on the right a column, and that axis disappears again. Numbers of one dtype; integers wrap.
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

    /// The mean along some axes. NaN over nothing.
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

    /// The position (i64) of the largest element along an axis, which disappears.
    #[track_caller]
    pub fn argmax(self, axis: i64) -> Value {
        self.with_axis("argmax", axis, |axis| ArgMax { axis })
    }

    /// Repetition to a larger shape by NumPy's rule; the value itself if it has that shape.
    #[track_caller]
    pub fn broadcast_to(self, shape: impl Into<Shape>) -> Value {
        let shape = shape.into();
        if self.shape() == shape && !self.is_failed() { self } else { self.emit(Broadcast { shape }) }
    }

    /// The same elements under another shape.
    #[track_caller]
    pub fn reshape(self, shape: impl Into<Shape>) -> Value {
        self.emit(Reshape { shape: shape.into() })
    }

    /// The axes in another order: axis `i` of the result is axis `axes[i]`.
    #[track_caller]
    pub fn transpose(self, axes: impl Into<Vec<usize>>) -> Value {
        self.emit(Transpose { axes: axes.into() })
    }

    /// The last two axes exchanged.
    #[track_caller]
    pub fn t(self) -> Value {
        let rank = self.rank();
        let mut axes: Vec<usize> = (0..rank).collect();
        if rank >= 2 {
            axes.swap(rank - 2, rank - 1);
        }
        self.transpose(axes)
    }

    /// One axis moved to another position, the others in their order.
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

    /// A new axis of size one.
    #[track_caller]
    pub fn unsqueeze(self, axis: i64) -> Value {
        let shape = self.shape();
        match normal_axis("unsqueeze", axis, shape.rank() + 1, &[self]) {
            Some(axis) => self.reshape(shape.with_inserted(axis, 1)),
            None => Value::failed(),
        }
    }

    /// Without an axis of size one.
    #[track_caller]
    pub fn squeeze(self, axis: i64) -> Value {
        self.with_axis("squeeze", axis, |axis| Reshape { shape: self.shape().without(axis) })
    }

    /// The elements of an axis in a range: `x.slice(0, 1..)`, `x.slice(-1, ..3)`, `x.slice(0, 2..x.dim(0) - 1)`. Negative
    /// numbers count from the end.
    #[track_caller]
    pub fn slice(self, axis: i64, range: impl SliceRange) -> Value {
        self.slice_step(axis, range, 1)
    }

    /// Every `step`-th element of an axis in a range.
    #[track_caller]
    pub fn slice_step(self, axis: i64, range: impl SliceRange, step: usize) -> Value {
        self.with_axis("slice", axis, |axis| {
            let (start, limit) = range.bounds(&self.shape()[axis]);
            Slice { axis, start, limit, step }
        })
    }

    /// The slices of an axis one by one; the axis must have just `N`.
    #[track_caller]
    pub fn unstack<const N: usize>(self, axis: i64) -> [Value; N] {
        let size = self.dim(axis);
        if !self.is_failed() && size != Dim::from(N) {
            fail("unstack", Site::caller(), &[self], |at| {
                at.mismatch("the axis", format!("size {N}"), size, "take as many parts as the axis has")
            });
        }
        let mut parts = [Value::failed(); N];
        for (position, part) in parts.iter_mut().enumerate() {
            *part = self.index(axis, position as i64);
        }
        parts
    }

    /// The slice of an axis at a fixed position, negative to count from the end; the axis disappears.
    #[track_caller]
    pub fn index(self, axis: i64, position: i64) -> Value {
        let slice = self.with_axis("index", axis, |axis| {
            let start = if position < 0 { self.shape()[axis].clone() + position } else { Dim::from(position) };
            Slice { axis, limit: start.clone() + 1, start, step: 1 }
        });
        slice.squeeze(axis)
    }

    /// An axis in the opposite order.
    #[track_caller]
    pub fn reverse(self, axis: i64) -> Value {
        self.with_axis("reverse", axis, |axis| Reverse { axis })
    }

    /// A number before and after the elements of an axis.
    #[track_caller]
    pub fn pad(self, axis: i64, low: impl Into<Dim>, high: impl Into<Dim>, number: f64) -> Value {
        let value = constant(HostTensor::scalar(number).cast(self.dtype()));
        let (low, high) = (low.into(), high.into());
        self.with_axis_and("pad", axis, &[value], |axis| Pad { axis, low, high, interior: 0 })
    }

    /// `size` elements of an axis from a start that the program computes, clamped into the axis.
    #[track_caller]
    pub fn dynamic_slice(self, axis: i64, start: Value, size: impl Into<Dim>) -> Value {
        let size = size.into();
        self.with_axis_and("dynamic_slice", axis, &[start], |axis| DynamicSlice { axis, size })
    }

    /// The slice of an axis at a position that the program computes, clamped into the axis, which disappears.
    #[track_caller]
    pub fn dynamic_index(self, axis: i64, position: Value) -> Value {
        self.dynamic_slice(axis, position, 1).squeeze(axis)
    }

    /// With a part of an axis replaced, from a start that the program computes, clamped into the axis.
    #[track_caller]
    pub fn dynamic_update(self, axis: i64, part: Value, start: Value) -> Value {
        self.with_axis_and("dynamic_update", axis, &[part, start], |axis| DynamicUpdate { axis })
    }

    /// Whole slices of an axis by integer indices, clamped into it; their axes replace the axis.
    #[track_caller]
    pub fn take(self, axis: i64, indices: Value) -> Value {
        self.with_axis_and("take", axis, &[indices], |axis| Take { axis })
    }

    /// One element an index along an axis; the indices have the shape of the value except in that axis.
    #[track_caller]
    pub fn gather(self, axis: i64, indices: Value) -> Value {
        self.with_axis_and("gather", axis, &[indices], |axis| Gather { axis })
    }

    /// With one element an update replaced by or combined with it, along an axis; out of range indices are skipped.
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

    /// Both values with the shape that they have in common; `None` after a failure.
    #[track_caller]
    fn broadcast_shapes(op: &str, left: Value, right: Value) -> Option<(Value, Value)> {
        tracer::check(op, Site::caller(), [left, right]).ok()?;
        let (a, b) = (left.ty(), right.ty());
        match common_shape(&a.shape, &b.shape) {
            Some(shape) => Some((left.broadcast_to(&shape), right.broadcast_to(&shape))),
            None => {
                fail(op, Site::caller(), &[left, right], |at| {
                    let fix = "make each dimension equal, or 1; `unsqueeze` adds dimensions of 1";
                    at.mismatch("the right operand", format!("a shape that broadcasts with {a}"), b, fix)
                });
                None
            }
        }
    }
}
