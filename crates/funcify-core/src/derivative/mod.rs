//! Derivatives of any order through every loop, in forward and reverse mode.
//!
//! Each op has two rules in addition to its type rule: [`OpRules::jvp`] adds the op and the tangents of its results to
//! the open graph, and [`OpRules::vjp`] adds the cotangents of its operands. The modules `jvp` and `vjp` apply these
//! rules to all nodes of a graph. The result is again a graph, which can be differentiated, batched and printed like
//! any other.
//!
//! The rules distinguish three cases for the derivative of a result with respect to an operand. *Disconnected*: no path
//! leads from the operand to the result; the rules return `None`. *Zero*: a path exists, but the derivative along it is
//! zero, as for `floor`. *Undefined*: the op has no rule. Differentiating such an op reports [`Error::NoDerivative`],
//! and never returns zeros.

mod active;
mod build;
mod custom;
mod disconnected;
mod graphs;
mod jvp;
mod linear;
mod linearize;
mod pullback;
mod record;
#[cfg(test)]
mod tests;
mod vjp;
mod vjp_options;

pub(crate) use active::{active_params, active_values, forward_body};
pub use build::{
    Disconnected, GradOptions, checkpoint, grad, grad_with, hessian, hvp, jacobian, jvp, value_and_grad, vjp, vjp_with,
};
pub use custom::{custom_jvp, custom_vjp};
pub use graphs::Wrt;
pub(crate) use jvp::jvp as push_forward;
pub(crate) use linear::emit_transpose;
pub use linearize::{LinearMap, linearize, linearize_with};
pub use pullback::{BackwardInput, Pullback};
pub(crate) use record::{Forward, Record, no_record};
pub(crate) use vjp::Tape;
pub(crate) use vjp_options::VjpOptions;

use std::sync::Arc;

use crate::error::{Error, Place, Result, Site};
use crate::graph::tracer::{BodyTrace, ClosedBody, check, keep_names};
use crate::graph::{
    Failed, Graph, Node, Output, Replay, ValueId, at_site, emit, fail, inline, trace_body, tracer, uses_any,
};
use crate::ops::scan::CheckpointPolicy;
use crate::ops::{Op, OpRules, fail_mismatch};
use crate::tree::Tree;
use crate::types::{DType, Dim, Shape, Symbol, TensorType};
use crate::value::{Value, full, iota, or_failed};

/// A value and its tangent. The tangent is `None` if the value does not depend on an input that has a tangent.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::derivative::Dual;
/// use funcify::{Graph, evaluate};
///
/// let graph = Graph::build("zeros", |g| Dual::constant(g.input("x", "f64[2]")).tangent_or_zeros())?;
/// assert_eq!(evaluate(&graph, &[[1f64, 2.0].into()])?, [[0f64, 0.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Dual {
    /// The value.
    pub primal: Value,
    /// The derivative of the value along the inputs' tangents. It has the type of the value, which is a float type.
    pub tangent: Option<Value>,
}

impl Dual {
    /// Creates a value without a tangent.
    pub fn constant(primal: Value) -> Self {
        Dual { primal, tangent: None }
    }

    /// Pairs values with their tangents. In `values`, each value marked in `has_tangent` is followed by its tangent.
    pub(crate) fn pair(values: impl IntoIterator<Item = Value>, has_tangent: &[bool]) -> Vec<Dual> {
        let mut values = values.into_iter();
        let mut next = |has_tangent: &bool| {
            Some(Dual { primal: values.next()?, tangent: if *has_tangent { values.next() } else { None } })
        };
        has_tangent.iter().filter_map(&mut next).collect()
    }

    /// Returns the values in `duals`, named like the outputs of `graph`. Each value marked in `has_tangent` is followed
    /// by its tangent, or by zeros if it has none. In `found`, sets the flag of each value that has a tangent.
    pub(crate) fn name_outputs(
        duals: &[Dual],
        graph: &Graph,
        has_tangent: &[bool],
        found: &mut [bool],
    ) -> Vec<(String, Value)> {
        let mut named = Vec::new();
        for (index, (dual, output)) in duals.iter().zip(graph.outputs()).enumerate() {
            found[index] |= dual.tangent.is_some();
            named.push((output.name.clone(), dual.primal));
            if has_tangent[index] {
                named.push((format!("tan_{}", output.name), dual.tangent_or_zeros()));
            }
        }
        named
    }

