//! Derivatives: forward and reverse mode, of any order, through every loop.
//!
//! Each op has two rules beside its type rule: [`OpRules::jvp`] adds the op and its tangents
//! to the open trace, [`OpRules::vjp`] adds the cotangents of its operands. The sweeps are in
//! `jvp` and `vjp`; they run over a closed graph and give a closed graph, so derivatives are differentiated, batched
//! and printed as any other program.
//!
//! Three answers are kept apart. *Disconnected*: no path leads from one value to the other; the rules say `None`. *Zero*:
//! there is a path, and the derivative along it is zero, as that of `sign`. *Undefined*: nobody has written the rule;
//! that is [`Error::NoDerivative`], never zeros.

mod active;
mod build;
mod choices;
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

pub(crate) use active::{active_params, active_values, forward_body};
pub use build::{
    Disconnected, GradOptions, checkpoint, grad, grad_with, hessian, hvp, jacobian, jvp, value_and_grad, vjp, vjp_with,
};
pub(crate) use choices::Choices;
pub use custom::{custom_jvp, custom_vjp};
pub use graphs::Wrt;
pub(crate) use jvp::jvp as push_forward;
pub(crate) use linear::transposed;
pub use linearize::{LinearMap, linearize, linearize_with};
pub use pullback::{BackwardInput, Pullback};
pub(crate) use record::{Forward, Record, no_record};
pub(crate) use vjp::Tape;

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

/// A value and its tangent, if an input that has one leads to it.
#[derive(Clone, Copy, Debug)]
pub struct Dual {
    /// The value.
    pub primal: Value,
    /// Its derivative along the direction of the inputs' tangents; of the value's type, which is a float type.
    pub tangent: Option<Value>,
}

impl Dual {
    /// A value without a tangent.
    pub fn constant(primal: Value) -> Self {
        Dual { primal, tangent: None }
    }

    /// Values with their tangents: after each value that has one stands its tangent.
    pub(crate) fn paired(values: impl IntoIterator<Item = Value>, has_tangent: &[bool]) -> Vec<Dual> {
        let mut values = values.into_iter();
        let mut next = |has_tangent: &bool| {
            Some(Dual { primal: values.next()?, tangent: if *has_tangent { values.next() } else { None } })
        };
        has_tangent.iter().filter_map(&mut next).collect()
    }

    /// Values with the names of a graph's outputs: after each that `has_tangent` stands its tangent. Notes in `found` which
    /// of them have one.
    pub(crate) fn named(
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

    /// The tangent, zeros if there is none.
    pub fn tangent_or_zeros(&self) -> Value {
        self.tangent.unwrap_or_else(|| self.primal.zeros_like())
    }
}

/// The cotangents of several values, in their order; `None` where nothing passes.
pub type Cotangents = Vec<Option<Value>>;

/// What a reverse rule knows of the forward pass.
#[derive(Clone, Copy, Debug)]
pub struct VjpContext<'a> {
    /// The operands.
    pub operands: &'a [Value],
    /// The results.
    pub results: &'a [Value],
    /// What the forward pass kept for the rule, which only control flow does.
    pub(crate) record: &'a Record,
    /// Of which operands a cotangent is asked for. A rule may give others too.
    pub wrt: &'a [bool],
    /// Which reverse rules are taken.
    pub(crate) choices: &'a Choices,
}

impl VjpContext<'_> {
    /// The derivative of an operand if it is in `wrt`, for each of the operands.
    pub fn each<const N: usize>(&self, of: [&dyn Fn() -> Option<Value>; N]) -> Cotangents {
        of.iter().zip(self.wrt).map(|(of, wrt)| if *wrt { of() } else { None }).collect()
    }

    /// No cotangents: nothing leads through the op.
    pub fn none(&self) -> Cotangents {
        vec![None; self.operands.len()]
    }
}

/// The forward rule of an op through which no derivative passes.
pub fn jvp_none(op: impl Into<Op>, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    jvp_with(op, operands, |_, results| vec![None; results.len()])
}

/// The forward rule of an op that is linear in its float operands together: the op itself, on their tangents.
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

/// A forward rule: adds the op, and the tangents of its results by `tangents`, which is given the operands' values and
/// the results.
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

/// The values without their tangents.
pub(crate) fn primals(operands: &[Dual]) -> Vec<Value> {
    operands.iter().map(|operand| operand.primal).collect()
}

/// That an op has no derivative, as the error of the program that is built.
pub fn no_derivative(op: &str, operands: &[Value], component: &str, reason: &str, fix: &str) -> Failed {
    fail(op, Site::Unknown, operands, |at| Error::NoDerivative {
        at: at.boxed(),
        component: component.to_string(),
        reason: reason.to_string(),
        fix: fix.to_string(),
    })
}

/// Values in the places that have one.
pub(crate) fn placed(has: &[bool], values: impl IntoIterator<Item = Value>) -> Vec<Option<Value>> {
    let mut values = values.into_iter();
    has.iter().map(|has| if *has { values.next() } else { None }).collect()
}

/// The sum of two contributions.
pub(crate) fn add(left: Option<Value>, right: Option<Value>) -> Option<Value> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left + right),
        (left, right) => left.or(right),
    }
}
