//! Plans switches. If the selected branch is known when the plan is built, only this branch is planned. Otherwise, a
//! switch on a boolean becomes a choice whose branches write their results to the same registers.

use funcify_core::ops::Switch;

use super::*;

impl Planner {
    /// Plans a switch. Its first operand, the index of the branch, has the type `dtype`. Returns the results that
    /// `used` marks, and `None` for each unused result.
    pub(super) fn choice(
        &mut self,
        switch: &Switch,
        dtype: DType,
        operands: &[Argument],
        used: &[bool],
    ) -> Result<Vec<Option<View>>> {
        let declined = |reason: String| Declined::new("switch", reason);
        for branch in &switch.branches {
            if let Some(output) = branch.outputs().iter().find(|output| !self.supports(branch, output.value)) {
                return Err(declined(format!("a result of {}", branch.ty(output.value).dtype)));
            }
        }
        let holds = match &operands[0] {
            Argument::Static(index) => {
                let chosen = switch.selected_branch(index.get(0).as_i64());
                self.emitter.fired.note(Transformation::Chosen);
                return self.branch(switch, chosen, operands, used);
            }
            Argument::Tensor(_) if switch.branches.len() == 1 => return self.branch(switch, 0, operands, used),
            Argument::Tensor(_) if dtype != DType::Bool => {
                return Err(declined(format!("an index of {dtype} that follows from values")));
            }
            Argument::Tensor(_) | Argument::Rows(_) => self.emitter.condition(operands[0].view()?),
        };
        let level = self.emitter.blocks.depth();
        let mut results = Vec::with_capacity(used.len());
        for (index, used) in used.iter().enumerate() {
            let (branch, value) = (&switch.branches[0], switch.branches[0].outputs()[index].value);
            let shape = self.shape(branch, value)?;
            let ty = self.representation(branch, value);
            results.push(used.then(|| self.emitter.reserve_typed(&shape, level, ty)));
        }
        let before = self.emitter.blocks.take();
        let mut branches = [Vec::new(), Vec::new()];
        for (nodes, chosen) in branches.iter_mut().zip([1, 0]) {
            let cached = self.emitter.cached();
            let values = self.branch(switch, chosen, operands, used)?;
            for (to, value) in results.iter().flatten().zip(values.into_iter().flatten()) {
                self.emitter.copy(&View { level, ..to.clone() }, &View { level, ..value })?;
            }
            *nodes = self.emitter.blocks.take();
            self.emitter.forget(cached);
        }
        self.emitter.fired.note(Transformation::Choice);
        self.emitter.blocks.choice(before, holds, branches);
        Ok(results)
    }

    /// Plans the branch with index `chosen`. Returns its results, with `None` for each unused result.
    fn branch(
        &mut self,
        switch: &Switch,
        chosen: usize,
        operands: &[Argument],
        used: &[bool],
    ) -> Result<Vec<Option<View>>> {
        let inputs = operands[switch.operands()[chosen].clone()].to_vec();
        let mut scope = Scope::new(self, &switch.branches[chosen], inputs)?;
        scope.nodes()?;
        let outputs = used.iter().enumerate();
        outputs.map(|(index, used)| used.then(|| scope.output(index)).transpose()).collect()
    }
}
