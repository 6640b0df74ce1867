//! Implements [`Bodied`] and [`Prunable`] for while loops.

use super::*;

impl Bodied for While {
    fn bodies(&self) -> Vec<&Arc<Graph>> {
        vec![&self.condition, &self.body]
    }

    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        let [condition, body] = with_new_bodies([&self.condition, &self.body], bodies);
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
        Some(self.bound.clone().map_or(StepCount::Unbounded, StepCount::AtMost))
    }

    fn batches_ragged(&self, _: &ragged::Types<'_>) -> bool {
        self.bound.as_ref().is_none_or(|bound| !ragged::is_ragged(bound))
    }

    fn forward(&self, operands: &[Value], wrt: &[bool], _: &VjpOptions) -> Result<Forward, Failed> {
        self.forward_pass(operands, wrt)
    }
}

impl While {
    /// Returns `true` for each carry that is needed, either because its result is used, or because the condition or the
    /// next value of a needed carry depends on it.
    fn needed_carries(&self, results: &[bool], bodies: &[Need]) -> Vec<bool> {
        let is_read = |index| bodies[0].has(&self.condition, index) || bodies[1].has(&self.body, index);
        results.iter().enumerate().map(|(index, result)| *result || is_read(index)).collect()
    }
}

impl Prunable for While {
    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
        let of_condition = bodies[0].add(&self.condition, &[true]);
        let mut of_body = Vec::new();
        let carries = fixpoint(self.needed_carries(results, bodies), |carries| {
            of_body = bodies[1].add(&self.body, carries);
            self.needed_carries(results, bodies)
        });
        let count = carries.len();
        [carries.as_slice(), &of_condition[count..], &of_body[count..]].concat()
    }

    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<PrunedOp> {
        let count = self.operands().carries.len();
        let (of_condition, of_body) = (bodies[0].inputs(&self.condition), bodies[1].inputs(&self.body));
        let needed = self.needed_carries(results, bodies);
        let operands = flagged_indices(&[needed.as_slice(), &of_condition[count..], &of_body[count..]].concat());
        let inputs = |used: &[bool]| [needed.as_slice(), &used[count..]].concat();
        let condition =
            self.condition.restricted_to(&Keep { inputs: inputs(&of_condition), outputs: vec![true] }, &bodies[0])?;
        let body = self.body.restricted_to(&Keep { inputs: inputs(&of_body), outputs: needed.clone() }, &bodies[1])?;
        let op = While { condition: Arc::new(condition), body: Arc::new(body), bound: self.bound.clone() };
        Some(PrunedOp { op: op.into(), operands, results: flagged_indices(&needed) })
    }
}
