//! Argument types for the methods and operators of a value: ranges, axes, and operands that may be numbers.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use super::*;
use crate::ops::OpRules;

/// A range of positions along an axis; negative numbers count from the end.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate};
///
/// let graph = Graph::build("parts", |g| {
///     let x = g.input("x", "f32[T]");
///     (x.slice(0, 1..3), x.slice(0, ..-1), x.slice(0, x.dim(0) - 1..))
/// })?;
/// let parts = evaluate(&graph, &[[1f32, 2.0, 3.0].into()])?;
/// assert_eq!(parts, [[2f32, 3.0].into(), [1f32, 2.0].into(), [3f32].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait SliceRange {
    /// Returns the start and the end of the range on an axis of size `size`.
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

/// The axes of a reduction: one, several, or all (`..`). Negative axes count from the end.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
///
/// let graph = Graph::build("sums", |g| {
///     let x = g.input("x", "f32[A,B,C]");
///     (x.sum(-1), x.sum([0, 2]), x.sum(..))
/// })?;
/// let types = [0, 1, 2].map(|output| graph.output_type(output).to_string());
/// assert_eq!(types, ["f32[A,B]", "f32[B]", "f32[]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Axes {
    /// All axes.
    All,
    /// The listed axes.
    These(Vec<i64>),
}

impl Axes {
    #[track_caller]
    pub(super) fn normal(&self, op: &str, value: Value) -> Option<Vec<usize>> {
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

/// An operand of an elementwise op: a value, or a number that takes the dtype of the other operand.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate};
///
/// let graph = Graph::build("f", |g| {
///     let x = g.input("x", "f32[2]");
///     x.maximum(x * 2).maximum(0.5)
/// })?;
/// assert_eq!(evaluate(&graph, &[[-1f32, 2.0].into()])?, [[0.5f32, 4.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// A value.
    Value(Value),
    /// A float.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
}

macro_rules! operand_from {
    ($($from:ty => $variant:ident;)*) => {
        $(impl From<$from> for Operand {
            fn from(operand: $from) -> Self {
                Operand::$variant(operand.into())
            }
        })*
    };
}

operand_from! {
    Value => Value;
    f64 => Float;
    i32 => Int;
    i64 => Int;
    bool => Bool;
}

impl Operand {
    /// Converts a number to a constant of type `dtype`, and returns a value unchanged. Reports an error for a number
    /// that `dtype` cannot represent.
    #[track_caller]
    fn into_value(self, op: &str, dtype: DType, other: Operand) -> Value {
        let (exact, scalar) = match self {
            Operand::Value(value) => return value,
            Operand::Bool(truth) => (dtype == DType::Bool, HostTensor::scalar(truth)),
            Operand::Float(number) => (dtype.is_float() && is_in_range(number, dtype), HostTensor::scalar(number)),
            Operand::Int(number) => {
                let scalar = HostTensor::scalar(number);
                let back = scalar.cast(dtype).cast(DType::I64);
                let holds = if dtype.is_float() { is_in_range(number as f64, dtype) } else { back == scalar };
                (dtype != DType::Bool && holds, scalar)
            }
        };
        if !exact {
            let others = if let Operand::Value(value) = other { vec![value] } else { vec![] };
            return fail_value(op, Site::caller(), &others, |at| {
                let found = crate::host::print_elements(&scalar);
                let expected = format!("a number that {dtype}, the dtype of the other operand, can represent");
                let fix =
                    "cast the other operand, as in `.cast(DType::F32)`, or use a number that its dtype can represent";
                at.mismatch("the number", expected, found, fix)
            });
        }
        constant(scalar.cast(dtype))
    }

    /// Converts two operands to values. A number takes the dtype of the other operand.
    #[track_caller]
    pub(crate) fn pair(op: &str, left: Operand, right: Operand) -> (Value, Value) {
        let dtype = match (left, right) {
            (Operand::Value(value), _) | (_, Operand::Value(value)) => value.dtype(),
            (Operand::Int(_), Operand::Int(_)) => DType::I64,
            (Operand::Bool(_), Operand::Bool(_)) => DType::Bool,
            _ => DType::F32,
        };
        (left.into_value(op, dtype, right), right.into_value(op, dtype, left))
    }

    #[track_caller]
    pub(crate) fn elementwise<O: Into<Op> + OpRules>(op: O, left: Operand, right: Operand) -> Value {
        let (left, right) = Operand::pair(op.name(), left, right);
        match Value::broadcast_shapes(op.name(), left, right) {
            Some((left, right)) => emit_value(op, &[left, right], Site::caller()),
            None => Value::failed(),
        }
    }
}

/// Returns `true` if converting a number to the float type `dtype` does not overflow.
pub(super) fn is_in_range(number: f64, dtype: DType) -> bool {
    let cast = HostTensor::scalar(number).cast(dtype).get(0).as_f64();
    cast.is_finite() || !number.is_finite()
}

/// Converts a possibly negative axis to an index that counts from 0. If the axis is out of range, reports an error and
/// returns `None`.
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
        at.mismatch("the axis", expected, axis, "use an axis of the value")
    });
    None
}

pub(super) fn common_shape(left: &Shape, right: &Shape) -> Option<Shape> {
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

/// Broadcasts the batch axes of two stacks of matrices. Returns `None` if they cannot be broadcast; the type rule of
/// the product then reports the error.
#[track_caller]
pub(super) fn broadcast_batches(left: Value, right: Value) -> Option<(Value, Value)> {
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
