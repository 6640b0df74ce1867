//! Loops with steps as ops with bodies.

use std::sync::Arc;

use super::Scan;
use crate::derivative::{Choices, Forward};
use crate::error::Result;
use crate::graph::{Failed, Graph};
use crate::ops::Op;
use crate::ops::basis::bodied::{Bodied, OwnSizes, StepCount, replaced};
use crate::types::{Dim, Replacements, Symbol, TensorType};
use crate::value::Value;
use crate::vmap::ragged;

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

    fn batches_ragged(&self, types: &ragged::Types<'_>) -> bool {
        types.have_rows(self)
    }

    fn forward(&self, operands: &[Value], wrt: &[bool], choices: &Choices) -> Result<Forward, Failed> {
        self.forward_pass(operands, wrt, &choices.policy)
    }
}
