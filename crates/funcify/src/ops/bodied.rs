//! What a pass asks of an op that has bodies: a loop, a choice, an associative scan, a function with a derivative rule.

use std::sync::Arc;

use super::{AssociativeScan, Call, Op, Scan, Switch, While};
use crate::derivative::{Choices, Forward};
use crate::error::Site;
use crate::graph::{Graph, Need, PrunedOp, emit};
use crate::types::{Dim, Replacements, Symbol, TensorType};
use crate::value::Value;

/// The questions. None has a default: who adds an op with bodies answers all of them.
pub(crate) trait Bodied {
    /// The graphs that the op runs.
    fn bodies(&self) -> Vec<&Arc<Graph>>;

    /// The op with these bodies, in the order of [`bodies`](Bodied::bodies); those that are missing stay.
    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op;

    /// What a body is called in texts: `case 1`, `combine`.
    fn body_name(&self, number: usize) -> String;

    /// For each of the bodies, through which of its parameters a derivative by the operands that are wanted goes.
    fn active_params(&self, wanted: &[bool]) -> Vec<Vec<bool>>;

    /// The symbol that an operand gives a size, which its bodies know.
    fn bound_before(&self) -> Option<&Symbol>;

    /// The symbol that has a size when the op has run.
    fn bound_after(&self) -> Option<&Symbol>;

    /// The dimension that it has beside its attributes and its bodies' types, with what it is.
    fn dim(&self) -> Option<(&'static str, &Dim)>;

    /// The op with dimensions in place of symbols, in what it has beside its bodies.
    fn resized(&self, by: &Replacements) -> Op;

    /// Which operands it needs for these results. What that needs of its bodies is added.
    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool>;

    /// The op for these results alone, with the bodies as they are needed. `None` if it stays as it is; `Some(None)` if it cannot
    /// be made.
    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<Option<PrunedOp>>;

    /// A program of the same meaning that is differentiated in its place.
    fn differentiated_as(&self, operands: &[TensorType], choices: &Choices) -> Option<Graph>;

    /// Adds the op for a forward pass whose backward pass will ask for the cotangents of the operands that are wanted.
    fn forward(&self, operands: &[Value], wanted: &[bool], choices: &Choices) -> Forward;
}

impl Op {
    /// The op as one with bodies, if it is one.
    pub(crate) fn bodied(&self) -> Option<&dyn Bodied> {
        match self {
            Op::Scan(op) => Some(op),
            Op::Switch(op) => Some(op),
            Op::While(op) => Some(op),
            Op::AssociativeScan(op) => Some(op),
            Op::Call(op) => Some(op),
            _ => None,
        }
    }

    /// The graphs that the op runs: the body of a loop, the branches of a choice, a condition and its step, a
    /// combination, a function with the graphs of its derivative rule.
    pub fn bodies(&self) -> Vec<&Arc<Graph>> {
        self.bodied().map_or(Vec::new(), Bodied::bodies)
    }

    /// The op with these bodies, in the order of [`bodies`](Op::bodies).
    pub(crate) fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        self.bodied().map_or_else(|| self.clone(), |op| op.with_bodies(bodies))
    }

    /// The symbols to which the op gives sizes.
    pub(crate) fn binds(&self) -> impl Iterator<Item = &Symbol> {
        let op = self.bodied();
        op.into_iter().flat_map(|op| op.bound_before().into_iter().chain(op.bound_after()))
    }

    /// The dimension that the op has beside its attributes and its bodies' types, with what it is.
    pub(crate) fn dim(&self) -> Option<(&'static str, &Dim)> {
        self.bodied().and_then(Bodied::dim)
    }

