//! The interface that passes use for ops with bodies: loops, switches, associative scans, functions with a derivative
//! rule.

use std::sync::Arc;

use crate::derivative::{Forward, VjpOptions};
use crate::graph::print::name_text;
use crate::graph::{Graph, Need, PrunedOp, ValueId, emit};
use crate::ops::form::Form;
use crate::ops::reach::Connected;
use crate::ops::rules::*;
use crate::ops::{BindSize, Call, Control, Op, OpClass, Rule, Unary};
use crate::types::{Replacements, Symbol};
use crate::vmap::ragged;

/// An op that runs bodies. No method has a default: whoever adds an op with bodies implements all of them. Printing,
/// pruning and reachability (of derivatives and lanes) are supertraits.
pub(crate) trait Bodied: Connected + Printable + Prunable {
    /// Returns the graphs that the op runs.
    fn bodies(&self) -> Vec<&Arc<Graph>>;

    /// Returns the op with these bodies, in the order of [`bodies`](Bodied::bodies). Bodies missing at the end stay
    /// unchanged.
    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op;

    /// Returns, for each body, the parameters that a derivative with respect to the operands in `wrt` passes through.
    fn active_params(&self, wrt: &[bool]) -> Vec<Vec<bool>>;

    /// Returns the sizes of the op other than those in its attributes and its bodies' types.
    fn sizes(&self) -> OwnSizes<'_>;

    /// Returns the op with dimensions substituted for symbols in its [`sizes`](Bodied::sizes).
    fn resized(&self, by: &Replacements) -> Op;

    /// Returns the number of steps that the op runs on operands of these types, if it is a loop.
    fn steps(&self, operands: &[&TensorType]) -> Option<StepCount>;

    /// Returns whether the batching rule is valid for these types of one lane, some of whose sizes differ between
    /// lanes.
    fn batches_ragged(&self, types: &ragged::Types<'_>) -> bool;

    /// Adds the op to a forward pass whose backward pass will need the cotangents of the operands in `wrt`.
    fn forward(&self, operands: &[Value], wrt: &[bool], vjp_options: &VjpOptions) -> Result<Forward, Failed>;
}

/// An op with bodies that can be printed in the text form.
pub(crate) trait Printable {
    /// Returns the contents of the op's text, with these operands.
    fn form(&self, operands: &[ValueId]) -> Form;
}

/// An op with bodies that can be reduced to the parts that some of its results need.
pub(crate) trait Prunable {
    /// Returns the operands that these results need, and adds to `bodies` the parts of each body that they need.
    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool>;

    /// Returns the op reduced to these results, with the needed parts of its bodies, or `None` if it cannot be
    /// reduced.
    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<PrunedOp>;
}

/// The sizes that belong to an op with bodies, or to an op that binds a size.
#[derive(Default)]
pub(crate) struct OwnSizes<'a> {
    /// A dimension, with a description of it.
    pub(crate) dim: Option<(&'static str, &'a Dim)>,
    /// The symbol whose size comes from an operand and is known inside the bodies.
    pub(crate) bound_before: Option<&'a Symbol>,
    /// The symbol whose size is known once the op has run.
    pub(crate) bound_after: Option<&'a Symbol>,
}

/// The number of steps that a loop runs.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::ops::StepCount;
/// use funcify::{Dim, Graph, scan};
///
/// let graph = Graph::build("sums", |g| scan(g.input("x", "f32[]"), g.input("xs", "f32[8]"), |s, x| (s + x, s)))?;
/// let node = &graph.nodes()[0];
/// let types = graph.nodes()[0].inputs.iter().map(|input| graph.ty(*input)).collect::<Vec<_>>();
/// assert!(matches!(node.op.steps(&types), Some(StepCount::Exactly(steps)) if steps == Dim::from(8)));
/// # Ok::<(), funcify::Error>(())
/// ```
pub enum StepCount {
    /// Exactly this number.
    Exactly(Dim),
    /// At most this number: a condition ends the loop.
    AtMost(Dim),
    /// As long as a condition holds.
    Unbounded,
}

impl Op {
    /// Returns the op as an op with bodies, if it is one.
    pub(crate) fn bodied(&self) -> Option<&dyn Bodied> {
        let OpClass::Control(op) = self.class() else { return None };
        Some(match op {
            Control::Scan(op) => op,
            Control::While(op) => op,
            Control::Switch(op) => op,
            Control::AssociativeScan(op) => op,
            Control::Call(op) => op,
        })
    }

