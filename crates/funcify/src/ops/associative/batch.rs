//! The batching rule of the associative scan: `combine` is batched, its lanes along axis 1 of the leaves.
//!
//! A leaf has lanes if its operand has or if a combination gives it some: see [`reach`](crate::ops::reach).

use std::sync::Arc;

use super::AssociativeScan;
use crate::error::Site;
use crate::graph::{emit, trace_body};
use crate::ops::reach::{Kind, Reach};
use crate::types::{Dim, TensorType};
use crate::value::Value;
use crate::vmap::{Batched, inline, lanes_type};

pub(super) fn batch(op: &AssociativeScan, size: &Dim, operands: &[Batched]) -> Vec<Batched> {
    let (xs, captured) = operands.split_at(op.leaves);
    let has_lanes: Vec<bool> = operands.iter().map(|operand| operand.mapped).collect();
    let mut mapped = op.reached(Kind::Lanes, &has_lanes, &mut Reach::of(&op.combine));
    loop {
        let mut found = mapped.clone();
        let flags = [mapped.as_slice(), &mapped].concat();
        let param = |(index, mapped): (usize, &bool)| {
            (op.combine.input_name(index).to_string(), lanes_type(op.combine.input_type(index), *mapped, size))
        };
        let params: Vec<(String, TensorType)> = flags.iter().enumerate().map(param).collect();
        let closed = trace_body("associative_scan", op.combine.name(), &params, |values| {
            let elements = values.iter().zip(&flags).map(|(value, mapped)| Batched { value: *value, mapped: *mapped });
            let inputs: Vec<Batched> = elements.chain(captured.iter().copied()).collect();
            let results = inline(&op.combine, size, &inputs).into_iter().zip(op.combine.outputs()).zip(&mut found);
            let output = |((result, output), mapped): ((Batched, &crate::graph::Output), &mut bool)| {
                let result = result.materialized_if(*mapped, size);
                *mapped = result.mapped;
                (output.name.clone(), result.value)
            };
            results.map(output).collect()
        });
        let Some(closed) = closed else { return Vec::new() };
        if found == mapped {
            let rows = |(leaf, mapped): (&Batched, &bool)| match mapped {
                true => leaf.materialized(size).move_axis(0, 1),
                false => leaf.value,
            };
            let operands: Vec<Value> = xs.iter().zip(&mapped).map(rows).chain(closed.captures).collect();
            let op = AssociativeScan { combine: Arc::new(closed.graph), ..op.clone() };
            let results = emit(op, &operands, Site::Unknown).into_iter().zip(mapped);
            let result = |(value, mapped): (Value, bool)| match mapped {
                true => Batched::mapped(value.move_axis(1, 0)),
                false => Batched::unmapped(value),
            };
            return results.map(result).collect();
        }
        mapped = found;
    }
}