    /// Adds the op for a forward pass whose backward pass will ask for the cotangents of the operands that are wanted.
    /// Loops save their states, and loops and choices what the policy says.
    pub(crate) fn forward(&self, operands: &[Value], wanted: &[bool], choices: &Choices) -> Forward {
        match self.bodied() {
            Some(op) => op.forward(operands, wanted, choices),
            None => Forward::of(emit(self.clone(), operands, Site::Unknown)),
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

    fn body_name(&self, _: usize) -> String {
        let until = self.until.as_ref().map_or(String::new(), |symbol| format!(" until {symbol}"));
        format!("@{} for t in 0..{}{until}", self.body.name(), self.steps)
    }

    fn active_params(&self, wanted: &[bool]) -> Vec<Vec<bool>> {
        vec![self.active(wanted)]
    }

    fn bound_before(&self) -> Option<&Symbol> {
        self.steps.as_symbol().filter(|_| self.steps_operand)
    }

    fn bound_after(&self) -> Option<&Symbol> {
        self.until.as_ref()
    }

    fn dim(&self) -> Option<(&'static str, &Dim)> {
        Some(("the number of steps", &self.steps))
    }

    fn resized(&self, by: &Replacements) -> Op {
        // What a loop binds is given another name only.
        let renamed = |symbol: &Symbol| by.get(symbol).and_then(Dim::as_symbol).unwrap_or(symbol).clone();
        let until = self.until.as_ref().map(renamed);
        Scan { steps: self.steps.replaced(by), until, ..self.clone() }.into()
    }

    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
        self.operands_for(results, &mut bodies[0])
    }

    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<Option<PrunedOp>> {
        Some(self.pruned_for(results, &bodies[0]))
    }

    fn differentiated_as(&self, operands: &[TensorType], choices: &Choices) -> Option<Graph> {
        self.segmented(operands, &choices.policy)
    }

    fn forward(&self, operands: &[Value], wanted: &[bool], choices: &Choices) -> Forward {
        self.forward_pass(operands, wanted, &choices.policy)
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

    fn body_name(&self, number: usize) -> String {
        format!("case {number}")
    }

    fn active_params(&self, wanted: &[bool]) -> Vec<Vec<bool>> {
        self.operands().into_iter().map(|places| wanted[places].to_vec()).collect()
    }

    fn bound_before(&self) -> Option<&Symbol> {
        None
    }

    fn bound_after(&self) -> Option<&Symbol> {
        None
    }

    fn dim(&self) -> Option<(&'static str, &Dim)> {
        None
    }

    fn resized(&self, _: &Replacements) -> Op {
        self.clone().into()
    }

    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
        self.operands_for(results, bodies)
    }

    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<Option<PrunedOp>> {
        Some(self.pruned_for(results, bodies))
    }

    fn differentiated_as(&self, _: &[TensorType], _: &Choices) -> Option<Graph> {
        None
    }

    fn forward(&self, operands: &[Value], wanted: &[bool], choices: &Choices) -> Forward {
        self.forward_pass(operands, wanted, choices)
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

    fn body_name(&self, number: usize) -> String {
        if number == 0 { "test" } else { "step" }.into()
    }

    fn active_params(&self, wanted: &[bool]) -> Vec<Vec<bool>> {
        vec![vec![false; self.condition.inputs().len()], self.active(wanted)]
    }

    fn bound_before(&self) -> Option<&Symbol> {
        None
    }

    fn bound_after(&self) -> Option<&Symbol> {
        None
    }

    fn dim(&self) -> Option<(&'static str, &Dim)> {
        self.bound.as_ref().map(|bound| ("the bound", bound))
    }

    fn resized(&self, by: &Replacements) -> Op {
        While { bound: self.bound.as_ref().map(|bound| bound.replaced(by)), ..self.clone() }.into()
    }

    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
        self.operands_for(results, bodies)
    }

    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<Option<PrunedOp>> {
        Some(self.pruned_for(results, bodies))
    }

    fn differentiated_as(&self, _: &[TensorType], _: &Choices) -> Option<Graph> {
        None
    }

    fn forward(&self, operands: &[Value], wanted: &[bool], _: &Choices) -> Forward {
        self.forward_pass(operands, wanted)
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

    fn body_name(&self, _: usize) -> String {
        "combine".into()
    }

    fn active_params(&self, wanted: &[bool]) -> Vec<Vec<bool>> {
        vec![self.active(wanted)]
    }

    fn bound_before(&self) -> Option<&Symbol> {
        None
    }

    fn bound_after(&self) -> Option<&Symbol> {
        None
    }

    fn dim(&self) -> Option<(&'static str, &Dim)> {
        None
    }

    fn resized(&self, _: &Replacements) -> Op {
        self.clone().into()
    }

    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
        self.operands_for(results, &mut bodies[0])
    }

    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<Option<PrunedOp>> {
        Some(self.pruned_for(results, &bodies[0]))
    }

    fn differentiated_as(&self, _: &[TensorType], _: &Choices) -> Option<Graph> {
        None
    }

    fn forward(&self, operands: &[Value], wanted: &[bool], _: &Choices) -> Forward {
        let op = Op::from(self.clone()).with_forward_rules(wanted);
        Forward::of(emit(op, operands, Site::Unknown))
    }
}

impl Bodied for Call {
    fn bodies(&self) -> Vec<&Arc<Graph>> {
        self.parts().into_iter().map(|part| part.graph).collect()
    }

    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        self.with_graphs(bodies).into()
    }

    fn body_name(&self, number: usize) -> String {
        self.parts().get(number).map_or("", |part| part.name).to_string()
    }

    /// They are differentiated by the rule alone.
    fn active_params(&self, _: &[bool]) -> Vec<Vec<bool>> {
        self.bodies().into_iter().map(|body| vec![false; body.inputs().len()]).collect()
    }

    fn bound_before(&self) -> Option<&Symbol> {
        None
    }

    fn bound_after(&self) -> Option<&Symbol> {
        None
    }

    fn dim(&self) -> Option<(&'static str, &Dim)> {
        None
    }

    fn resized(&self, _: &Replacements) -> Op {
        self.clone().into()
    }

    /// All, as the rule is for all results.
    fn needed_operands(&self, _: &[bool], _: &mut [Need]) -> Vec<bool> {
        vec![true; self.parts().last().map_or(self.arguments, |part| part.captured.end)]
    }

    fn pruned_for(&self, _: &[bool], _: &[Need]) -> Option<Option<PrunedOp>> {
        None
    }

    fn differentiated_as(&self, _: &[TensorType], _: &Choices) -> Option<Graph> {
        None
    }

    fn forward(&self, operands: &[Value], _: &[bool], _: &Choices) -> Forward {
        self.forward_pass(operands)
    }
}

/// New bodies in the place of some; those that are missing stay.
fn replaced<const N: usize>(old: [&Arc<Graph>; N], new: Vec<Arc<Graph>>) -> [Arc<Graph>; N] {
    let mut new = new.into_iter();
    old.map(|old| new.next().unwrap_or_else(|| old.clone()))
}