    /// Returns the graphs that the op runs: the body of a loop, the branches of a switch, the condition and the body
    /// of a while loop, the combination of an associative scan, or a function with the graphs of its derivative rule.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, scan};
    ///
    /// let sums = Graph::build("sums", |g| scan(g.input("x", "f32[]"), g.input("xs", "f32[T]"), |s, x| (s + x, s)))?;
    /// assert_eq!(sums.nodes()[0].op.bodies()[0].nodes().len(), 1);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn bodies(&self) -> Vec<&Arc<Graph>> {
        self.bodied().map_or(Vec::new(), Bodied::bodies)
    }

    /// Returns the name of a body in texts: `case 1`, `combine`, `@step`.
    pub(crate) fn body_name(&self, number: usize) -> String {
        let own = self.bodies().get(number).map_or(String::new(), |body| name_text(body));
        let name = self.bodied().map_or(String::new(), |op| op.form(&[]).spelling.body_name(number));
        format!("{name}{own}").trim_start().to_string()
    }

    /// Returns the op with these bodies, in the order of [`bodies`](Op::bodies).
    #[doc(hidden)]
    pub fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        self.bodied().map_or_else(|| self.clone(), |op| op.with_bodies(bodies))
    }

    /// Returns the sizes of the op other than those in its attributes and its bodies' types.
    pub(crate) fn sizes(&self) -> OwnSizes<'_> {
        match self {
            Op::BindSize(BindSize { size }) => OwnSizes { bound_after: Some(size), ..OwnSizes::default() },
            op => op.bodied().map_or(OwnSizes::default(), Bodied::sizes),
        }
    }

    /// Returns the symbols whose sizes the op binds.
    #[doc(hidden)]
    pub fn binds(&self) -> impl Iterator<Item = &Symbol> {
        let sizes = self.sizes();
        sizes.bound_before.into_iter().chain(sizes.bound_after)
    }

    /// Returns the number of steps that the op runs on operands of these types, if it is a loop.
    pub fn steps(&self, operands: &[&TensorType]) -> Option<StepCount> {
        self.bodied().and_then(|op| op.steps(operands))
    }

    /// Returns whether a derivative passes through the op, given which of its operands carry one.
    pub(crate) fn passes_derivative(&self, active: &[bool]) -> bool {
        match self {
            Op::Unary(Unary::StopGradient) => false,
            // A value that only `backward` captures is not an input of the function.
            Op::Call(call) => active[..call.inputs().min(active.len())].contains(&true),
            _ => active.contains(&true),
        }
    }

    /// Returns whether differentiation replaces the op with nodes of a user's rule.
    pub(crate) fn has_user_vjp(&self) -> bool {
        matches!(self, Op::Call(Call { rule: Rule::Vjp { .. }, .. }))
    }

    /// Returns an equivalent program to differentiate instead of the op, if one is needed.
    pub(crate) fn replacement_for_differentiation(
        &self,
        operands: &[TensorType],
        vjp_options: &VjpOptions,
    ) -> Result<Option<Graph>, Failed> {
        if let Op::Scan(scan) = self { scan.segmented(operands, &vjp_options.policy) } else { Ok(None) }
    }

    /// Adds the op to a forward pass that saves no residuals of it.
    pub(crate) fn emit_forward(&self, operands: &[Value], wrt: &[bool]) -> Result<Vec<Value>, Failed> {
        match self {
            Op::Call(call) => Ok(call.forward_pass(operands)?.results),
            op => emit(op.with_forward_rules(wrt)?, operands),
        }
    }

    /// Adds the op to a forward pass whose backward pass will need the cotangents of the operands in `wrt`. Loops
    /// save their states; loops and switches also save what the policy selects.
    pub(crate) fn forward(
        &self,
        operands: &[Value],
        wrt: &[bool],
        vjp_options: &VjpOptions,
    ) -> Result<Forward, Failed> {
        match self.bodied() {
            Some(op) => op.forward(operands, wrt, vjp_options),
            None => Ok(Forward::of(emit(self.clone(), operands)?)),
        }
    }
}

/// Replaces bodies by new ones, in order; bodies without a new one stay.
pub(in crate::ops) fn with_new_bodies<const N: usize>(old: [&Arc<Graph>; N], new: Vec<Arc<Graph>>) -> [Arc<Graph>; N] {
    let mut new = new.into_iter();
    old.map(|old| new.next().unwrap_or_else(|| old.clone()))
}
