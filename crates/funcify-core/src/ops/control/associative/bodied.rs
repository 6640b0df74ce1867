//! Associative scans as ops with bodies.

use std::sync::Arc;

use super::AssociativeScan;
use crate::derivative::{Choices, Forward};
use crate::error::Result;
use crate::graph::{Failed, Graph};
use crate::ops::Op;
use crate::ops::basis::bodied::{Bodied, OwnSizes, StepCount, replaced};
use crate::types::{Replacements, TensorType};
use crate::value::Value;
use crate::vmap::ragged;

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

    fn batches_ragged(&self, types: &ragged::Types<'_>) -> bool {
        !types.is_ragged_along(0, 0)
    }

    fn forward(&self, operands: &[Value], wrt: &[bool], _: &Choices) -> Result<Forward, Failed> {
        Ok(Forward::of(Op::from(self.clone()).emit_forward(operands, wrt)?))
    }
}
