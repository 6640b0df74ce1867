//! Loops that a condition ends as ops with bodies.

use std::sync::Arc;

use super::While;
use crate::derivative::{Choices, Forward};
use crate::error::Result;
use crate::graph::{Failed, Graph};
use crate::ops::Op;
use crate::ops::basis::bodied::{Bodied, OwnSizes, StepCount, replaced};
use crate::types::{Replacements, TensorType};
use crate::value::Value;
use crate::vmap::ragged;

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

    fn batches_ragged(&self, _: &ragged::Types<'_>) -> bool {
        self.bound.as_ref().is_none_or(|bound| !ragged::is_ragged(bound))
    }

    fn forward(&self, operands: &[Value], wrt: &[bool], _: &Choices) -> Result<Forward, Failed> {
        self.forward_pass(operands, wrt)
    }
}
