//! Plans while loops: carries are held in registers, and the condition is evaluated before each step.
//!
//! In a loop without a bound, a counter could become too large for the plan to represent exactly. The planner therefore
//! adds a bound if the caller can run the loop in another way. The plan then rejects the call if the condition still
//! holds at the bound.

use funcify_core::ops::While;

use super::*;

impl Planner {
    /// Plans a while loop. Returns the results that `used` marks, and `None` for each unused result.
    pub(super) fn while_loop(&mut self, op: &While, operands: &[Argument], used: &[bool]) -> Result<Vec<Option<View>>> {
        let declined = |reason: String| Declined::new("while", reason);
        let bound = match &op.bound {
            None => self.ranges.max_checked_steps(),
            Some(bound) => match bound.value(&self.sizes) {
                // A negative bound counts as zero steps.
                Ok(bound) => Some(usize::try_from(bound.max(0)).unwrap_or(usize::MAX)),
                Err(_) => return Err(declined("an unknown bound".into())),
            },
        };
        let places = op.operands();
        let mut carries = Vec::with_capacity(used.len());
        for index in places.carries.clone() {
            let param = op.body.inputs()[index].value;
            if !self.supports(&op.body, param) {
                return Err(declined(format!("a carry of {}", op.body.ty(param).dtype)));
            }
            let initial = operands[index].view()?;
            let ty = self.representation(&op.body, param);
            let carry = self.emitter.reserve_typed(&initial.shape, self.emitter.blocks.depth(), ty);
            self.emitter.copy(&carry, initial)?;
            carries.push(carry);
        }
        self.emitter.blocks.open()?;
        let level = self.emitter.blocks.depth();
        let inside: Vec<View> = carries.iter().map(|carry| View { level, ..carry.clone() }).collect();
        let arguments = |captured: &[Argument]| -> Vec<Argument> {
            inside.iter().cloned().map(Argument::Tensor).chain(captured.iter().cloned()).collect()
        };
        let mut scope = Scope::new(self, &op.condition, arguments(&operands[places.condition]))?;
        scope.nodes()?;
        let holds = scope.output(0)?;
        let test = (self.emitter.blocks.take(), self.emitter.condition(&holds));

        let mut scope = Scope::new(self, &op.body, arguments(&operands[places.body]))?;
        for (index, carry) in inside.iter().enumerate() {
            scope.state(op.body.inputs()[index].value, op.body.outputs()[index].value, carry.clone());
        }
        scope.nodes()?;
        let moves = inside.into_iter().zip(scope.outputs()?).filter(|(carry, next)| !next.is_same_view(carry));
        self.emit_moves(moves.collect())?;
        self.emitter.blocks.close_while(test, bound);
        self.emitter.fired.note(Transformation::While);
        if op.bound.is_none() && bound.is_some() {
            self.record_refusal(&holds)?;
        }
        Ok(carries.into_iter().zip(used).map(|(carry, used)| used.then_some(carry)).collect())
    }
}
