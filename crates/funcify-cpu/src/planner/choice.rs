//! Plans switches. If the selected branch is known when the plan is built, only this branch is planned. Otherwise, a
//! switch becomes nested choices, one for each branch except the last, whose branches write their results to the same
//! registers.

use funcify_body::{Body, Compare, Op as BodyOp};
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
        let index = match &operands[0] {
            Argument::Static(index) => {
                let chosen = switch.selected_branch(index.get(0).as_i64());
                self.emitter.fired.note(Transformation::Chosen);
                return self.branch(switch, chosen, operands, used);
            }
            Argument::Tensor(_) if switch.branches.len() == 1 => return self.branch(switch, 0, operands, used),
            Argument::Tensor(_) | Argument::Rows(_) => operands[0].view()?.clone(),
        };
        let level = self.emitter.blocks.depth();
        let mut results = Vec::with_capacity(used.len());
        for (index, used) in used.iter().enumerate() {
            let (branch, value) = (&switch.branches[0], switch.branches[0].outputs()[index].value);
            let shape = self.shape(branch, value)?;
            let ty = self.representation(branch, value);
            results.push(used.then(|| self.emitter.reserve_typed(&shape, level, ty)));
        }
        self.choose(switch, (&index, dtype), 0, (operands, used), &results)?;
        self.emitter.fired.note(Transformation::Choice);
        Ok(results)
    }

    /// Emits a choice between the branches from `first` on, which write the results marked in `used` to `results`. The
    /// last branch needs no test: an index beyond the branches selects it.
    fn choose(
        &mut self,
        switch: &Switch,
        (index, dtype): (&View, DType),
        first: usize,
        (operands, used): (&[Argument], &[bool]),
        results: &[Option<View>],
    ) -> Result<()> {
        let level = self.emitter.blocks.depth();
        let write = |planner: &mut Self, chosen: usize| -> Result<()> {
            let values = planner.branch(switch, chosen, operands, used)?;
            for (to, value) in results.iter().flatten().zip(values.into_iter().flatten()) {
                planner.emitter.copy(&View { level, ..to.clone() }, &View { level, ..value })?;
            }
            Ok(())
        };
        if first + 1 == switch.branches.len() {
            return write(self, first);
        }
        let holds = match dtype {
            DType::Bool => index.clone(),
            _ => self.is_beyond(&View { level, ..index.clone() }, first)?,
        };
        let holds = self.emitter.condition(&holds);
        let before = self.emitter.blocks.take();
        let cached = self.emitter.cached();
        self.choose(switch, (index, dtype), first + 1, (operands, used), results)?;
        let later = self.emitter.blocks.take();
        self.emitter.forget(cached);
        write(self, first)?;
        let own = self.emitter.blocks.take();
        self.emitter.forget(cached);
        self.emitter.blocks.choice(before, holds, [later, own]);
        Ok(())
    }

    /// Emits the test `index > number`, and returns its result, 1 or 0.
    fn is_beyond(&mut self, index: &View, number: usize) -> Result<View> {
        let ty = self.emitter.ty(index);
        let mut body = Body::default();
        let x = body.load(1, ty);
        let bound = match ty {
            Type::Float => body.number(number as f64),
            _ => body.integer(number as i64, ty),
        };
        let is_beyond = body.push(BodyOp::Compare(Compare::Less), Type::Mask, &[bound, x]);
        let holds = body.push(BodyOp::Hold, Type::Float, &[is_beyond]);
        body.store(holds, 0);
        let to = self.emitter.reserve(&[], index.level);
        self.emitter.fuse(body, &[&to], &[index])?;
        Ok(to)
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
