//! The interface through which passes handle ops with bodies: loops, switches, associative scans, and functions with
//! user-defined derivative rules.

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

/// An op with bodies. A new op with bodies must implement all methods, because none has a default. The supertraits
/// define how the op is printed and pruned, and how lanes and derivatives pass through its bodies.
pub(crate) trait Bodied: Connected + Printable + Prunable {
    /// Returns the bodies, which are the graphs that the op runs.
    fn bodies(&self) -> Vec<&Arc<Graph>>;

    /// Returns a copy of the op with new bodies, in the order of [`bodies`](Bodied::bodies). If `bodies` is shorter,
    /// the remaining bodies stay unchanged.
    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op;

    /// Returns, for each body, which parameters depend on the operands in `wrt`.
    fn active_params(&self, wrt: &[bool]) -> Vec<Vec<bool>>;

    /// Returns the sizes that the op uses or binds, except those in its attributes and in the types of its bodies.
    fn sizes(&self) -> OwnSizes<'_>;

    /// Returns a copy of the op with dimensions substituted for the symbols in its [`sizes`](Bodied::sizes).
    fn resized(&self, by: &Replacements) -> Op;

    /// Returns the number of steps for operands of these types, or `None` if the op is not a loop.
    fn steps(&self, operands: &[&TensorType]) -> Option<StepCount>;

    /// Returns `true` if the batching rule is valid for ragged lanes, that is, lanes of different sizes. `types`
    /// contains the types of the op's operands and results in one lane.
    fn batches_ragged(&self, types: &ragged::Types<'_>) -> bool;

    /// Adds the op to a forward pass, and saves residuals for the backward pass. `wrt` marks the operands for which the
    /// backward pass will compute cotangents.
    fn forward(&self, operands: &[Value], wrt: &[bool], vjp_options: &VjpOptions) -> Result<Forward, Failed>;
}

/// An op that has bodies and can be printed in text form.
pub(crate) trait Printable {
    /// Returns the contents of the op's text for these operands.
    fn form(&self, operands: &[ValueId]) -> Form;
}

/// An op that has bodies and can be pruned to the parts that some of its results need.
pub(crate) trait Prunable {
    /// Returns which operands the marked results need. Adds the needed parts of each body to `bodies`.
    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool>;

    /// Returns the op reduced to the marked results and to the needed parts of its bodies, or `None` if the op cannot
    /// be reduced.
    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<PrunedOp>;
}

/// The sizes that an op uses or binds outside its bodies.
#[derive(Default)]
pub(crate) struct OwnSizes<'a> {
    /// A dimension that the op uses, such as the number of steps of a loop, with a description for error messages.
    pub(crate) dim: Option<(&'static str, &'a Dim)>,
    /// The symbol that the op binds to the value of an operand before its bodies run. The bodies can use this symbol.
    pub(crate) bound_before: Option<&'a Symbol>,
    /// The symbol that the op binds only after it has run, so its bodies cannot use it.
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
    /// Exactly this number of steps.
    Exactly(Dim),
    /// At most this number of steps, because a condition may end the loop earlier.
    AtMost(Dim),
    /// An unlimited number of steps: the loop runs while its condition is true.
    Unbounded,
}

impl Op {
    /// Returns the op as a [`Bodied`] trait object if it has bodies.
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

    /// Returns the graphs that the op runs: the body of a loop, the branches of a switch, the condition and the body of
    /// a while loop, the combining graph of an associative scan, or a function with the graphs of its derivative rule.
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

    /// Returns a body's name for error messages, such as `case 1`, `combine` or `@step`.
    pub(crate) fn body_name(&self, number: usize) -> String {
        let own = self.bodies().get(number).map_or(String::new(), |body| name_text(body));
        let name = self.bodied().map_or(String::new(), |op| op.form(&[]).spelling.body_name(number));
        format!("{name}{own}").trim_start().to_string()
    }

    /// Returns a copy of the op with new bodies, in the order of [`bodies`](Op::bodies).
    #[doc(hidden)]
    pub fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        self.bodied().map_or_else(|| self.clone(), |op| op.with_bodies(bodies))
    }

    /// Returns the sizes that the op uses or binds, except those in its attributes and in the types of its bodies.
    pub(crate) fn sizes(&self) -> OwnSizes<'_> {
        match self {
            Op::BindSize(BindSize { size }) => OwnSizes { bound_after: Some(size), ..OwnSizes::default() },
            op => op.bodied().map_or(OwnSizes::default(), Bodied::sizes),
        }
    }

    /// Returns the size symbols that the op binds.
    #[doc(hidden)]
    pub fn binds(&self) -> impl Iterator<Item = &Symbol> {
        let sizes = self.sizes();
        sizes.bound_before.into_iter().chain(sizes.bound_after)
    }

    /// Returns the size symbol that the op binds to its first operand, a number. Returns `None` for all other ops, such as
    /// loops that bind the number of steps that ran.
    #[doc(hidden)]
    pub fn bound_to_number(&self) -> Option<&Symbol> {
        let sizes = self.sizes();
        if let Op::BindSize(_) = self { sizes.bound_after } else { sizes.bound_before }
    }

    /// Returns the number of steps for operands of these types, or `None` if the op is not a loop.
    pub fn steps(&self, operands: &[&TensorType]) -> Option<StepCount> {
        self.bodied().and_then(|op| op.steps(operands))
    }

    /// Returns `true` if the op propagates a derivative from the operands marked in `active` to its results.
    pub(crate) fn passes_derivative(&self, active: &[bool]) -> bool {
        match self {
            Op::Unary(Unary::StopGradient) => false,
            // Values captured only by `backward` are not inputs of the called function.
            Op::Call(call) => active[..call.inputs().min(active.len())].contains(&true),
            _ => active.contains(&true),
        }
    }

    /// Returns `true` if the op has a user-defined reverse-mode rule, whose nodes replace the op when it is
    /// differentiated.
    pub(crate) fn has_user_vjp(&self) -> bool {
        matches!(self, Op::Call(Call { rule: Rule::Vjp { .. }, .. }))
    }

    /// Returns the graph that must replace the op before differentiation, or `None` if the op can be differentiated as
    /// it is.
    pub(crate) fn replacement_for_differentiation(
        &self,
        operands: &[TensorType],
        vjp_options: &VjpOptions,
    ) -> Result<Option<Graph>, Failed> {
        if let Op::Scan(scan) = self { scan.segmented(operands, &vjp_options.policy) } else { Ok(None) }
    }

    /// Adds the op to a forward pass and returns its results, without saving residuals.
    pub(crate) fn emit_forward(&self, operands: &[Value], wrt: &[bool]) -> Result<Vec<Value>, Failed> {
        match self {
            Op::Call(call) => Ok(call.forward_pass(operands)?.results),
            op => emit(op.with_forward_rules(wrt)?, operands),
        }
    }

    /// Adds the op to a forward pass, and saves the residuals from which the backward pass computes the cotangents of
    /// the operands in `wrt`. A loop always saves its states. The checkpoint policy selects additional values to save
    /// from the bodies.
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

/// Replaces the leading bodies in `old` with the bodies in `new`, and returns all bodies.
pub(in crate::ops) fn with_new_bodies<const N: usize>(old: [&Arc<Graph>; N], new: Vec<Arc<Graph>>) -> [Arc<Graph>; N] {
    let mut new = new.into_iter();
    old.map(|old| new.next().unwrap_or_else(|| old.clone()))
}