    /// Returns the tangent, or zeros if there is none.
    pub fn tangent_or_zeros(&self) -> Value {
        self.tangent.unwrap_or_else(|| self.primal.zeros_like())
    }
}

/// The cotangents of several values, in order; `None` for a value without a cotangent.
pub type Cotangents = Vec<Option<Value>>;

/// The arguments of a reverse rule, apart from the cotangents: data from the forward pass, and options.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::derivative::{Cotangents, VjpContext};
/// # use funcify::error::{Place, Result};
/// # use funcify::ops::{Attributes, Custom, EvalContext, batch_elementwise};
/// # use funcify::{Dim, GradOptions, Graph, HostTensor, Scalar, TensorType, custom_op, evaluate, vmap::Batched};
/// use funcify::Value;
/// use funcify::ops::{CustomOp, Failed};
///
/// #[derive(Clone, Copy, Debug)]
/// struct Cube;
/// # custom_op!(Cube, "cube", |_attributes| Ok(Cube));
///
/// impl CustomOp for Cube {
///     fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Option<Cotangents>, Failed> {
///         let (x, cotangent) = (context.operands[0], cotangents[0]);
///         Ok(Some(context.cotangents([&|| Some(cotangent? * 3.0 * x.square())])))
///     }
///     // The other methods are as in the example of `CustomOp::composition`.
/// #     fn infer(&self, _: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
/// #         Ok(inputs.to_vec())
/// #     }
/// #     fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
/// #         let x = &inputs[0];
/// #         Ok(vec![HostTensor::from_fn(x.dtype(), x.shape(), |at| Scalar::Float(x.at(at).as_f64().powi(3)))])
/// #     }
/// #     fn attributes(&self) -> Attributes {
/// #         Attributes::new()
/// #     }
/// #     fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
/// #         batch_elementwise(Custom::new(*self), size, operands)
/// #     }
/// }
/// # let cube = Graph::build("cube", |g| funcify::apply(Custom::new(Cube), &[g.input("x", "f64[]")])[0])?;
/// # let slope = cube.grad("x", GradOptions::new())?;
/// # assert_eq!(evaluate(&slope, &[2f64.into()])?, [12f64.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct VjpContext<'a> {
    /// The operands of the op.
    pub operands: &'a [Value],
    /// The results of the op.
    pub results: &'a [Value],
    /// The data that the forward pass saved for this rule. Only control-flow ops save data.
    pub(crate) record: &'a Record,
    /// For each operand, `true` if its cotangent is requested. A rule may also return cotangents that are not
    /// requested.
    pub wrt: &'a [bool],
    /// The options that select reverse rules.
    pub(crate) vjp_options: &'a VjpOptions,
}

impl VjpContext<'_> {
    /// Computes the cotangent of each operand marked in `wrt`, by calling the function with the same index in `of`. The
    /// other cotangents are `None`.
    pub fn cotangents<const N: usize>(&self, of: [&dyn Fn() -> Option<Value>; N]) -> Cotangents {
        of.iter().zip(self.wrt).map(|(of, wrt)| if *wrt { of() } else { None }).collect()
    }

    /// Returns `None` for each operand, for use in the reverse rule of an op that blocks cotangents.
    pub fn no_cotangents(&self) -> Cotangents {
        vec![None; self.operands.len()]
    }
}

/// Applies the forward rule of an op that blocks derivatives: the results have no tangents.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::derivative::{Dual, jvp_none};
/// use funcify::ops::Unary;
/// use funcify::{Graph, evaluate};
///
/// let graph = Graph::build("floor", |g| {
///     let x = Dual { primal: g.input("x", "f64[]"), tangent: Some(g.input("tangent", "f64[]")) };
///     jvp_none(Unary::Floor, &[x]).map(|results| results[0].tangent_or_zeros()).ok()
/// })?;
/// assert_eq!(evaluate(&graph, &[2.5f64.into(), 1f64.into()])?, [0f64.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
pub fn jvp_none(op: impl Into<Op>, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    jvp_with(op, operands, |_, results| vec![None; results.len()])
}

