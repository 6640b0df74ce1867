//! A value of the trace that is being built, its operators and its methods.
//!
//! Shapes are broadcast to a common one by NumPy's rule, by ops that the builder inserts. Dtypes are never
//! promoted: a number written in Rust takes the dtype of the value that it meets.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Range, RangeFrom, RangeFull, RangeTo, Rem, Sub};

use super::{ValueId, constant, emit, fail, size, tracer};
use crate::error::Site;
use crate::host::HostTensor;
use crate::ops::{
    ArgMax, Binary, Broadcast, Cast, Compare, DynamicSlice, DynamicUpdate, Gather, MatMul, Op, OpRules, Pad, Reduce,
    ReduceKind, Reshape, Reverse, Scatter, ScatterMode, Slice, Take, Transpose, Unary,
};
use crate::types::{DType, Dim, Shape, TensorType};

/// A tensor in the program that is being built: a small name, free to copy.
///
/// Nothing in a building closure fails at once. The first op that does not fit is remembered with the caller's
/// line and returned by [`Graph::build`](crate::Graph::build); what is computed from it is ignored.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    home: u64,
    id: Option<ValueId>,
}

impl Value {
    pub(super) fn new(home: u64, id: ValueId) -> Self {
        Value { home, id: Some(id) }
    }

    /// What an op that failed gives.
    pub(crate) fn poison() -> Self {
        Value { home: 0, id: None }
    }

    pub(super) fn parts(self) -> Option<(u64, ValueId)> {
        self.id.map(|id| (self.home, id))
    }

    /// Whether an op has failed, so that nothing more is built from this value.
    pub(crate) fn is_poison(self) -> bool {
        tracer::type_of(self).is_none()
    }

    /// Its type. After a failure it is that of a scalar.
    pub fn ty(self) -> TensorType {
        tracer::type_of(self).unwrap_or_else(|| TensorType::scalar(DType::F32))
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

    #[track_caller]
    fn emit(self, op: impl Into<Op>) -> Value {
        emit(op, &[self], Site::caller())[0]
    }

    /// Elementwise conversion to another dtype; the value itself if it has that dtype.
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Value {
        if self.dtype() == dtype && !self.is_poison() { self } else { self.emit(Cast { dtype }) }
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
        super::full(self.shape(), self.dtype(), number)
    }

    /// The product of matrices, as NumPy's `@`: batched over leading axes, which are broadcast; a vector on the
    /// left is a row, on the right a column, and that axis disappears again.
    #[track_caller]
    pub fn matmul(self, right: Value) -> Value {
        if self.is_poison() || right.is_poison() {
            return emit(MatMul, &[self, right], Site::caller())[0];
        }
        let left_matrix = if self.rank() == 1 { self.unsqueeze(0) } else { self };
        let right_matrix = if right.rank() == 1 { right.unsqueeze(1) } else { right };
        let (left_matrix, right_matrix) = match broadcast_batches(left_matrix, right_matrix) {
            Some(matrices) => matrices,
            None => (left_matrix, right_matrix),
        };
        let mut product = emit(MatMul, &[left_matrix, right_matrix], Site::caller())[0];
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
            None => Value::poison(),
        }
    }

    /// The mean along some axes. NaN over nothing.
    #[track_caller]
    pub fn mean(self, axes: impl Into<Axes>) -> Value {
        let axes = axes.into();
        let Some(reduced) = axes.normal("mean", self) else {
            return Value::poison();
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
        if self.shape() == shape && !self.is_poison() { self } else { self.emit(Broadcast { shape }) }
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
            return Value::poison();
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
            None => Value::poison(),
        }
    }

    /// Without an axis of size one.
    #[track_caller]
    pub fn squeeze(self, axis: i64) -> Value {
        let shape = self.shape();
        match normal_axis("squeeze", axis, shape.rank(), &[self]) {
            Some(axis) => self.reshape(shape.without(axis)),
            None => Value::poison(),
        }
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
        let shape = self.shape();
        let Some(axis) = normal_axis("slice", axis, shape.rank(), &[self]) else {
            return Value::poison();
        };
        let (start, limit) = range.bounds(&shape[axis]);
        self.emit(Slice { axis, start, limit, step })
    }

    /// The slices of an axis one by one; the axis must have just `N`.
    #[track_caller]
    pub fn unstack<const N: usize>(self, axis: i64) -> [Value; N] {
        let size = self.dim(axis);
        if !self.is_poison() && size != Dim::from(N) {
            fail("unstack", Site::caller(), &[self], |at| {
                at.mismatch("the axis", format!("size {N}"), size, "take as many parts as the axis has")
            });
        }
        let mut parts = [Value::poison(); N];
        for (position, part) in parts.iter_mut().enumerate() {
            *part = self.index(axis, position as i64);
        }
        parts
    }

