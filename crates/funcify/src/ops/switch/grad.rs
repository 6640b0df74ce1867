//! The derivatives of the choice: the same choice between the branches' derivatives.
//!
//! Only the branch that was chosen is computed, in both modes. In reverse mode it is computed again, but for what the forward
//! pass saves of it, as the policy of [`CheckpointPolicy`] says for loops: a result for each value of each branch, which the other
//! branches fill with zeros. What the chosen branch does not use gets zeros, so that a branch that was not chosen has no part in a
//! gradient, not even as NaN.

use std::sync::Arc;

use super::Switch;
use crate::derivative::{Choices, Cotangents, Dual, Forward, Record, Tape, VjpContext, push_forward};
use crate::error::Result;
use crate::graph::{Failed, Graph, ValueId, emit, trace_body};
use crate::ops::Bodied;
use crate::ops::reach::{Connected, Guess, Kind, Reach};
use crate::ops::scan::{CheckpointPolicy, saved_values};
use crate::value::{Value, full};

pub(super) fn jvp(switch: &Switch, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    let has_tangent: Vec<bool> = operands.iter().map(|operand| operand.tangent.is_some()).collect();
    let mut bodies: Vec<Reach> = switch.branches.iter().map(|branch| Reach::of(branch)).collect();
    let guess = switch.reached(Kind::Tangents, &has_tangent, &mut bodies);
    let (active, (branches, values)) = Guess::new(vec![false; guess.len()], guess).confirmed(|active, found| {
        let mut branches = Vec::with_capacity(switch.branches.len());
        let mut values = vec![operands[0].primal];
        for (branch, places) in switch.branches.iter().zip(switch.operands()) {
            let closed = trace_body("switch", branch.name(), &[], |_| {
                let results = push_forward(branch, &operands[places])?;
                let mut outputs = Vec::new();
                for (index, (result, output)) in results.iter().zip(branch.outputs()).enumerate() {
                    found[index] |= result.tangent.is_some();
                    outputs.push((output.name.clone(), result.primal));
                    if active[index] {
                        outputs.push((format!("tan_{}", output.name), result.tangent_or_zeros()));
                    }
                }
                Ok(outputs)
            })?;
            branches.push(Arc::new(closed.graph));
            values.extend(closed.captures);
        }
        Ok((branches, values))
    })?;
    Ok(Dual::paired(emit(Switch { branches }, &values)?, &active))
}

/// The choice of a forward pass, and what it saves.
pub(super) fn forward(
    switch: &Switch,
    operands: &[Value],
    wanted: &[bool],
    choices: &Choices,
) -> Result<Forward, Failed> {
    let kept = kept(switch, choices);
    if kept.iter().all(Vec::is_empty) {
        return Ok(Forward::of(switch.emit_forward(operands, wanted)?));
    }
    let mut branches = Vec::with_capacity(switch.branches.len());
    let mut values = vec![operands[0]];
    for (number, (branch, places)) in switch.branches.iter().zip(switch.operands()).enumerate() {
        let closed = trace_body("switch", branch.name(), &[], |_| {
            let tape = Tape::record(branch, &operands[places.clone()], &wanted[places], choices)?;
            let mut outputs = branch.named_outputs(tape.outputs()?);
            for (of, (kept, branch)) in kept.iter().zip(&switch.branches).enumerate() {
                for id in kept {
                    let ty = branch.ty(*id);
                    let zeros = || full(ty.shape.clone(), ty.dtype, 0.0);
                    let value = if of == number { tape.value(*id)? } else { zeros() };
                    outputs.push((format!("residual_{of}_{}", id.index()), value));
                }
            }
            Ok(outputs)
        })?;
        branches.push(Arc::new(closed.graph));
        values.extend(closed.captures);
    }
    let mut results = emit(Switch { branches }, &values)?;
    let mut values = results.split_off(switch.branches[0].outputs().len()).into_iter();
    let known = kept.into_iter().map(|ids| ids.into_iter().zip(values.by_ref()).collect());
    Ok(Forward { record: Record::Choice(known.collect()), results })
}

/// The values that are saved of each branch. Choices run from the host, where it costs more to compute anything again.
fn kept(switch: &Switch, choices: &Choices) -> Vec<Vec<ValueId>> {
    let policy = match &choices.policy {
        CheckpointPolicy::SaveCostly => &CheckpointPolicy::SaveAll,
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
    let guess = switch.pulled(context.wanted, &given, &mut Vec::new());
    // A choice whose results are known is not run again, and has kept nothing.
    let known = if let Record::Choice(known) = context.record { known.as_slice() } else { &[] };
    let guess = Guess::new(vec![false; guess.len()], guess);
    let (connected, (branches, values)) = guess.confirmed(|connected, found| {
        let mut branches = Vec::with_capacity(switch.branches.len());
        let mut values = vec![context.operands[0]];
        for (number, (branch, places)) in switch.branches.iter().zip(switch.operands()).enumerate() {
            let known = known.get(number).map_or(&[][..], Vec::as_slice);
            let closed = trace_body("switch", branch.name(), &[], |_| {
                let (inputs, wanted) = (&context.operands[places.clone()], &context.wanted[places.clone()]);
                let tape = Tape::record_with(branch, inputs, wanted, context.choices, known)?;
                let pulled = tape.pull(cotangents)?;
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
            })?;
            branches.push(Arc::new(closed.graph));
            values.extend(closed.captures);
        }
        Ok((branches, values))
    })?;
    if !connected.contains(&true) {
        return Ok(context.none());
    }
    let mut results = emit(Switch { branches }, &values)?.into_iter();
    Ok(connected.iter().map(|connected| if *connected { results.next() } else { None }).collect())
}
