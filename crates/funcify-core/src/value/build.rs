//! Building graphs: inputs, constants, and the functions that are not methods of a value.

use std::sync::Arc;

use super::*;
use crate::error::Error;
use crate::graph::{emit_at, fresh_symbol};
use crate::ops::{BindSize, Concat, Constant, Iota, Select, Size};

/// What [`Graph::build`](crate::Graph::build) gives to the building closure: it declares the inputs.
pub struct Builder {
    /// The home of the graph that is being built.
    pub(crate) home: u64,
}

impl Builder {
    /// Declares an input. The type is a [`TensorType`] or its text: `"f32[T,B,64]"`. A dimension is a number,
    /// a symbol or a polynomial over symbols; symbols are bound by the shapes of a call's arguments.
    #[track_caller]
    pub fn input(&self, name: &str, ty: impl IntoType) -> Value {
        let site = Site::caller();
        let text = ty.text();
        match ty.into_type() {
            Ok(ty) => self.add(name, ty, false, site),
            Err(expected) => bad_type(name, site, expected, &text),
        }
    }

    /// Declares an integer scalar input whose value may be compiled into a program: a number of steps, say,
    /// that a backend which unrolls loops has to know. Each new value compiles anew.
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

    /// Adds an input to this builder's graph, which must be the innermost one that is being built.
    fn add(&self, name: &str, ty: TensorType, is_static: bool, site: Site) -> Value {
        if tracer::is_building(self.home) {
            return tracer::input(name, ty, is_static, site);
        }
        fail_value("input", site, &[], |at| Error::Escaped {
            at: at.boxed(),
            component: format!("the builder that declares input `{name}`"),
            home: "another `Graph::build`, around this one or finished".into(),
            fix: "declare the input with the builder that the closure of this graph is given".into(),
        })
    }
}

fn bad_type(name: &str, site: Site, expected: String, text: &str) -> Value {
    fail_value("input", site, &[], |at| {
        let fix = "write a dtype and the sizes in brackets, as in `f32[T,3]`";
        at.mismatch(format!("the type of input `{name}`"), expected, format!("`{text}`"), fix)
    })
}

/// What can be given as an input's type.
pub trait IntoType {
    /// The type, or what was expected of its text.
    fn into_type(self) -> Result<TensorType, String>;
    /// How it is written.
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

/// A tensor that is part of the program.
#[track_caller]
pub fn constant(value: impl Into<HostTensor>) -> Value {
    let value = Arc::new(value.into());
    emit_value(Constant { value }, &[], Site::caller())
}

/// A tensor filled with one value: `full([3], DType::F32, 0.0)`.
#[track_caller]
pub fn full(shape: impl Into<Shape>, dtype: DType, value: f64) -> Value {
    if !super::operand::is_in_range(value, dtype) {
        return fail_value("full", Site::caller(), &[], |at| {
            let fix = "write a number that it holds, or `f64::INFINITY`";
            at.mismatch("the number", format!("one that {dtype} holds"), format!("{value:?}"), fix)
        });
    }
    constant(HostTensor::scalar(value).cast(dtype)).broadcast_to(shape)
}

/// The numbers 0, 1, .. as a vector of `size` elements.
#[track_caller]
pub fn iota(size: impl Into<Dim>, dtype: DType) -> Value {
    emit_value(Iota { size: size.into(), dtype }, &[], Site::caller())
}

/// A dimension as a scalar that the program can compute with.
#[track_caller]
pub fn size(dim: impl Into<Dim>, dtype: DType) -> Value {
    emit_value(Size { dim: dim.into(), dtype }, &[], Site::caller())
}

/// An integer scalar that the program computes, as a dimension: how many rows a slice has, or what is to be allocated. It is
/// the inverse of [`size`].
///
/// `number` is any integer scalar, `i64[]` say. The dimension is a fresh symbol, which has that size from here on; in the body
/// of a loop or a branch each step binds it anew, so nothing of that size leaves the body: reduce it there, or write it into
/// a buffer of a fixed size. Programs of every backend read the number on the host. It has no derivative, and
/// what has the size is differentiated as anything else. In a [`vmap`](fn@crate::vmap) each lane may have a size of its own, if
/// what has it is reduced over that axis, as for loops whose number of steps differs between lanes.
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
/// Of the program, when it is built: a value that is no integer scalar. Of a call: a negative number, by the name of the op, the
/// number and this line; and whatever does not fit the size, as a slice beyond the rows that there are.
#[track_caller]
pub fn bind_size(number: Value) -> Dim {
    let size = fresh_symbol();
    let dim = Dim::symbol(&size);
    // A failure is kept by the open trace, as that of any op.
    _ = emit_at(BindSize { size }, &[number], Site::caller());
    dim
}

/// Elementwise, `left` where `predicate` is true, else `right`; shapes are broadcast to a common one. One of
/// the two may be a number.
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

/// Several tensors after one another along an axis, which may be negative to count from the end.
#[track_caller]
pub fn concat(parts: &[Value], axis: i64) -> Value {
    let rank = parts.first().map_or(0, |part| part.rank());
    let Some(axis) = super::operand::normal_axis("concat", axis, rank, parts) else {
        return Value::failed();
    };
    emit_value(Concat { axis }, parts, Site::caller())
}

/// Several tensors of one type along a new axis.
#[track_caller]
pub fn stack(parts: &[Value], axis: i64) -> Value {
    let mut rows = Vec::with_capacity(parts.len());
    for part in parts {
        rows.push(part.unsqueeze(axis));
    }
    concat(&rows, axis)
}

/// Adds an op with explicit operands: how an op from another crate is used.
#[track_caller]
pub fn apply(op: impl Into<Op>, operands: &[Value]) -> Vec<Value> {
    or_failed(emit_at(op, operands, Site::caller()), 1)
}
