//! The counted loop, `fori_loop(lower, upper, init, |i, carry| carry)`, with the semantics of JAX's `lax.fori_loop`.

use super::build::repeat;
use super::*;

/// A bound of a [`fori_loop`]: a constant, a dimension, or an integer scalar that the program computes.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, fori_loop};
///
/// let powers = Graph::build("powers", |g| {
///     let [x, n] = [g.input("x", "f32[3]"), g.input("n", "i64[]")];
///     (fori_loop(0, x.dim(0), x, |_, x| x * 2.0), fori_loop(0, n, x, |_, x| x * 2.0))
/// })?;
/// let results = evaluate(&powers, &[[1f32; 3].into(), 2i64.into()])?;
/// assert_eq!(results, [[8f32; 3].into(), [4f32; 3].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Bound {
    /// A constant, or a dimension that the input sizes determine.
    Dim(Dim),
    /// A bound that the program computes at run time.
    Value(Value),
}

impl From<Value> for Bound {
    fn from(value: Value) -> Self {
        Bound::Value(value)
    }
}

macro_rules! bounds_of_dims {
    ($($ty:ty),*) => {
        $(impl From<$ty> for Bound {
            fn from(dim: $ty) -> Self {
                Bound::Dim(dim.into())
            }
        })*
    };
}

bounds_of_dims!(Dim, &Dim, i64, i32, usize, &str);

impl Bound {
    fn value(&self, dtype: DType) -> Value {
        match self {
            Bound::Value(value) => *value,
            Bound::Dim(dim) => scalar_of(dim, dtype),
        }
    }
}

/// Runs `body(i, carry)` for each `i` from `lower` to `upper - 1`, in ascending order, and returns the last carry. If
/// the range is empty, returns `init`.
///
/// The bounds are dimensions, or integer scalars of the same type. If both are dimensions, `i` is an i64, and an
/// `upper` that is less than `lower` is an error at run time. However, if it is already known when the loop is built
/// that `upper` does not exceed `lower`, the range is empty and there is no error. If a bound is a scalar, `i` has the
/// type of that scalar.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, HostTensor, evaluate, fori_loop};
///
/// let factorial = Graph::build("factorial", |g| {
///     let n = g.input("n", "i64[]");
///     fori_loop(1, n + 1, n.ones_like(), |i, product| product * i)
/// })?;
/// assert_eq!(evaluate(&factorial, &[HostTensor::scalar(5i64)])?[0].as_slice::<i64>().unwrap(), [120]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn fori_loop<C: Tree>(
    lower: impl Into<Bound>,
    upper: impl Into<Bound>,
    init: C,
    body: impl FnOnce(Value, C) -> C,
) -> C {
    let at = Place::new("scan", Site::caller());
    let (lower, upper) = (lower.into(), upper.into());
    if let (Bound::Dim(lower), Bound::Dim(upper)) = (&lower, &upper) {
        let count = upper.clone() - lower;
        let is_empty = Dim::from(0).is_at_least(&count) == Some(true);
        let count = if is_empty { Dim::from(0) } else { count };
        let numbers = iota(&count, DType::I64) + scalar_of(lower, DType::I64);
        return repeat(&at, ScanOptions::new(), None, init, numbers, |carry, i| (body(i, carry), (), None)).0;
    }
    let given = [&lower, &upper].into_iter().filter_map(|bound| match bound {
        Bound::Value(value) if !value.is_failed() => Some(*value),
        _ => None,
    });
    for value in given.clone() {
        if !value.dtype().is_int() || value.rank() != 0 {
            let (expected, fix) = ("an integer scalar", "pass an integer scalar");
            fail_mismatch(&at, &[value], "a bound of the range", expected, value.ty(), fix);
            return init;
        }
    }
    let dtype = given.clone().next().map_or(DType::I64, Value::dtype);
    let (lower, upper) = (lower.value(dtype), upper.value(dtype));
    let count = range_length(lower, upper);
    let ((_, carry), ()) = repeat(&at, ScanOptions::new(), Some(count), (lower, init), (), |(i, carry), ()| {
        let next = body(i, carry);
        ((i + 1, next), (), None)
    });
    carry
}

/// Returns the number of integers from `lower` to `upper - 1`, or 0 if `upper` is less than `lower`. Unsigned bounds do
/// not underflow.
#[track_caller]
fn range_length(lower: Value, upper: Value) -> Value {
    upper.maximum(lower) - lower
}

/// Returns the value of a dimension as a scalar: a `constant` if the dimension is constant, or a `size` otherwise.
#[track_caller]
fn scalar_of(dim: &Dim, dtype: DType) -> Value {
    match dim.constant() {
        Some(number) => constant(HostTensor::scalar(number).cast(dtype)),
        None => size(dim, dtype),
    }
}
