//! Runs while loops: downloads the value of the condition before each step.

use funcify_core::ops::While;

use super::late::LateWhile;
use super::*;

/// A while loop whose condition and body are lowered to programs. The arguments of each program are the carries,
/// followed by the program's own captures.
pub(crate) struct WhileNode<B: Backend> {
    pub(crate) op: While,
    pub(crate) at: Place,
    pub(crate) condition: Arc<Program<B>>,
    pub(crate) body: Arc<Program<B>>,
    /// The types of the results.
    pub(crate) outputs: Vec<TensorType>,
    /// The loop in the form that is compiled at run time, or `None` if the steps always run one by one.
    pub(crate) late: Option<LateWhile<B>>,
}

impl<B: Backend> WhileNode<B> {
    /// Runs the compiled loop, if it has a plan that accepts the operands. Otherwise, runs the steps one by one.
    pub(crate) fn run_while(&self, run: &mut Run<'_, B>, mut operands: Vec<B::Tensor>) -> Result<Tensors<B::Tensor>> {
        if let Some(late) = &self.late
            && let Some(results) = late.run_planned(run, &self.at, &operands)?
        {
            return Ok(results);
        }
        let places = self.op.operands();
        let of_body = operands.split_off(places.body.start);
        let of_condition = operands.split_off(places.condition.start);
        let mut carries = operands;
        let bound = self.op.bound.as_ref().map(|bound| bound.value(&run.sizes)).transpose();
        let bound = bound.map_err(|error| funcify_core::ops::no_size(&self.at, error))?;
        let (mut before_step, mut in_body) = (self.condition.frame(), self.body.frame());
        self.condition.place_all(&mut before_step, carries.len(), of_condition);
        self.body.place_all(&mut in_body, carries.len(), of_body);
        let mut ran = 0;
        // while-c3: the bound limits the number of steps.
        while bound.is_none_or(|bound| i64::try_from(ran).is_ok_and(|ran| ran < bound)) {
            run.begin_step(&self.at, ran)?;
            let in_step = |error: Error| error.in_step(&self.at, ran);
            // while-c1: the condition is evaluated before each step.
            self.condition.place_all(&mut before_step, 0, carries.iter().cloned());
            self.condition.interpret(&mut before_step, run).map_err(in_step)?;
            let holds = self.condition.take(&mut before_step, 0);
            let holds = run.fail(&self.at, run.backend.download(&holds, DType::Bool))?;
            if !holds.get(0).as_bool() {
                break;
            }
            let count = carries.len();
            self.body.place_all(&mut in_body, 0, carries.drain(..));
            self.body.interpret(&mut in_body, run).map_err(in_step)?;
            carries.extend((0..count).map(|carry| self.body.take(&mut in_body, carry)));
            ran += 1;
        }
        Ok(carries.into())
    }
}