    /// The slice of an axis at a fixed position, negative to count from the end; the axis disappears.
    #[track_caller]
    pub fn index(self, axis: i64, position: i64) -> Value {
        let shape = self.shape();
        let Some(axis) = normal_axis("index", axis, shape.rank(), &[self]) else {
            return Value::poison();
        };
        let start = if position < 0 { shape[axis].clone() + position } else { Dim::from(position) };
        let limit = start.clone() + 1;
        self.emit(Slice { axis, start, limit, step: 1 }).squeeze(axis as i64)
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

    /// With one element an update replaced or added to, along an axis; out of range indices are skipped.
    #[track_caller]
    pub fn scatter(self, axis: i64, indices: Value, updates: Value, mode: ScatterMode) -> Value {
        self.with_axis_and("scatter", axis, &[indices, updates], |axis| Scatter { axis, mode })
    }

    /// log(sum(exp(x))) along an axis, which disappears, without overflow.
    #[track_caller]
    pub fn logsumexp(self, axis: i64) -> Value {
        let largest = self.max(axis).stop_gradient();
        let shifted = self - largest.unsqueeze(axis);
        shifted.exp().sum(axis).log() + largest
    }

    /// exp(x) / sum(exp(x)) along an axis, without overflow.
    #[track_caller]
    pub fn softmax(self, axis: i64) -> Value {
        let weights = (self - self.max(axis).stop_gradient().unsqueeze(axis)).exp();
        weights / weights.sum(axis).unsqueeze(axis)
    }

    /// x - log(sum(exp(x))) along an axis, without overflow.
    #[track_caller]
    pub fn log_softmax(self, axis: i64) -> Value {
        self - self.logsumexp(axis).unsqueeze(axis)
    }

    #[track_caller]
    fn with_axis<O: Into<Op>>(self, name: &str, axis: i64, op: impl FnOnce(usize) -> O) -> Value {
        self.with_axis_and(name, axis, &[], op)
    }

    #[track_caller]
    fn with_axis_and<O: Into<Op>>(self, name: &str, axis: i64, others: &[Value], op: impl FnOnce(usize) -> O) -> Value {
        match normal_axis(name, axis, self.rank(), &[self]) {
            Some(axis) => emit(op(axis), &[&[self], others].concat(), Site::caller())[0],
            None => Value::poison(),
        }
    }

    /// Both values with the shape that they have in common; `None` after a failure.
    #[track_caller]
    pub(super) fn broadcast_shapes(op: &str, left: Value, right: Value) -> Option<(Value, Value)> {
        if left.is_poison() || right.is_poison() {
            tracer::refuse(op, Site::caller(), &[left, right]);
            return None;
        }
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

    #[track_caller]
    fn binary(self, op: Binary, right: impl Into<Operand>) -> Value {
        Operand::elementwise(op, self.into(), right.into())
    }

    #[track_caller]
    fn compare(self, op: Compare, right: impl Into<Operand>) -> Value {
        Operand::elementwise(op, self.into(), right.into())
    }
}

/// A range of positions of an axis; negative numbers count from the end.
pub trait SliceRange {
    /// The first position, and the one that ends the range, of an axis of that size.
    fn bounds(self, size: &Dim) -> (Dim, Dim);
}

fn from_end(position: impl Into<Dim>, size: &Dim) -> Dim {
    let position = position.into();
    if position.constant().is_some_and(|number| number < 0) { size.clone() + position } else { position }
}

impl<D: Into<Dim>> SliceRange for Range<D> {
    fn bounds(self, size: &Dim) -> (Dim, Dim) {
        (from_end(self.start, size), from_end(self.end, size))
    }
}

impl<D: Into<Dim>> SliceRange for RangeFrom<D> {
    fn bounds(self, size: &Dim) -> (Dim, Dim) {
        (from_end(self.start, size), size.clone())
    }
}

impl<D: Into<Dim>> SliceRange for RangeTo<D> {
    fn bounds(self, size: &Dim) -> (Dim, Dim) {
        (Dim::from(0), from_end(self.end, size))
    }
}

impl SliceRange for RangeFull {
    fn bounds(self, size: &Dim) -> (Dim, Dim) {
        (Dim::from(0), size.clone())
    }
}

/// Axes to reduce over: one, several, or all (`..`). Negative ones count from the end.
#[derive(Clone, Debug)]
pub enum Axes {
    /// Every axis.
    All,
    /// These.
    These(Vec<i64>),
}

impl Axes {
    #[track_caller]
    fn normal(&self, op: &str, value: Value) -> Option<Vec<usize>> {
        let rank = value.rank();
        let mut axes = match self {
            Axes::All => (0..rank).collect(),
            Axes::These(axes) => {
                axes.iter().map(|axis| normal_axis(op, *axis, rank, &[value])).collect::<Option<Vec<_>>>()?
            }
        };
        axes.sort_unstable();
        Some(axes)
    }
}

impl From<RangeFull> for Axes {
    fn from(_: RangeFull) -> Self {
        Axes::All
    }
}

impl From<i64> for Axes {
    fn from(axis: i64) -> Self {
        Axes::These(vec![axis])
    }
}

impl From<i32> for Axes {
    fn from(axis: i32) -> Self {
        Axes::These(vec![i64::from(axis)])
    }
}

impl<const N: usize> From<[i64; N]> for Axes {
    fn from(axes: [i64; N]) -> Self {
        Axes::These(axes.to_vec())
    }
}

/// An operand of an elementwise op: a value, or a number that takes the dtype of the value it meets.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// A value.
    Value(Value),
    /// A number with a fraction.
    Float(f64),
    /// A whole number.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

impl From<Value> for Operand {
    fn from(value: Value) -> Self {
        Operand::Value(value)
    }
}

impl From<f64> for Operand {
    fn from(number: f64) -> Self {
        Operand::Float(number)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Operand::Int(i64::from(number))
    }
}

impl From<i64> for Operand {
    fn from(number: i64) -> Self {
        Operand::Int(number)
    }
}

impl From<bool> for Operand {
    fn from(truth: bool) -> Self {
        Operand::Bool(truth)
    }
}

impl Operand {
    /// The operand as a value of `dtype`; a number that the dtype cannot hold is a failure.
    #[track_caller]
    fn into_value(self, op: &str, dtype: DType, other: Operand) -> Value {
        let (exact, scalar) = match self {
            Operand::Value(value) => return value,
            Operand::Bool(truth) => (dtype == DType::Bool, HostTensor::scalar(truth)),
            Operand::Float(number) => (dtype.is_float(), HostTensor::scalar(number)),
            Operand::Int(number) => {
                let scalar = HostTensor::scalar(number);
                let back = scalar.cast(dtype).cast(DType::I64);
                (dtype != DType::Bool && (dtype.is_float() || back == scalar), scalar)
            }
        };
        if !exact {
            let others = if let Operand::Value(value) = other { vec![value] } else { vec![] };
            return fail(op, Site::caller(), &others, |at| {
                let found = crate::text::print_elements(&scalar);
                let expected = format!("one that {dtype}, the dtype of the other operand, holds");
                let fix = "cast the other operand, say `.cast(DType::F32)`, or write a number that it holds";
                at.mismatch("the number", expected, found, fix)
            });
        }
        constant(scalar.cast(dtype))
    }

    /// Two operands as values: a number takes the dtype of the other.
    #[track_caller]
    pub(super) fn pair(op: &str, left: Operand, right: Operand) -> (Value, Value) {
        let dtype = match (left, right) {
            (Operand::Value(value), _) | (_, Operand::Value(value)) => value.dtype(),
            (Operand::Int(_), Operand::Int(_)) => DType::I64,
            (Operand::Bool(_), Operand::Bool(_)) => DType::Bool,
            _ => DType::F32,
        };
        (left.into_value(op, dtype, right), right.into_value(op, dtype, left))
    }

    #[track_caller]
    fn elementwise<O: Into<Op> + OpRules>(op: O, left: Operand, right: Operand) -> Value {
        let (left, right) = Operand::pair(op.name(), left, right);
        match Value::broadcast_shapes(op.name(), left, right) {
            Some((left, right)) => emit(op, &[left, right], Site::caller())[0],
            None => Value::poison(),
        }
    }
}

/// The axis from 0 on that `axis` means.
#[track_caller]
pub(super) fn normal_axis(op: &str, axis: i64, rank: usize, operands: &[Value]) -> Option<usize> {
    let normal = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&normal) {
        return Some(normal as usize);
    }
    fail(op, Site::caller(), operands, |at| {
        let expected = match rank {
            0 => "no axis: the value is a scalar".to_string(),
            _ => format!("an axis from -{rank} to {}", rank - 1),
        };
        at.mismatch("the axis", expected, axis, "name an axis that the value has")
    });
    None
}

fn common_shape(left: &Shape, right: &Shape) -> Option<Shape> {
    let rank = left.rank().max(right.rank());
    let at = |shape: &Shape, axis: usize| {
        (axis + shape.rank()).checked_sub(rank).map_or(Dim::from(1), |axis| shape[axis].clone())
    };
    let dims = (0..rank).map(|axis| match (at(left, axis), at(right, axis)) {
        (a, b) if a == b => Some(a),
        (a, b) if b.constant() == Some(1) => Some(a),
        (a, b) if a.constant() == Some(1) => Some(b),
        _ => None,
    });
    dims.collect::<Option<Vec<Dim>>>().map(Shape::from)
}

/// Two matrices with common batch axes; `None` if they have none in common, which the type rule reports.
#[track_caller]
fn broadcast_batches(left: Value, right: Value) -> Option<(Value, Value)> {
    let (a, b) = (left.shape(), right.shape());
    let split = |shape: &Shape| {
        let at = shape.rank().checked_sub(2)?;
        Some((Shape::new(&shape.dims()[..at]), shape.dims()[at..].to_vec()))
    };
    let ((batch_a, matrix_a), (batch_b, matrix_b)) = (split(&a)?, split(&b)?);
    let batch = common_shape(&batch_a, &batch_b)?;
    let full = |matrix: Vec<Dim>| Shape::new(batch.dims().iter().chain(&matrix));
    Some((left.broadcast_to(full(matrix_a)), right.broadcast_to(full(matrix_b))))
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl Value {
            $($(#[$doc])* #[track_caller] pub fn $name(self) -> Value { self.emit(Unary::$op) })*
        }
    };
}

unary_methods! {
    /// |x|.
    abs => Abs;
    /// -1, 0 or 1.
    sign => Sign;
    /// x * x.
    square => Square;
    /// e to the power x.
    exp => Exp;
    /// exp(x) - 1, exact near zero.
    expm1 => Expm1;
    /// The natural logarithm.
    log => Log;
    /// log(1 + x), exact near zero.
    log1p => Log1p;
    /// The hyperbolic tangent.
    tanh => Tanh;
    /// 1 / (1 + exp(-x)).
    sigmoid => Sigmoid;
    /// The sine of x radians.
    sin => Sin;
    /// The cosine of x radians.
    cos => Cos;
    /// The square root.
    sqrt => Sqrt;
    /// 1 / sqrt(x).
    rsqrt => Rsqrt;
    /// 1 / x.
    recip => Recip;
    /// x itself; no derivative passes through it.
    stop_gradient => StopGradient;
}

macro_rules! reduce_methods {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        impl Value {
            $($(#[$doc])* #[track_caller] pub fn $name(self, axes: impl Into<Axes>) -> Value {
                self.reduce(ReduceKind::$kind, axes.into())
            })*
        }
    };
}

reduce_methods! {
    /// The sum along some axes, which disappear: `x.sum(0)`, `x.sum([0, -1])`, `x.sum(..)`.
    sum => Sum;
    /// The product along some axes.
    prod => Prod;
    /// The largest along some axes; NaN wins.
    max => Max;
    /// The smallest along some axes; NaN wins.
    min => Min;
    /// Whether any boolean is true along some axes.
    any => Any;
    /// Whether all booleans are true along some axes.
    all => All;
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident => $method:ident $op:expr;)*) => {
        impl Value {
            $($(#[$doc])* #[track_caller] pub fn $name(self, right: impl Into<Operand>) -> Value {
                self.$method($op, right)
            })*
        }
    };
}

