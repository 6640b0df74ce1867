//! The batching rule of the associative scan. The rule batches `combine`. Axis 0 of a leaf holds its rows, so the lanes
//! are along axis 1.
//!
//! A leaf has lanes if its operand has lanes, or if `combine` adds them: see [`reach`](crate::ops::reach).

use super::*;

use crate::vmap::inline;

pub(super) fn batch(op: &AssociativeScan, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let (xs, captured) = operands.split_at(op.leaves);
    let has_lanes: Vec<bool> = operands.iter().map(|operand| operand.mapped).collect();
    let reached = op.reached(ReachKind::Lanes, &has_lanes, &mut [Reach::of(&op.combine)]);
    let (mapped, closed) = Guess::certain(reached).confirm(|mapped, found| {
        trace_lanes("associative_scan", &op.combine, &[mapped, mapped].concat(), &[], size, |elements| {
            let results = inline(&op.combine, size, &[elements, captured].concat())?.into_iter().zip(found);
            Ok(op.combine.named_outputs(results.map(|(result, mapped)| {
                let result = result.materialized_if(*mapped, size);
                *mapped = result.mapped;
                result.value
            })))
        })
    })?;
    let rows = |(leaf, mapped): (&Batched, &bool)| match mapped {
        true => leaf.materialized(size).move_axis(0, 1),
        false => leaf.value,
    };
    let operands: Vec<Value> = xs.iter().zip(&mapped).map(rows).chain(closed.captures).collect();
    let op = AssociativeScan { combine: Arc::new(closed.graph), ..op.clone() };
    let results = emit(op, &operands)?.into_iter().zip(mapped);
    let result = |(value, mapped): (Value, bool)| match mapped {
        true => Batched::mapped(value.move_axis(1, 0)),
        false => Batched::unmapped(value),
    };
    Ok(results.map(result).collect())
}
