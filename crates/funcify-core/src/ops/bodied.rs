//! What a pass asks of an op that has bodies: a loop, a choice, an associative scan, a function with a derivative rule.

use std::sync::Arc;

use super::form::Form;
use super::reach::Connected;
use super::{AssociativeScan, BindSize, Call, Op, Rule, Scan, Switch, Unary, While};
use crate::derivative::{Choices, Forward};
use crate::error::Result;
use crate::graph::print::name_text;
use crate::graph::{Failed, Graph, Known, Need, PrunedOp, ValueId, emit};
use crate::types::{Dim, Replacements, Symbol, TensorType};
use crate::value::Value;
use crate::vmap::ragged;

/// The questions. None has a default: who adds an op with bodies answers all of them. How it prints, what of it some results
/// need and what derivatives and lanes reach stand in files of their own.
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

    /// Whether it surely ends, and reads and gives rows that surely are there. Its bodies may be refused all the same.
    fn surely_runs(&self, operands: &[&TensorType], known: &Known<'_>) -> bool;

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

impl Bodied for Scan {
    fn bodies(&self) -> Vec<&Arc<Graph>> {
        vec![&self.body]
    }

    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        let [body] = replaced([&self.body], bodies);
        Scan { body, ..self.clone() }.into()
    }

    fn active_params(&self, wrt: &[bool]) -> Vec<Vec<bool>> {
        vec![self.active(wrt)]
    }

    fn sizes(&self) -> OwnSizes<'_> {
        OwnSizes {
            dim: Some(("the number of steps", &self.steps)),
            bound_before: self.steps.as_symbol().filter(|_| self.steps_operand),
            bound_after: self.until.as_ref(),
        }
    }

    fn resized(&self, by: &Replacements) -> Op {
        // What a loop binds is given another name only.
        let renamed = |symbol: &Symbol| by.get(symbol).and_then(Dim::as_symbol).unwrap_or(symbol).clone();
        let until = self.until.as_ref().map(renamed);
        Scan { steps: self.steps.replaced(by), until, ..self.clone() }.into()
    }

    fn steps(&self, _: &[&TensorType]) -> Option<StepCount> {
        Some(match self.until {
            Some(_) => StepCount::AtMost(self.steps.clone()),
            None => StepCount::Exactly(self.steps.clone()),
        })
    }

    fn surely_runs(&self, operands: &[&TensorType], known: &Known<'_>) -> bool {
        self.rows_are_there(operands, known)
    }

    fn batches_ragged(&self, types: &ragged::Types<'_>) -> bool {
        types.have_rows(self)
    }

    fn forward(&self, operands: &[Value], wrt: &[bool], choices: &Choices) -> Result<Forward, Failed> {
        self.forward_pass(operands, wrt, &choices.policy)
    }
}

impl Bodied for Switch {
    fn bodies(&self) -> Vec<&Arc<Graph>> {
        self.branches.iter().collect()
    }

    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        let kept = self.branches.iter().skip(bodies.len()).cloned();
        Switch { branches: bodies.iter().take(self.branches.len()).cloned().chain(kept).collect() }.into()
    }

    fn active_params(&self, wrt: &[bool]) -> Vec<Vec<bool>> {
        self.operands().into_iter().map(|places| wrt[places].to_vec()).collect()
    }

    fn sizes(&self) -> OwnSizes<'_> {
        OwnSizes::default()
    }

    fn resized(&self, _: &Replacements) -> Op {
        self.clone().into()
    }

    fn steps(&self, _: &[&TensorType]) -> Option<StepCount> {
        None
    }

    fn surely_runs(&self, _: &[&TensorType], _: &Known<'_>) -> bool {
        true
    }

    fn batches_ragged(&self, _: &ragged::Types<'_>) -> bool {
        true
    }

    fn forward(&self, operands: &[Value], wrt: &[bool], choices: &Choices) -> Result<Forward, Failed> {
        self.forward_pass(operands, wrt, choices)
    }
}

