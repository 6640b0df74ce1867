//! The batching rule of the associative scan: `combine` is batched, its lanes along axis 1 of the leaves.
//!
//! A leaf has lanes if its operand has or if a combination gives it some: see [`reach`](crate::ops::reach).

use std::sync::Arc;

use super::AssociativeScan;
use crate::error::Result;
use crate::graph::{Failed, emit, trace_body};
use crate::ops::reach::{Connected, Guess, Kind, Reach};
use crate::types::{Dim, TensorType};
use crate::value::Value;
use crate::vmap::{Batched, inline, lanes_type};

pub(super) fn batch(op: &AssociativeScan, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let (xs, captured) = operands.split_at(op.leaves);
    let has_lanes: Vec<bool> = operands.iter().map(|operand| operand.mapped).collect();
    let reached = op.reached(Kind::Lanes, &has_lanes, &mut [Reach::of(&op.combine)]);
    let (mapped, closed) = Guess::certain(reached).confirmed(|mapped, found| {
        let flags = [mapped, mapped].concat();
        let param = |(index, mapped): (usize, &bool)| {
            (op.combine.input_name(index).to_string(), lanes_type(op.combine.input_type(index), *mapped, size))
        };
        let params: Vec<(String, TensorType)> = flags.iter().enumerate().map(param).collect();
        trace_body("associative_scan", op.combine.name(), &params, |values| {
            let elements = values.iter().zip(&flags).map(|(value, mapped)| Batched { value: *value, mapped: *mapped });
            let inputs: Vec<Batched> = elements.chain(captured.iter().copied()).collect();
            let results = inline(&op.combine, size, &inputs)?.into_iter().zip(op.combine.outputs()).zip(found);
            let output = |((result, output), mapped): ((Batched, &crate::graph::Output), &mut bool)| {
                let result = result.materialized_if(*mapped, size);
                *mapped = result.mapped;
                (output.name.clone(), result.value)
            };
            Ok(results.map(output).collect())
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
