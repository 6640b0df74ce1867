//! What of a conditional loop some of its results need.

use std::sync::Arc;

use super::While;
use crate::fixpoint::fixpoint;
use crate::graph::{Keep, Need, PrunedOp};
use crate::ops::{Prunable, flagged};

impl While {
    /// Which carries are needed: their results are, or the condition or a step that is needed reads them.
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
        let operands = flagged(&[needed.as_slice(), &of_condition[count..], &of_body[count..]].concat());
        let inputs = |used: &[bool]| [needed.as_slice(), &used[count..]].concat();
        let condition =
            self.condition.kept(&Keep { inputs: inputs(&of_condition), outputs: vec![true] }, &bodies[0])?;
        let body = self.body.kept(&Keep { inputs: inputs(&of_body), outputs: needed.clone() }, &bodies[1])?;
        let op = While { condition: Arc::new(condition), body: Arc::new(body), bound: self.bound.clone() };
        Some(PrunedOp { op: op.into(), operands, results: flagged(&needed) })
    }
}
