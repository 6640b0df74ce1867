//! Implements [`Bodied`] and [`Prunable`] for scans.

use super::*;
use crate::fixpoint::or_flags;
use crate::ops::select_flagged;

impl Bodied for Scan {
    fn bodies(&self) -> Vec<&Arc<Graph>> {
        vec![&self.body]
    }

    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        let [body] = with_new_bodies([&self.body], bodies);
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
        // Replace the symbol of `until` only with another symbol, not with a general dimension, because the loop itself
        // binds the symbol.
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

    fn forward(&self, operands: &[Value], wrt: &[bool], vjp_options: &VjpOptions) -> Result<Forward, Failed> {
        self.forward_pass(operands, wrt, &vjp_options.policy)
    }
}

impl Scan {
    /// Returns `true` if the loop's only use is to bind the symbol for its number of steps.
    fn is_needed_only_for_steps(&self, results: &[bool]) -> bool {
        !results.contains(&true) && self.until.is_none()
    }

    /// Returns which buffers and carries are needed, either because their results are used or because a needed part of
    /// the body reads them.
    fn needed_states(&self, results: &[bool], body: &Need) -> Vec<bool> {
        or_flags(results, self.params().states(&body.inputs(&self.body)))
    }

    /// Returns which results of the body are needed to compute the buffers and carries marked in `states`. The `until`
    /// result is always needed.
    fn needed_results(&self, states: &[bool]) -> Vec<bool> {
        let results = self.results();
        let mut needed = results.of_states(states);
        results.until.iter().for_each(|until| needed[*until] = true);
        needed
    }
}

impl Prunable for Scan {
    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
        let (body, places) = (&mut bodies[0], self.operands());
        let mut operands = vec![false; places.count];
        if !self.is_needed_only_for_steps(results) {
            let states = fixpoint(results.to_vec(), |states| {
                body.add(&self.body, &self.needed_results(states));
                self.needed_states(results, body)
            });
            operands = self.reached_operands(&body.inputs(&self.body), &states);
        }
        places.steps.iter().for_each(|steps| operands[*steps] = true);
        operands
    }

    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<PrunedOp> {
        if self.is_needed_only_for_steps(results) {
            let body = Arc::new(Graph::new(self.body.name()));
            let op = Scan { body, sequences: vec![], buffers: vec![], carries: 0, invariants: 0, ..self.clone() };
            let operands = self.operands().steps.into_iter().collect();
            return Some(PrunedOp { op: op.into(), operands, results: vec![] });
        }
        let (need, places) = (&bodies[0], self.operands());
        let needed = self.needed_states(results, need);
        let mut operands = self.reached_operands(&need.inputs(&self.body), &needed);
        let inputs = self.reached_params(&operands, &needed);
        places.steps.iter().for_each(|steps| operands[*steps] = true);
        let (of_buffers, of_carries) = needed.split_at(self.buffers.len());
        let op = Scan {
            body: Arc::new(self.body.restricted_to(&Keep { inputs, outputs: self.needed_results(&needed) }, need)?),
            sequences: select_flagged(&operands[places.sequences], &self.sequences),
            buffers: select_flagged(of_buffers, &self.buffers),
            carries: flagged_indices(of_carries).len(),
            invariants: flagged_indices(&operands[places.invariants]).len(),
            ..self.clone()
        };
        Some(PrunedOp { op: op.into(), operands: flagged_indices(&operands), results: flagged_indices(&needed) })
    }
}