/// Applies the forward rule of an op that is jointly linear in its float operands: applies the op to the operands, and
/// again to their tangents.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::derivative::{Dual, jvp_linear};
/// use funcify::ops::Unary;
/// use funcify::{Graph, evaluate};
///
/// let graph = Graph::build("negated", |g| {
///     let x = Dual { primal: g.input("x", "f64[]"), tangent: Some(g.input("tangent", "f64[]")) };
///     jvp_linear(Unary::Neg, &[x]).map(|results| results[0].tangent).ok()
/// })?;
/// assert_eq!(evaluate(&graph, &[2f64.into(), 5f64.into()])?, [(-5f64).into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
pub fn jvp_linear(op: impl Into<Op>, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    let op = op.into();
    let results = emit(op.clone(), &primals(operands))?;
    if results.iter().all(|result| !result.dtype().is_float()) {
        return Ok(results.into_iter().map(Dual::constant).collect());
    }
    let tangents = operands.iter().map(|operand| match operand.primal.dtype().is_float() {
        true => operand.tangent_or_zeros(),
        false => operand.primal,
    });
    let tangents = emit(op, &tangents.collect::<Vec<Value>>())?.into_iter().map(Some);
    Ok(results.into_iter().zip(tangents).map(|(primal, tangent)| Dual { primal, tangent }).collect())
}

/// Applies a forward rule: adds the op and the tangents of its results to the open graph. `tangents` computes these
/// tangents from the values of the operands and the results.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::derivative::{Dual, jvp_with};
/// use funcify::ops::Unary;
/// use funcify::{Graph, evaluate};
///
/// let graph = Graph::build("exponential", |g| {
///     let x = Dual { primal: g.input("x", "f64[]"), tangent: Some(g.input("tangent", "f64[]")) };
///     let results = jvp_with(Unary::Exp, &[x], |_, results| vec![x.tangent.map(|tangent| tangent * results[0])]);
///     results.map(|results| results[0].tangent).ok()
/// })?;
/// assert_eq!(evaluate(&graph, &[0f64.into(), 5f64.into()])?, [5f64.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
pub fn jvp_with(
    op: impl Into<Op>,
    operands: &[Dual],
    tangents: impl FnOnce(&[Value], &[Value]) -> Vec<Option<Value>>,
) -> Result<Vec<Dual>, Failed> {
    let values = primals(operands);
    let results = emit(op, &values)?;
    let tangents = tangents(&values, &results);
    Ok(results.into_iter().zip(tangents).map(|(primal, tangent)| Dual { primal, tangent }).collect())
}

/// Returns the values without their tangents.
pub(crate) fn primals(operands: &[Dual]) -> Vec<Value> {
    operands.iter().map(|operand| operand.primal).collect()
}

/// Records an [`Error::NoDerivative`] for an op.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::derivative::no_derivative;
/// use funcify::{Error, Graph, Value};
///
/// let refused = Graph::build("f", |g| {
///     let x = g.input("x", "f64[]");
///     Value::from(no_derivative("my_op", &[x], "the operand", "it is a table", "use `stop_gradient`"))
/// });
/// assert!(matches!(refused, Err(Error::NoDerivative { .. })));
/// ```
pub fn no_derivative(op: &str, operands: &[Value], component: &str, reason: &str, fix: &str) -> Failed {
    fail(op, Site::Unknown, operands, |at| Error::NoDerivative {
        at: at.boxed(),
        component: component.to_string(),
        reason: reason.to_string(),
        fix: fix.to_string(),
    })
}

/// Places the values, in order, at the positions marked in `has`, and `None` at the other positions.
pub(crate) fn place_marked(has: &[bool], values: impl IntoIterator<Item = Value>) -> Vec<Option<Value>> {
    let mut values = values.into_iter();
    has.iter().map(|has| if *has { values.next() } else { None }).collect()
}

/// Returns the sum of two contributions to a cotangent. A missing contribution counts as zero. Returns `None` if both
/// are missing.
pub(crate) fn add(left: Option<Value>, right: Option<Value>) -> Option<Value> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left + right),
        (left, right) => left.or(right),
    }
}
