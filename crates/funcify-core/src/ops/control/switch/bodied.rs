//! Choices as ops with bodies.

use std::sync::Arc;

use super::Switch;
use crate::derivative::{Choices, Forward};
use crate::error::Result;
use crate::graph::{Failed, Graph};
use crate::ops::Op;
use crate::ops::basis::bodied::{Bodied, OwnSizes, StepCount};
use crate::types::{Replacements, TensorType};
use crate::value::Value;
use crate::vmap::ragged;

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

    fn batches_ragged(&self, _: &ragged::Types<'_>) -> bool {
        true
    }

    fn forward(&self, operands: &[Value], wrt: &[bool], choices: &Choices) -> Result<Forward, Failed> {
        self.forward_pass(operands, wrt, choices)
    }
}
