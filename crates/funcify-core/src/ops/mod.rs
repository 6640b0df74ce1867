//! The ops of funcify. Each op or table of elementwise ops has its own file, which contains its rules, its text form
//! and its tests.
//!
//! The set of ops is a closed enum, [`Op`], so an op with a missing rule does not compile. Other crates add ops through
//! the variant [`Op::Custom`].
//!
#![doc = include_str!("numerics.md")]

mod along;
mod basis;
mod control;
mod creation;
mod elementwise;
mod indexing;
mod movement;
mod products;

use std::fmt;

use enum_dispatch::enum_dispatch;

pub use along::*;
use basis::rules;
pub use basis::*;
pub use control::*;
pub use creation::*;
pub use elementwise::*;
pub use indexing::*;
pub use movement::*;
pub use products::*;

use crate::derivative::{Cotangents, Dual, VjpContext};
use crate::error::{Error, Place, Result};
pub use crate::graph::Failed;
use crate::graph::tracer::ClosedBody;
use crate::graph::{Graph, emit, fail, trace_body};
use crate::host::{HostTensor, Scalar, Storage};
use crate::types::{DType, Dim, Shape, SizeError, Symbol, TensorType};
use crate::value::Value;
use crate::vmap::{Batched, lanes_type};

/// The rules of an op. Every op must implement all rules; [`OpText`] supplies the name and the attributes.
///
/// A rule that adds ops to the open graph never receives a failed value, and the caller of the rule checks whether any
/// result has failed. A rule can therefore use the operators of [`Value`] directly. It needs `?` only after calling
/// [`emit`], or to look at the type of an intermediate value with [`Value::checked`].
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::error::{Place, Site};
/// use funcify::ops::{OpRules, Reduce, ReduceKind};
/// use funcify::{DType, TensorType};
///
/// let sum = Reduce { kind: ReduceKind::Sum, axes: vec![0] };
/// let operand = TensorType::new(DType::F32, ["T", "B"]);
/// let results = sum.infer(&Place::new(sum.name(), Site::caller()), &[operand])?;
/// assert_eq!(results[0].to_string(), "f32[B]");
/// # Ok::<(), funcify::Error>(())
/// ```
#[enum_dispatch]
pub trait OpRules: OpText {
    /// Returns the op's name in the text form. Backends register their lowering rules under the same name.
    fn name(&self) -> &'static str {
        self.text_name()
    }

    /// Applies the type rule: infers the types of the results. The error names the rejected operand and states the
    /// reason.
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>>;

    /// Computes the results for the reference evaluator. Implementations are deliberately slow and simple. `outputs`
    /// are the inferred types.
    fn eval(
        &self,
        context: &mut EvalContext<'_>,
        inputs: &[HostTensor],
        outputs: &[TensorType],
    ) -> Result<Vec<HostTensor>>;

    /// Returns the attributes in the order in which the text form prints them.
    fn attributes(&self) -> Attributes {
        self.text_attributes()
    }

    /// Applies the batching rule: adds ops to the open graph to compute this op for `size` lanes at once, and returns
    /// their results. At least one operand has lanes.
    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed>;

    /// Applies the forward-mode (JVP) rule: adds the op to the open graph, followed by ops that compute the tangents of
    /// its results. At least one operand has a tangent.
    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed>;

    /// Applies the reverse-mode (VJP) rule: adds ops to the open graph that compute the cotangents of the operands from
    /// the cotangents of the results. The cotangent of an operand is `None` if no derivative passes to that operand. At
    /// least one result has a cotangent.
    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed>;
}

/// An op with its attributes.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
/// use funcify::ops::{Op, Unary};
///
/// let graph = Graph::build("exponential", |g| g.input("x", "f32[]").exp())?;
/// assert!(matches!(graph.nodes()[0].op, Op::Unary(Unary::Exp)));
/// # Ok::<(), funcify::Error>(())
/// ```
#[enum_dispatch(OpRules, OpText)]
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each variant is documented at the type that it holds")]
pub enum Op {
    Unary,
    Binary,
    Bits,
    Compare,
    Predicate,
    Select,
    Cast,
    Bitcast,
    NextAfter,
    MatMul,
    Reduce,
    ArgMax,
    Broadcast,
    Reshape,
    Transpose,
    Slice,
    Reverse,
    Concat,
    Pad,
    Iota,
    Size,
    BindSize,
    Constant,
    DynamicSlice,
    DynamicUpdate,
    Take,
    Gather,
    Scatter,
    Threefry,
    Cumulative,
    Sort,
    Conv,
    Polygamma,
    Scan,
    Switch,
    While,
    AssociativeScan,
    Call,
    Custom,
}