binary_methods! {
    /// The larger of the two, elementwise; NaN wins.
    maximum => binary Binary::Max;
    /// The smaller of the two, elementwise; NaN wins.
    minimum => binary Binary::Min;
    /// To the power of, elementwise.
    pow => binary Binary::Pow;
    /// `==`, elementwise.
    eq => compare Compare::Eq;
    /// `!=`, elementwise.
    ne => compare Compare::Ne;
    /// `<`, elementwise.
    lt => compare Compare::Lt;
    /// `<=`, elementwise.
    le => compare Compare::Le;
    /// `>`, elementwise.
    gt => compare Compare::Gt;
    /// `>=`, elementwise.
    ge => compare Compare::Ge;
}

macro_rules! operators {
    ($($trait:ident, $method:ident => $op:ident; [$($number:ty),*])*) => {$(
        impl<O: Into<Operand>> $trait<O> for Value {
            type Output = Value;
            #[track_caller]
            fn $method(self, right: O) -> Value {
                self.binary(Binary::$op, right)
            }
        }
        $(impl $trait<Value> for $number {
            type Output = Value;
            #[track_caller]
            fn $method(self, right: Value) -> Value {
                Operand::elementwise(Binary::$op, self.into(), right.into())
            }
        })*
    )*};
}

operators! {
    Add, add => Add; [f64, i32]
    Sub, sub => Sub; [f64, i32]
    Mul, mul => Mul; [f64, i32]
    Div, div => Div; [f64, i32]
    Rem, rem => Rem; [f64, i32]
    BitAnd, bitand => And; []
    BitOr, bitor => Or; []
    BitXor, bitxor => Xor; []
}

impl Neg for Value {
    type Output = Value;
    #[track_caller]
    fn neg(self) -> Value {
        self.emit(Unary::Neg)
    }
}

impl Not for Value {
    type Output = Value;
    #[track_caller]
    fn not(self) -> Value {
        self.emit(Unary::Not)
    }
}
