//! The batching rule of the switch.
//!
//! If all lanes share the index, the switch selects one of the batched branches for all lanes. If the index differs
//! between lanes, all branches run on all lanes, and the results are selected lane by lane, as in JAX. Cotangents are
//! selected in the same way: a branch receives no cotangents from lanes that did not select it, because its derivative
//! may be undefined in those lanes.

use super::*;
use crate::vmap::{guarded, inline, inline_where};

pub(super) fn batch(switch: &Switch, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    match operands[0].mapped {
        true => select(switch, size, operands),
        false => emit_switch(switch, size, operands),
    }
}

/// Adds a switch between batched branches. A result has lanes if it has lanes in any branch, because the types must be
/// the same in all branches (switch-c2).
fn emit_switch(switch: &Switch, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let has_lanes: Vec<bool> = operands.iter().map(|operand| operand.mapped).collect();
    let mut bodies: Vec<Reach> = switch.branches.iter().map(|branch| Reach::of(branch)).collect();
    let reached = switch.reached(ReachKind::Lanes, &has_lanes, &mut bodies);
    let (mapped, (op, values)) = Guess::certain(reached).confirm(|mapped, found| {
        switch.retrace(operands[0].value, |_, branch, places| {
            let results = inline(branch, size, &operands[places])?.into_iter().enumerate();
            Ok(branch.named_outputs(results.map(|(index, result)| {
                let result = result.materialized_if(mapped[index], size);
                found[index] |= result.mapped;
                result.value
            })))
        })
    })?;
    let results = emit(op, &values)?;
    Ok(results.into_iter().zip(mapped).map(|(value, mapped)| Batched { value, mapped }).collect())
}

/// Inlines all branches, and selects their results lane by lane. The comparisons that select a branch also clamp the
/// index (switch-c1).
fn select(switch: &Switch, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let index = operands[0].value;
    let branches = switch.branches.iter().zip(switch.operands()).enumerate().rev();
    let mut chosen: Option<Vec<Batched>> = None;
    for (number, (branch, places)) in branches {
        let mask = is_selected(index, number, switch.branches.len());
        let inputs: Vec<Batched> = operands[places].iter().map(|operand| guarded(mask, size, *operand)).collect();
        // Give each inlined branch fresh symbols, because ops after the switch may bind the same symbols as the branch.
        let results = inline_where(Some(mask), &branch.with_fresh_symbols(), size, &inputs)?;
        chosen = Some(match chosen {
            None => results,
            Some(others) => {
                let mask = is_at_most(index, number);
                results.into_iter().zip(others).map(|(yes, no)| select_lanes(mask, size, yes, no)).collect()
            }
        });
    }
    Ok(chosen.expect("the type rule requires a branch"))
}

/// Returns a mask of the lanes whose index selects branch `number` of `count`.
fn is_selected(index: Value, number: usize, count: usize) -> Value {
    match index.dtype() {
        DType::Bool if number == 0 => !index,
        DType::Bool => index,
        _ if count == 1 => index.eq(index),
        _ if number == 0 => index.le(0),
        _ if number + 1 == count => index.ge(number as i64),
        _ => index.eq(number as i64),
    }
}

/// Returns a mask of the lanes whose index selects branch `number` or an earlier one.
fn is_at_most(index: Value, number: usize) -> Value {
    match index.dtype() {
        DType::Bool => !index,
        _ => index.le(number as i64),
    }
}