impl Op {
    /// Returns `true` if rewrites must leave the op unchanged, because it has a user-defined derivative rule or comes
    /// from another crate.
    #[doc(hidden)]
    pub fn is_opaque(&self) -> bool {
        matches!(self, Op::Call(_) | Op::Custom(_))
    }

    /// Returns `true` if the op only moves or creates elements. Such an op never rounds, and skipping it saves no
    /// arithmetic.
    #[doc(hidden)]
    pub fn is_movement(&self) -> bool {
        match self.class() {
            OpClass::Movement(_) | OpClass::Creation(_) => true,
            OpClass::Elementwise(_) | OpClass::Indexing(_) | OpClass::Along(_) | OpClass::Product(_) => false,
            OpClass::RandomBits(_) | OpClass::Binding(_) | OpClass::Control(_) | OpClass::Custom(_) => false,
        }
    }
}

/// A type that identifies an op. It is the op's struct or, for an op in a table, the key type of its row.
///
/// [`funcify!`](crate::funcify) registers lowering rules by this type.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::ops::{Exp, Op, OpKey, Unary};
///
/// assert_eq!(Exp::NAME, "exp");
/// assert!(Exp::of(&Op::from(Unary::Exp)).is_some());
/// assert!(Exp::of(&Op::from(Unary::Log)).is_none());
/// ```
pub trait OpKey: Sized + 'static {
    /// The op's name in the text form.
    const NAME: &'static str;
    /// Returns `op` as this type, or `None` if it is a different op.
    fn of(op: &Op) -> Option<&Self>;
}

macro_rules! struct_ops {
    ($($op:ident),*) => {
        /// The names of the ops that have their own struct instead of a row in a table.
        const STRUCT_OPS: &[&str] = &[$($op::NAME),*];

        /// Builds the op called `name` from its parsed attributes. Returns `None` if there is no such op.
        pub(crate) fn parse_op(name: &str, attributes: &mut Attributes) -> Option<Result<Op, String>> {
            match name {
                $($op::NAME => Some($op::parse(attributes).map(Op::from)),)*
                BindSize::NAME => Some(BindSize::parse(attributes).map(Op::from)),
                _ => unary_of(name)
                    .map(Op::from)
                    .or_else(|| binary_of(name).map(Op::from))
                    .or_else(|| compare_of(name).map(Op::from))
                    .or_else(|| bits_of(name).map(Op::from))
                    .or_else(|| predicate_of(name).map(Op::from))
                    .map(Ok)
                    .or_else(|| custom::parse(name, attributes)),
            }
        }
    };
}

struct_ops! {
    Select, Cast, Bitcast, NextAfter, MatMul, Reduce, ArgMax, Broadcast, Reshape, Transpose, Slice,
    Reverse, Concat, Pad, Iota, Size, DynamicSlice, DynamicUpdate, Take, Gather, Scatter, Threefry,
    Cumulative, Sort, Conv, Polygamma
}

/// The names of the ops that have no lowering rules. On every backend, the host runs these ops, except `custom_jvp` and
/// `custom_vjp`: calls to functions with a user-defined derivative rule are inlined.
pub const CONTROL_FLOW: &[&str] = &["associative_scan", "bind_size", "custom_jvp", "custom_vjp", "switch", "while"];

/// Returns the names of all ops that this crate defines, sorted.
///
/// ```
/// # extern crate funcify_core as funcify;
/// assert!(funcify::ops::all_names().contains(&"matmul"));
/// ```
pub fn all_names() -> Vec<&'static str> {
    let tables = [UNARY_NAMES, BINARY_NAMES, COMPARE_NAMES, BITS_NAMES, PREDICATE_NAMES].concat();
    let mut names = [STRUCT_OPS, &tables, &["constant", "scan"], CONTROL_FLOW].concat();
    names.sort_unstable();
    names
}

