//! Implements [`Bodied`] and [`Prunable`] for associative scans.

use super::*;

impl Bodied for AssociativeScan {
    fn bodies(&self) -> Vec<&Arc<Graph>> {
        vec![&self.combine]
    }

    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        let [combine] = with_new_bodies([&self.combine], bodies);
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

    fn forward(&self, operands: &[Value], wrt: &[bool], _: &VjpOptions) -> Result<Forward, Failed> {
        Ok(Forward::of(Op::from(self.clone()).emit_forward(operands, wrt)?))
    }
}

impl AssociativeScan {
    /// Returns which leaves are needed, either because their results are used or because a needed part of `combine`
    /// reads them.
    fn needed_leaves(&self, results: &[bool], combine: &Need) -> Vec<bool> {
        let is_read = |leaf| combine.has(&self.combine, leaf) || combine.has(&self.combine, self.leaves + leaf);
        results.iter().enumerate().map(|(leaf, result)| *result || is_read(leaf)).collect()
    }
}

impl Prunable for AssociativeScan {
    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
        let (combine, mut params) = (&mut bodies[0], Vec::new());
        let leaves = fixpoint(results.to_vec(), |leaves| {
            params = combine.add(&self.combine, leaves);
            self.needed_leaves(results, combine)
        });
        [leaves.as_slice(), &params[2 * self.leaves..]].concat()
    }

    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<PrunedOp> {
        let need = &bodies[0];
        let (needed, used) = (self.needed_leaves(results, need), need.inputs(&self.combine));
        let captured = &used[2 * self.leaves..];
        let operands = [needed.as_slice(), captured].concat();
        let kept = Keep { inputs: [needed.as_slice(), &needed, captured].concat(), outputs: needed.clone() };
        let combine = Arc::new(self.combine.restricted_to(&kept, need)?);
        let results = flagged_indices(&needed);
        let op = AssociativeScan { combine, leaves: results.len(), reverse: self.reverse };
        Some(PrunedOp { op: op.into(), operands: flagged_indices(&operands), results })
    }
}
