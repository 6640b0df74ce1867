//! Implements [`Bodied`] and [`Prunable`] for switches.

use super::*;

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

    fn forward(&self, operands: &[Value], wrt: &[bool], vjp_options: &VjpOptions) -> Result<Forward, Failed> {
        self.forward_pass(operands, wrt, vjp_options)
    }
}

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
            branches.push(Arc::new(branch.restricted_to(&Keep { inputs, outputs: results.to_vec() }, need)?));
        }
        Some(PrunedOp { op: Switch { branches }.into(), operands, results: flagged_indices(results) })
    }
}
