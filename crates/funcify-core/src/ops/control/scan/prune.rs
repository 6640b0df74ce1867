//! What of a loop some of its results need.

use std::sync::Arc;

use super::Scan;
use crate::fixpoint::{fixpoint, union};
use crate::graph::{Graph, Keep, Need, PrunedOp};
use crate::ops::{Prunable, chosen, flagged};

impl Scan {
    /// Whether a loop is needed for the size of its number of steps alone.
    fn only_counts(&self, results: &[bool]) -> bool {
        !results.contains(&true) && self.until.is_none()
    }

    /// Which buffers and carries are needed: their results are, or a step that is needed reads them.
    fn needed_states(&self, results: &[bool], body: &Need) -> Vec<bool> {
        union(results, self.params().states(&body.inputs(&self.body)))
    }

    /// Which results of a step are needed for these buffers and carries: whether the loop ends always is.
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
        if !self.only_counts(results) {
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
        if self.only_counts(results) {
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
            body: Arc::new(self.body.kept(&Keep { inputs, outputs: self.needed_results(&needed) }, need)?),
            sequences: chosen(&operands[places.sequences], &self.sequences),
            buffers: chosen(of_buffers, &self.buffers),
            carries: flagged(of_carries).len(),
            invariants: flagged(&operands[places.invariants]).len(),
            ..self.clone()
        };
        Some(PrunedOp { op: op.into(), operands: flagged(&operands), results: flagged(&needed) })
    }
}
