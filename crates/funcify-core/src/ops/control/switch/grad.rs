//! The derivatives of the switch. Each derivative is a switch on the same index; its branches are the derivatives of
//! the original branches.
//!
//! In forward and reverse mode, only the selected branch runs. As in loops, reverse mode recomputes the values of the
//! selected branch, except the residuals that the forward pass saves according to [`CheckpointPolicy`]. The switch of
//! the forward pass has an additional result for each value that a branch saves; the other branches return zeros for
//! this result. Operands that the selected branch does not use have zero cotangents, so a branch that was not selected
//! never contributes to a gradient, not even a NaN.

use super::*;

use crate::ops::scan::{CheckpointPolicy, saved_values};
use crate::value::full;

pub(super) fn jvp(switch: &Switch, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    let has_tangent: Vec<bool> = operands.iter().map(|operand| operand.tangent.is_some()).collect();
    let mut bodies: Vec<Reach> = switch.branches.iter().map(|branch| Reach::of(branch)).collect();
    let guess = switch.reached(ReachKind::Tangents, &has_tangent, &mut bodies);
    let (active, (op, values)) = Guess::new(vec![false; guess.len()], guess).confirm(|active, found| {
        switch.retrace(operands[0].primal, |_, branch, places| {
            Ok(Dual::name_outputs(&push_forward(branch, &operands[places])?, branch, active, found))
        })
    })?;
    Ok(Dual::pair(emit(op, &values)?, &active))
}

impl Switch {
    /// Adds the switch to a forward pass, together with the residuals that the checkpoint policy selects. `wrt` marks
    /// the operands that need cotangents.
    pub(crate) fn forward_pass(
        &self,
        operands: &[Value],
        wrt: &[bool],
        vjp_options: &VjpOptions,
    ) -> Result<Forward, Failed> {
        let saved = saved(self, vjp_options);
        if saved.iter().all(Vec::is_empty) {
            return Ok(Forward::of(Op::from(self.clone()).emit_forward(operands, wrt)?));
        }
        let (op, values) = self.retrace(operands[0], |number, branch, places| {
            let tape = Tape::record(branch, &operands[places.clone()], &wrt[places], vjp_options)?;
            let mut outputs = branch.named_outputs(tape.outputs()?);
            for (of, (saved, branch)) in saved.iter().zip(&self.branches).enumerate() {
                for id in saved {
                    let ty = branch.ty(*id);
                    let zeros = || full(ty.shape.clone(), ty.dtype, 0.0);
                    let value = if of == number { tape.value(*id)? } else { zeros() };
                    outputs.push((format!("residual_{of}_{}", id.index()), value));
                }
            }
            Ok(outputs)
        })?;
        let mut results = emit(op, &values)?;
        let mut values = results.split_off(self.branches[0].outputs().len()).into_iter();
        let residuals = saved.into_iter().map(|ids| ids.into_iter().zip(values.by_ref()).collect());
        Ok(Forward { record: Record::Choice(residuals.collect()), results })
    }
}

/// Returns the values of each branch that the forward pass saves. Unless the gradient is computed step by step,
/// `SaveCostly` acts like `SaveAll`: the host runs the switch, so recomputing a branch costs more than saving its
/// values.
fn saved(switch: &Switch, vjp_options: &VjpOptions) -> Vec<Vec<ValueId>> {
    let policy = match &vjp_options.policy {
        CheckpointPolicy::SaveCostly if !vjp_options.stepwise => &CheckpointPolicy::SaveAll,
        policy => policy,
    };
    let of = |branch: &Arc<Graph>| {
        let live = branch.live_values();
        let saved = saved_values(branch, branch.inputs().len(), policy);
        saved.into_iter().filter(|id| live[id.index()]).collect()
    };
    switch.branches.iter().map(of).collect()
}

pub(super) fn vjp(
    switch: &Switch,
    context: &VjpContext<'_>,
    cotangents: &[Option<Value>],
) -> Result<Cotangents, Failed> {
    let given: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
    let guess = switch.pulled(context.wrt, &given, &mut Vec::new());
    // The record has no residuals if no branch has values to save, or if the forward pass read the results of the
    // switch from residuals instead of running the switch.
    let residuals = if let Record::Choice(residuals) = context.record { residuals.as_slice() } else { &[] };
    let guess = Guess::new(vec![false; guess.len()], guess);
    let (connected, (op, values)) = guess.confirm(|connected, found| {
        switch.retrace(context.operands[0], |number, branch, places| {
            let residuals = residuals.get(number).map_or(&[][..], Vec::as_slice);
            let (inputs, wrt) = (&context.operands[places.clone()], &context.wrt[places.clone()]);
            let pulled = Tape::record_with(branch, inputs, wrt, context.vjp_options, residuals)?.pull(cotangents)?;
            let mut outputs = Vec::new();
            for (operand, value) in context.operands.iter().enumerate() {
                let cotangent = places.contains(&operand).then(|| pulled[operand - places.start]).flatten();
                found[operand] |= cotangent.is_some();
                if connected[operand] {
                    let cotangent = cotangent.unwrap_or_else(|| full(value.shape(), value.dtype(), 0.0));
                    outputs.push((format!("ct_{}", operand - 1), cotangent));
                }
            }
            Ok(outputs)
        })
    })?;
    if !connected.contains(&true) {
        return Ok(context.no_cotangents());
    }
    Ok(place_marked(&connected, emit(op, &values)?))
}
