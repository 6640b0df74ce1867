//! Adds inputs and constants to graphs, and defines the free functions on values.

use std::sync::Arc;

use super::*;
use crate::error::Error;
use crate::graph::{emit_at, fresh_symbol};
use crate::ops::{BindSize, Concat, Constant, Iota, Select, Size};

/// Declares the inputs of a graph. [`Graph::build`](crate::Graph::build) calls its closure with a `Builder`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph};
///
/// let graph = Graph::build("steps", |g| {
///     (g.input("xs", "f32[T,3]"), g.static_input("steps", DType::I64))
/// })?;
/// assert_eq!((graph.input_name(0), graph.input_type(1).to_string().as_str()), ("xs", "i64[]"));
/// # Ok::<(), funcify::Error>(())
/// ```
pub struct Builder {
    /// The unique number of the outermost body of this builder's graph.
    pub(crate) home: u64,
}

impl Builder {
    /// Declares an input. The type is a [`TensorType`] or its text, such as `"f32[T,B,64]"`. A dimension is a number,
    /// a symbol, or a polynomial over symbols. The shapes of a call's arguments determine the sizes of the symbols.
    #[track_caller]
    pub fn input(&self, name: &str, ty: impl IntoType) -> Value {
        let site = Site::caller();
        let text = ty.text();
        match ty.into_type() {
            Ok(ty) => self.add(name, ty, false, site),
            Err(expected) => bad_type(name, site, expected, &text),
        }
    }

    /// Declares an integer scalar input whose value may be compiled into a program. For example, a backend that unrolls
    /// loops must know the number of steps. Each new value triggers a compilation.
    #[track_caller]
    pub fn static_input(&self, name: &str, dtype: DType) -> Value {
        let site = Site::caller();
        if !dtype.is_int() {
            return fail_value("input", site, &[], |at| {
                at.mismatch(format!("static input `{name}`"), "an integer dtype", dtype, "use i64")
            });
        }
        self.add(name, TensorType::scalar(dtype), true, site)
    }

    /// Adds an input to this builder's graph, which must be the innermost graph being traced.
    fn add(&self, name: &str, ty: TensorType, is_static: bool, site: Site) -> Value {
        if tracer::is_building(self.home) {
            return tracer::input(name, ty, is_static, site);
        }
        fail_value("input", site, &[], |at| Error::Escaped {
            at: at.boxed(),
            component: format!("the builder that declares input `{name}`"),
            body: "another `Graph::build`, either enclosing or finished".into(),
            fix: "declare the input with the builder passed to this graph's closure".into(),
        })
    }
}

fn bad_type(name: &str, site: Site, expected: String, text: &str) -> Value {
    fail_value("input", site, &[], |at| {
        let fix = "write a dtype and the sizes in brackets, as in `f32[T,3]`";
        at.mismatch(format!("the type of input `{name}`"), expected, format!("`{text}`"), fix)
    })
}

/// The type of an input, given as a [`TensorType`] or as text.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, TensorType};
///
/// let graph = Graph::build("pair", |g| {
///     (g.input("x", "f32[T]"), g.input("y", TensorType::new(DType::F32, ["T"])))
/// })?;
/// assert_eq!(graph.input_type(0), graph.input_type(1));
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait IntoType {
    /// Returns the type. If the text is invalid, fails with a description of the expected text.
    fn into_type(self) -> Result<TensorType, String>;
    /// Returns the type as text.
    fn text(&self) -> String;
}

impl IntoType for TensorType {
    fn into_type(self) -> Result<TensorType, String> {
        Ok(self)
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

impl IntoType for &TensorType {
    fn into_type(self) -> Result<TensorType, String> {
        Ok(self.clone())
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

impl IntoType for &str {
    fn into_type(self) -> Result<TensorType, String> {
        TensorType::parse(self)
    }
    fn text(&self) -> String {
        (*self).to_string()
    }
}

/// Adds a constant tensor to the program.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, constant, evaluate};
///
/// let graph = Graph::build("shifted", |g| g.input("x", "f32[2]") + constant([10f32, 20.0]))?;
/// assert_eq!(evaluate(&graph, &[[1f32, 2.0].into()])?, [[11f32, 22.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn constant(value: impl Into<HostTensor>) -> Value {
    let value = Arc::new(value.into());
    emit_value(Constant { value }, &[], Site::caller())
}

/// Creates a tensor filled with one value: `full([3], DType::F32, 0.0)`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, full};
///
/// let graph = Graph::build("halves", |_| full([2], DType::F32, 0.5))?;
/// assert_eq!(evaluate(&graph, &[])?, [[0.5f32, 0.5].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn full(shape: impl Into<Shape>, dtype: DType, value: f64) -> Value {
    if !super::operand::is_in_range(value, dtype) {
        return fail_value("full", Site::caller(), &[], |at| {
            let fix = "use a number that the dtype can represent, or `f64::INFINITY`";
            at.mismatch("the number", format!("a number that {dtype} can represent"), format!("{value:?}"), fix)
        });
    }
    constant(HostTensor::scalar(value).cast(dtype)).broadcast_to(shape)
}

/// Creates the vector `[0, 1, ..]` with `size` elements.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, iota};
///
/// let graph = Graph::build("positions", |_| iota(3, DType::I64))?;
/// assert_eq!(evaluate(&graph, &[])?, [[0i64, 1, 2].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn iota(size: impl Into<Dim>, dtype: DType) -> Value {
    emit_value(Iota { size: size.into(), dtype }, &[], Site::caller())
}

/// Returns a dimension as a scalar of type `dtype`, for use in computations.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, size};
///
/// let mean = Graph::build("mean", |g| {
///     let x = g.input("x", "f32[T]");
///     x.sum(0) / size("T", DType::F32)
/// })?;
/// assert_eq!(evaluate(&mean, &[[1f32, 2.0, 6.0].into()])?, [3f32.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn size(dim: impl Into<Dim>, dtype: DType) -> Value {
    emit_value(Size { dim: dim.into(), dtype }, &[], Site::caller())
}

