//! What a pass asks of an op that has bodies: a loop, a choice, an associative scan, a function with a derivative rule.

use std::sync::Arc;

use crate::derivative::{Choices, Forward};
use crate::graph::print::name_text;
use crate::graph::{Graph, Need, PrunedOp, ValueId, emit};
use crate::ops::form::Form;
use crate::ops::reach::Connected;
use crate::ops::rules::*;
use crate::ops::{BindSize, Call, Control, Op, OpClass, Rule, Unary};
use crate::types::{Replacements, Symbol};
use crate::vmap::ragged;

/// The questions. None has a default: who adds an op with bodies answers all of them. How it prints, what of it some results
/// need and what derivatives and lanes reach are questions of their own.
pub(crate) trait Bodied: Connected + Printable + Prunable {
    /// The graphs that the op runs.
    fn bodies(&self) -> Vec<&Arc<Graph>>;

    /// The op with these bodies, in the order of [`bodies`](Bodied::bodies); those that are missing stay.
    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op;

    /// For each of the bodies, through which of its parameters a derivative by the operands in `wrt` goes.
    fn active_params(&self, wrt: &[bool]) -> Vec<Vec<bool>>;

    /// The sizes that it has beside its attributes and its bodies' types.
    fn sizes(&self) -> OwnSizes<'_>;

    /// The op with dimensions in place of symbols, in its [`sizes`](Bodied::sizes).
    fn resized(&self, by: &Replacements) -> Op;

    /// How many steps it runs on operands of these types, if it is a loop.
    fn steps(&self, operands: &[&TensorType]) -> Option<StepCount>;

    /// Whether its batching rule holds for these types of one lane, some of whose sizes differ between lanes.
    fn batches_ragged(&self, types: &ragged::Types<'_>) -> bool;

    /// Adds the op for a forward pass whose backward pass will ask for the cotangents of the operands in `wrt`.
    fn forward(&self, operands: &[Value], wrt: &[bool], choices: &Choices) -> Result<Forward, Failed>;
}

/// An op with bodies in the text form.
pub(crate) trait Printable {
    /// What stands in its text, with these operands.
    fn form(&self, operands: &[ValueId]) -> Form;
}

/// What of an op with bodies some of its results need.
pub(crate) trait Prunable {
    /// Which operands it needs for these results. What that needs of its bodies is added.
    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool>;

    /// The op for these results alone, with the bodies as they are needed. `None` if it cannot be made.
    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<PrunedOp>;
}

/// Sizes that belong to an op with bodies, or to one that binds a size.
#[derive(Default)]
pub(crate) struct OwnSizes<'a> {
    /// A dimension, with what it is.
    pub(crate) dim: Option<(&'static str, &'a Dim)>,
    /// The symbol that an operand gives a size, which its bodies know.
    pub(crate) bound_before: Option<&'a Symbol>,
    /// The symbol that has a size when the op has run.
    pub(crate) bound_after: Option<&'a Symbol>,
}

/// How many steps a loop runs.
pub enum StepCount {
    /// This number.
    Exactly(Dim),
    /// At most this number: a condition ends it.
    AtMost(Dim),
    /// As long as a condition holds.
    WhileItHolds,
}

impl Op {
    /// The op as one with bodies, if it is one.
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

    /// The graphs that the op runs: the body of a loop, the branches of a choice, a condition and its step, a
    /// combination, a function with the graphs of its derivative rule.
    pub fn bodies(&self) -> Vec<&Arc<Graph>> {
        self.bodied().map_or(Vec::new(), Bodied::bodies)
    }

    /// What a body is called in texts: `case 1`, `combine`, `@step`.
    pub(crate) fn body_name(&self, number: usize) -> String {
        let own = self.bodies().get(number).map_or(String::new(), |body| name_text(body));
        let name = self.bodied().map_or(String::new(), |op| op.form(&[]).spelling.body_name(number));
        format!("{name}{own}").trim_start().to_string()
    }

    /// The op with these bodies, in the order of [`bodies`](Op::bodies).
    pub fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        self.bodied().map_or_else(|| self.clone(), |op| op.with_bodies(bodies))
    }

    /// The sizes that the op has beside its attributes and its bodies' types.
    pub(crate) fn sizes(&self) -> OwnSizes<'_> {
        match self {
            Op::BindSize(BindSize { size }) => OwnSizes { bound_after: Some(size), ..OwnSizes::default() },
            op => op.bodied().map_or(OwnSizes::default(), Bodied::sizes),
        }
    }

    /// The symbols to which the op gives sizes.
    pub fn binds(&self) -> impl Iterator<Item = &Symbol> {
        let sizes = self.sizes();
        sizes.bound_before.into_iter().chain(sizes.bound_after)
    }

    /// How many steps it runs on operands of these types, if it is a loop.
    pub fn steps(&self, operands: &[&TensorType]) -> Option<StepCount> {
        self.bodied().and_then(|op| op.steps(operands))
    }

    /// Whether a derivative goes through it, from those of its operands through which it goes.
    pub(crate) fn leads_through(&self, active: &[bool]) -> bool {
        match self {
            Op::Unary(Unary::StopGradient) => false,
            // What `backward` alone captures is no input of the function.
            Op::Call(call) => active[..call.inputs().min(active.len())].contains(&true),
            _ => active.contains(&true),
        }
    }

    /// Whether a derivative puts nodes of a rule of the user in its place.
    pub(crate) fn is_replaced(&self) -> bool {
        matches!(self, Op::Call(Call { rule: Rule::Vjp { .. }, .. }))
    }

    /// A program of the same meaning that is differentiated in its place.
    pub(crate) fn differentiated_as(
        &self,
        operands: &[TensorType],
        choices: &Choices,
    ) -> Result<Option<Graph>, Failed> {
        if let Op::Scan(scan) = self { scan.segmented(operands, &choices.policy) } else { Ok(None) }
    }

    /// Adds the op as a forward pass runs it that keeps nothing of it.
    pub(crate) fn emit_forward(&self, operands: &[Value], wrt: &[bool]) -> Result<Vec<Value>, Failed> {
        match self {
            Op::Call(call) => Ok(call.forward_pass(operands)?.results),
            op => emit(op.with_forward_rules(wrt)?, operands),
        }
    }

    /// Adds the op for a forward pass whose backward pass will ask for the cotangents of the operands in `wrt`. Loops save
    /// their states, and loops and choices what the policy says.
    pub(crate) fn forward(&self, operands: &[Value], wrt: &[bool], choices: &Choices) -> Result<Forward, Failed> {
        match self.bodied() {
            Some(op) => op.forward(operands, wrt, choices),
            None => Ok(Forward::of(emit(self.clone(), operands)?)),
        }
    }
}

/// New bodies in the place of some; those that are missing stay.
pub(in crate::ops) fn replaced<const N: usize>(old: [&Arc<Graph>; N], new: Vec<Arc<Graph>>) -> [Arc<Graph>; N] {
    let mut new = new.into_iter();
    old.map(|old| new.next().unwrap_or_else(|| old.clone()))
}