impl Bodied for While {
    fn bodies(&self) -> Vec<&Arc<Graph>> {
        vec![&self.condition, &self.body]
    }

    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        let [condition, body] = replaced([&self.condition, &self.body], bodies);
        While { condition, body, bound: self.bound.clone() }.into()
    }

    fn active_params(&self, wrt: &[bool]) -> Vec<Vec<bool>> {
        vec![vec![false; self.condition.inputs().len()], self.active(wrt)]
    }

    fn sizes(&self) -> OwnSizes<'_> {
        OwnSizes { dim: self.bound.as_ref().map(|bound| ("the bound", bound)), ..OwnSizes::default() }
    }

    fn resized(&self, by: &Replacements) -> Op {
        While { bound: self.bound.as_ref().map(|bound| bound.replaced(by)), ..self.clone() }.into()
    }

    fn steps(&self, _: &[&TensorType]) -> Option<StepCount> {
        Some(self.bound.clone().map_or(StepCount::WhileItHolds, StepCount::AtMost))
    }

    fn surely_runs(&self, _: &[&TensorType], _: &Known<'_>) -> bool {
        self.bound.is_some()
    }

    fn batches_ragged(&self, _: &ragged::Types<'_>) -> bool {
        self.bound.as_ref().is_none_or(|bound| !ragged::is_ragged(bound))
    }

    fn forward(&self, operands: &[Value], wrt: &[bool], _: &Choices) -> Result<Forward, Failed> {
        self.forward_pass(operands, wrt)
    }
}

impl Bodied for AssociativeScan {
    fn bodies(&self) -> Vec<&Arc<Graph>> {
        vec![&self.combine]
    }

    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        let [combine] = replaced([&self.combine], bodies);
        AssociativeScan { combine, ..self.clone() }.into()
    }

    fn active_params(&self, wrt: &[bool]) -> Vec<Vec<bool>> {
        vec![self.active(wrt)]
    }

    fn sizes(&self) -> OwnSizes<'_> {
        OwnSizes::default()
    }

    fn resized(&self, _: &Replacements) -> Op {
        self.clone().into()
    }

    fn steps(&self, operands: &[&TensorType]) -> Option<StepCount> {
        Some(StepCount::Exactly(operands[0].shape[0].clone()))
    }

    fn surely_runs(&self, _: &[&TensorType], _: &Known<'_>) -> bool {
        true
    }

    fn batches_ragged(&self, types: &ragged::Types<'_>) -> bool {
        !types.is_ragged_along(0, 0)
    }

    fn forward(&self, operands: &[Value], wrt: &[bool], _: &Choices) -> Result<Forward, Failed> {
        Ok(Forward::of(Op::from(self.clone()).emit_forward(operands, wrt)?))
    }
}

impl Bodied for Call {
    fn bodies(&self) -> Vec<&Arc<Graph>> {
        self.parts().into_iter().map(|part| part.graph).collect()
    }

    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        self.with_graphs(bodies).into()
    }

    /// They are differentiated by the rule alone.
    fn active_params(&self, _: &[bool]) -> Vec<Vec<bool>> {
        self.bodies().into_iter().map(|body| vec![false; body.inputs().len()]).collect()
    }

    fn sizes(&self) -> OwnSizes<'_> {
        OwnSizes::default()
    }

    fn resized(&self, _: &Replacements) -> Op {
        self.clone().into()
    }

    fn steps(&self, _: &[&TensorType]) -> Option<StepCount> {
        None
    }

    fn surely_runs(&self, _: &[&TensorType], _: &Known<'_>) -> bool {
        true
    }

    fn batches_ragged(&self, _: &ragged::Types<'_>) -> bool {
        true
    }

    fn forward(&self, operands: &[Value], _: &[bool], _: &Choices) -> Result<Forward, Failed> {
        self.forward_pass(operands)
    }
}

/// New bodies in the place of some; those that are missing stay.
fn replaced<const N: usize>(old: [&Arc<Graph>; N], new: Vec<Arc<Graph>>) -> [Arc<Graph>; N] {
    let mut new = new.into_iter();
    old.map(|old| new.next().unwrap_or_else(|| old.clone()))
}