/// Converts a failure to evaluate a dimension at run time into an error that names the op of the place `at`.
#[doc(hidden)]
pub fn no_size(at: &Place, error: SizeError) -> Error {
    let fix = "call with sizes for which it is 0 or more";
    match error {
        SizeError::Unbound(symbol) => unbound(at, &symbol),
        SizeError::TooLarge(dim) => {
            let (found, fix) = ("a larger number", "call with smaller sizes");
            at.mismatch(format!("the size or position `{dim}`"), "a number that fits in 64 bits", found, fix)
        }
        SizeError::Negative(dim, value) => {
            at.mismatch(format!("the size or position `{dim}`"), "0 or more", value, fix)
        }
    }
}

/// Returns the error for a size symbol that no input binds.
pub(crate) fn unbound(at: &Place, symbol: &Symbol) -> Error {
    Error::Call {
        at: at.boxed(),
        component: format!("size `{symbol}`"),
        expected: "a size bound by an input's shape".into(),
        found: "no input that determines it".into(),
        fix: "give an input a dimension that is this symbol, or linear in it".into(),
    }
}

/// Adds an op to the open graph, for a batching rule. All results have lanes.
fn emit_lanes(op: impl Into<Op>, operands: &[Value]) -> Result<Vec<Batched>, Failed> {
    Ok(emit(op, operands)?.into_iter().map(Batched::mapped).collect())
}

/// Adds an op without operands to the open graph, for a batching rule. The results are the same for all lanes.
fn emit_shared(op: impl Into<Op>) -> Result<Vec<Batched>, Failed> {
    Ok(emit(op, &[])?.into_iter().map(Batched::unmapped).collect())
}

/// Traces `body` into a graph for `size` lanes. The parameters of the new graph are the first `mapped.len()` parameters
/// of `graph`, followed by `extra`. The parameters marked in `mapped`, and all `extra` parameters, have lanes.
fn trace_lanes(
    op: &str,
    graph: &Graph,
    mapped: &[bool],
    extra: &[(String, TensorType)],
    size: &Dim,
    body: impl FnOnce(&[Batched]) -> Result<Vec<(String, Value)>, Failed>,
) -> Result<ClosedBody, Failed> {
    let own = mapped.iter().enumerate().map(|(index, mapped)| {
        (graph.input_name(index).to_string(), lanes_type(graph.input_type(index), *mapped, size))
    });
    let params: Vec<(String, TensorType)> = own.chain(extra.iter().cloned()).collect();
    trace_body(op, graph.name(), &params, |values| {
        let mapped = mapped.iter().copied().chain(extra.iter().map(|_| true));
        let lanes = values.iter().zip(mapped).map(|(value, mapped)| Batched { value: *value, mapped });
        body(&lanes.collect::<Vec<_>>())
    })
}

/// Records an error in the open graph: `component` should be `expected`, but is `found`.
pub(crate) fn fail_mismatch(
    at: &Place,
    values: &[Value],
    component: impl Into<String>,
    expected: impl fmt::Display,
    found: impl fmt::Display,
    fix: impl Into<String>,
) -> Failed {
    fail(&at.op, at.site, values, |at| at.mismatch(component, expected, found, fix))
}

/// Applies the batching rule of an elementwise op: gives lanes to the operands that have none, and adds the same op to
/// the open graph.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::ops::{Unary, batch_elementwise};
/// use funcify::vmap::Batched;
/// use funcify::{Dim, Graph};
///
/// let graph = Graph::build("lanes", |g| {
///     let x = Batched::mapped(g.input("x", "f32[2,3]"));
///     batch_elementwise(Unary::Exp, &Dim::from(2), &[x]).map(|results| results[0].value).ok()
/// })?;
/// assert_eq!(graph.output_type(0).to_string(), "f32[2,3]");
/// # Ok::<(), funcify::Error>(())
/// ```
pub fn batch_elementwise(op: impl Into<Op>, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let values: Vec<Value> = operands.iter().map(|operand| operand.materialized(size)).collect();
    emit_lanes(op, &values)
}

/// Checks that there are `N` operands, and returns their types.
fn arity<const N: usize>(at: &Place, inputs: &[TensorType]) -> Result<[TensorType; N]> {
    <[TensorType; N]>::try_from(inputs.to_vec()).map_err(|found| {
        let (expected, found) = (format!("{N} operands"), format!("{} operands", found.len()));
        at.mismatch("the operand list", expected, found, "pass as many values as the op takes")
    })
}

