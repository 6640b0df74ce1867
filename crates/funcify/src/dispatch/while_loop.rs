//! The conditional loop: the condition is read on the host before each step's program runs.

use std::sync::Arc;

use super::backend::{Backend, Tensors};
use super::program::{Program, Run};
use super::whole::Refusing;
use crate::error::{Error, Place, Result};
use crate::ops::While;
use crate::types::{DType, TensorType};

/// A conditional loop with compiled parts. The arguments of both: the carries, what it captures.
pub(super) struct WhileNode<B: Backend> {
    pub(super) op: While,
    pub(super) at: Place,
    pub(super) condition: Arc<Program<B>>,
    pub(super) body: Arc<Program<B>>,
    /// The types of the results.
    pub(super) outputs: Vec<TensorType>,
    /// What runs first, if there is something, and may refuse.
    pub(super) compiled: Option<Refusing<B::Tensor>>,
}

impl<B: Backend> WhileNode<B> {
    pub(super) fn run(&self, run: &mut Run<'_, B>, mut operands: Vec<B::Tensor>) -> Result<Tensors<B::Tensor>> {
        if let Some(compiled) = &self.compiled
            && let Some(results) = compiled.run(run, &self.at, &operands)?
        {
            return Ok(results);
        }
        let places = self.op.operands();
        let of_body = operands.split_off(places.body.start);
        let of_condition = operands.split_off(places.condition.start);
        let mut carries = operands;
        let bound = self.op.bound.as_ref().map(|bound| bound.value(&run.sizes)).transpose();
        let bound = bound.map_err(|error| crate::ops::no_size(&self.at, error))?;
        let (mut condition_frame, mut body_frame) = (self.condition.frame(), self.body.frame());
        let mut ran = 0;
        // while-c3
        while bound.is_none_or(|bound| i64::try_from(ran).is_ok_and(|ran| ran < bound)) {
            run.step(&self.at, ran)?;
            let in_step = |error: Error| error.in_step(&self.at, ran);
            // while-c1
            let arguments = carries.iter().chain(&of_condition).cloned().collect();
            let holds = self.condition.run_in(&mut condition_frame, run, arguments).map_err(in_step)?;
            let holds = run.fail(&self.at, run.backend.download(&holds[0], DType::Bool))?;
            if !holds.get(0).as_bool() {
                break;
            }
            carries.extend(of_body.iter().cloned());
            carries = self.body.run_in(&mut body_frame, run, carries).map_err(in_step)?;
            ran += 1;
        }
        Ok(carries.into())
    }
}