/// Returns a dimension whose value the program computes. Use `bind_size` for a size that does not follow from the
/// shapes of the inputs, such as the number of rows of a slice. This function is the inverse of [`size`].
///
/// `number` is any integer scalar, such as an `i64[]`. The dimension is a fresh symbol. When the program reaches this
/// call, it binds the symbol to the number. In the body of a loop or a branch, each run of the body binds the symbol
/// again. A value with this dimension therefore cannot leave the body: reduce the value inside the body, or write it
/// into a buffer of a fixed size. On every backend, the host reads the number. The number has no derivative, but values
/// with this dimension are differentiated as usual. Under [`vmap`](fn@crate::vmap), the size may differ between lanes
/// if every value with this dimension is reduced over that axis. The same condition applies to a loop whose number of
/// steps differs between lanes.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, HostTensor, bind_size, evaluate, iota};
///
/// let graph = Graph::build("first_rows", |g| {
///     let (xs, n) = (g.input("xs", "f32[T]"), g.input("n", "i64[]"));
///     let rows = bind_size(n);
///     xs.slice(0, ..rows.clone()) * iota(rows, DType::F32)
/// })?;
/// let results = evaluate(&graph, &[HostTensor::from([1f32, 2.0, 3.0, 4.0]), HostTensor::scalar(3i64)])?;
/// assert_eq!(results, [HostTensor::from([0f32, 2.0, 6.0])]);
/// # Ok::<(), funcify::Error>(())
/// ```
///
/// # Errors
/// Building the program fails if `number` is not an integer scalar. Running the program fails if the number is
/// negative; the error contains the op, the number and the line that called `bind_size`. Running the program also fails
/// if a value does not match the size, for example because a slice extends past the last row.
#[track_caller]
pub fn bind_size(number: Value) -> Dim {
    let size = fresh_symbol();
    let dim = Dim::symbol(&size);
    // If the op fails, the open graph records the error, as for any op.
    _ = emit_at(BindSize { size }, &[number], Site::caller());
    dim
}

/// Selects elementwise: `left` where `predicate` is `true`, `right` elsewhere. Shapes are broadcast to a common shape.
/// Either `left` or `right` may be a number.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, select};
///
/// let graph = Graph::build("positive", |g| {
///     let x = g.input("x", "f32[2]");
///     select(x.gt(0.0), x, 0.0)
/// })?;
/// assert_eq!(evaluate(&graph, &[[-1f32, 2.0].into()])?, [[0f32, 2.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn select(predicate: Value, left: impl Into<Operand>, right: impl Into<Operand>) -> Value {
    let (left, right) = Operand::pair("select", left.into(), right.into());
    let Some((predicate, left)) = Value::broadcast_shapes("select", predicate, left) else {
        return Value::failed();
    };
    let Some((predicate, right)) = Value::broadcast_shapes("select", predicate, right) else {
        return Value::failed();
    };
    let left = left.broadcast_to(right.shape());
    emit_value(Select, &[predicate, left, right], Site::caller())
}

/// Concatenates tensors along an axis, which may be negative to count from the end.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, concat, evaluate};
///
/// let graph = Graph::build("both", |g| concat(&[g.input("x", "f32[S]"), g.input("y", "f32[T]")], 0))?;
/// assert_eq!(evaluate(&graph, &[[1f32].into(), [2f32, 3.0].into()])?, [[1f32, 2.0, 3.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn concat(parts: &[Value], axis: i64) -> Value {
    let rank = parts.first().map_or(0, |part| part.rank());
    let Some(axis) = super::operand::normal_axis("concat", axis, rank, parts) else {
        return Value::failed();
    };
    emit_value(Concat { axis }, parts, Site::caller())
}

/// Stacks tensors of the same type along a new axis.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, stack};
///
/// let graph = Graph::build("rows", |g| stack(&[g.input("x", "f32[2]"), g.input("y", "f32[2]")], 0))?;
/// let results = evaluate(&graph, &[[1f32, 2.0].into(), [3f32, 4.0].into()])?;
/// assert_eq!(results, [[[1f32, 2.0], [3.0, 4.0]].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn stack(parts: &[Value], axis: i64) -> Value {
    let mut rows = Vec::with_capacity(parts.len());
    for part in parts {
        rows.push(part.unsqueeze(axis));
    }
    concat(&rows, axis)
}

/// Adds an op with the given operands, such as an op from another crate. Returns the results of the op.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::ops::Reverse;
/// use funcify::{Graph, apply, evaluate};
///
/// let graph = Graph::build("reversed", |g| apply(Reverse { axis: 0 }, &[g.input("x", "f32[2]")])[0])?;
/// assert_eq!(evaluate(&graph, &[[1f32, 2.0].into()])?, [[2f32, 1.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn apply(op: impl Into<Op>, operands: &[Value]) -> Vec<Value> {
    or_failed(emit_at(op, operands, Site::caller()), 1)
}