/// Checks that each type in `found` equals the type at the same index in `expected`. `component(index)` describes the
/// item at an index for the error message.
fn check_types<'a>(
    at: &Place,
    expected: impl IntoIterator<Item = &'a TensorType>,
    found: impl IntoIterator<Item = &'a TensorType>,
    component: impl Fn(usize) -> String,
    fix: &str,
) -> Result<()> {
    for (index, (expected, found)) in expected.into_iter().zip(found).enumerate() {
        if expected != found {
            return Err(at.mismatch(component(index), expected, found, fix));
        }
    }
    Ok(())
}

/// Returns the types of a body's parameters.
fn input_types(body: &Graph) -> impl Iterator<Item = &TensorType> {
    body.inputs().iter().map(|input| body.ty(input.value))
}

/// Returns the types of a body's results.
fn output_types(body: &Graph) -> impl Iterator<Item = &TensorType> {
    body.outputs().iter().map(|output| body.ty(output.value))
}

/// Checks at run time that an operand is not empty along an axis.
fn check_not_empty(at: &Place, x: &HostTensor, axis: usize) -> Result<()> {
    if x.shape()[axis] > 0 {
        return Ok(());
    }
    Err(at.mismatch("the operand", "a non-empty axis", x.ty(), "guard the empty case"))
}

/// Builds a tensor of the given shape from elements of `x`. The element at `index` is read from the same index of `x`,
/// except that the index along `axis` is `position(index)`.
fn gather_along(axis: usize, x: &HostTensor, shape: &[usize], position: impl Fn(&[usize]) -> usize) -> Vec<HostTensor> {
    let element = |index: &[usize]| {
        let mut source = index.to_vec();
        source[axis] = position(index);
        x.at(&source)
    };
    vec![HostTensor::from_fn(x.dtype(), shape, element)]
}

/// Returns the indices of the `true` flags.
fn flagged_indices(flags: &[bool]) -> Vec<usize> {
    (0..flags.len()).filter(|number| flags[*number]).collect()
}

/// Returns the items whose flag is `true`.
fn select_flagged<T: Clone>(flags: &[bool], all: &[T]) -> Vec<T> {
    all.iter().zip(flags).filter(|(_, flag)| **flag).map(|(one, _)| one.clone()).collect()
}

/// Returns `true` if two shapes have the same rank and the same sizes along all axes except `axis`.
fn equal_except(axis: usize, left: &Shape, right: &Shape) -> bool {
    left.rank() == right.rank() && (0..left.rank()).all(|other| other == axis || left[other] == right[other])
}

/// Checks that an operand has the expected type, ignoring the size of `axis`.
fn check_except(at: &Place, component: &str, axis: usize, expected: &TensorType, found: &TensorType) -> Result<()> {
    if found.dtype == expected.dtype && equal_except(axis, &found.shape, &expected.shape) {
        return Ok(());
    }
    Err(at.mismatch(component, format!("{expected} except in axis {axis}"), found, "cast, reshape or broadcast it"))
}

/// Checks that `axis` exists in an operand of this rank.
fn check_axis(at: &Place, component: &str, axis: usize, rank: usize) -> Result<()> {
    if axis < rank {
        return Ok(());
    }
    let fix = "name an axis that the operand has; negative axes count from the end";
    Err(at.mismatch(component, format!("an axis below {rank}"), format!("axis {axis}"), fix))
}

/// Checks that indices have an integer type.
fn check_index_dtype(at: &Place, component: &str, ty: &TensorType) -> Result<()> {
    if ty.dtype.is_int() {
        return Ok(());
    }
    Err(at.mismatch(component, "an integer type", ty, "cast the indices to i64"))
}

/// Returns the size of an axis after dilation by `step`, which inserts `step - 1` elements between neighbours. Returns
/// `None` for a step above 1 if the size is symbolic.
fn dilated_size(size: &Dim, step: usize) -> Option<Dim> {
    match (step, size.constant()) {
        (1, _) => Some(size.clone()),
        (_, Some(0 | 1)) => Some(size.clone()),
        (_, Some(size)) => Some(Dim::from(step) * (size - 1) + 1),
        (_, None) => None,
    }
}

/// Builds a tensor, and returns it as the only result of an op.
fn tensor(dtype: DType, shape: &[usize], elements: impl IntoIterator<Item = Scalar>) -> Result<Vec<HostTensor>> {
    Ok(HostTensor::new(shape, Storage::from_scalars(dtype, elements)).into_iter().collect())
}

/// Clamps an index to `0..size`. Returns 0 if the size is 0.
fn clamp_index(index: i64, size: usize) -> usize {
    index.clamp(0, size.saturating_sub(1) as i64) as usize
}
