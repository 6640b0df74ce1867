//! What of a choice some of its results need.

use std::sync::Arc;

use super::Switch;
use crate::graph::{Keep, Need, PrunedOp};
use crate::ops::{Prunable, flagged};

impl Prunable for Switch {
    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
        let branches = self.branches.iter().zip(bodies);
        std::iter::once(true).chain(branches.flat_map(|(branch, need)| need.add(branch, results))).collect()
    }

    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<PrunedOp> {
        let mut operands = vec![0];
        let mut branches = Vec::with_capacity(self.branches.len());
        for ((branch, places), need) in self.branches.iter().zip(self.operands()).zip(bodies) {
            let inputs = need.inputs(branch);
            operands.extend(places.zip(&inputs).filter(|(_, used)| **used).map(|(operand, _)| operand));
            branches.push(Arc::new(branch.kept(&Keep { inputs, outputs: results.to_vec() }, need)?));
        }
        Some(PrunedOp { op: Switch { branches }.into(), operands, results: flagged(results) })
    }
}
