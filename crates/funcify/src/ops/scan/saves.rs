//! The loop of a forward pass, and what it saves for the backward pass.
//!
//! The states are saved always: each carry before each step; of a full buffer what a step reads and a later one
//! overwrites. All other rows that were read are in the sequences and in the final buffers. [`Residuals`] adds values
//! that a step computes. Pruning leaves out what the backward loop does not read.

use std::sync::Arc;

use super::{Buffer, Scan, Start, Wanted};
use crate::derivative::{Forward, Residuals};
use crate::error::Site;
use crate::graph::{Graph, Output, Value, ValueId, emit};
use crate::ops::{Op, Slice};
use crate::types::{Dim, Symbol};

/// Which results of the loop of the forward pass are what.
pub(super) struct Saves {
    /// The value of each carry before each step.
    pub(super) carries: Vec<usize>,
    /// For each buffer, the rows that a read saw and that a step overwrites later, by the read.
    pub(super) overwritten: Vec<Vec<Option<usize>>>,
    /// Values that a step computes.
    pub(super) values: Vec<(ValueId, usize)>,
    /// The final carries.
    last: usize,
}

impl Saves {
    /// What is saved of a loop.
    pub(super) fn of(scan: &Scan, residuals: Residuals) -> Self {
        augmented(scan, residuals).1
    }
}

/// The loop of the forward pass: all rows of all buffers are wanted, and what is saved are results too.
fn augmented(scan: &Scan, residuals: Residuals) -> (Scan, Saves) {
    let (layout, results, body) = (scan.params(), scan.results(), &scan.body);
    let output = |index: usize| body.outputs()[index].clone();
    let mut buffers: Vec<Buffer> =
        scan.buffers.iter().map(|buffer| Buffer { wanted: Wanted::All, ..buffer.clone() }).collect();
    let mut outputs: Vec<Output> = (0..results.carries.start).map(output).collect();
    let mut save = |name: String, value: ValueId| {
        buffers.push(Buffer { start: Start::Empty, reads: vec![], writes: vec![0], wanted: Wanted::All });
        outputs.push(Output { name, value });
        buffers.len() - 1
    };
    let mut before = |index: usize| save(format!("{}_before", body.input_name(index)), body.inputs()[index].value);
    let carries = layout.carries.clone().map(&mut before).collect();
    let mut overwritten = Vec::new();
    for (buffer, params) in scan.buffers.iter().zip(&layout.buffers) {
        let is_written_later =
            |read: &usize| buffer.writes.iter().any(|write| if scan.reverse { write >= read } else { write <= read });
        let reads = buffer.reads.iter().zip(params.clone());
        overwritten.push(reads.map(|(read, index)| is_written_later(read).then(|| before(index))).collect());
    }
    let values = saved_values(body, layout.carries.end, residuals);
    let values = values.into_iter().map(|value| (value, save(format!("saved_{}", value.index()), value))).collect();
    outputs.extend(results.carries.chain(results.until).map(output));
    let last = buffers.len();
    let body = Arc::new(body.with_outputs(outputs));
    (Scan { body, buffers, ..scan.clone() }, Saves { carries, overwritten, values, last })
}

/// The values of a body that are saved. What depends on invariants alone is not; nor are the results of inner loops and of
/// functions with their own derivatives, which run again to save what they need. `stepwise` is the number of parameters that differ between steps.
fn saved_values(body: &Graph, stepwise: usize, residuals: Residuals) -> Vec<ValueId> {
    let mut differs = vec![false; body.values().count()];
    body.inputs()[..stepwise].iter().for_each(|input| differs[input.value.index()] = true);
    let mut saved = Vec::new();
    // A step may bind a size, which no tensor of all steps has.
    let bound: Vec<&Symbol> = (body.nodes().iter())
        .filter_map(|node| if let Op::Scan(scan) = &node.op { Some(scan.binds()) } else { None })
        .flatten()
        .collect();
    let is_fixed = |value: ValueId| {
        let mut symbols = body.ty(value).shape.dims().iter().flat_map(Dim::symbols);
        symbols.all(|symbol| !bound.contains(&symbol))
    };
    for node in body.nodes() {
        if !node.inputs.iter().any(|input| differs[input.index()]) {
            continue;
        }
        node.outputs.iter().for_each(|output| differs[output.index()] = true);
        let is_saved = match residuals {
            Residuals::Recompute => false,
            Residuals::SaveProducts => matches!(node.op, Op::MatMul(_) | Op::Conv(_)),
            Residuals::SaveAll => !matches!(node.op, Op::Scan(_) | Op::While(_) | Op::Call(_)),
        };
        saved.extend(node.outputs.iter().copied().filter(|output| is_saved && is_fixed(*output)));
    }
    saved
}

/// Adds the loop of the forward pass.
pub(super) fn forward(scan: &Scan, operands: &[Value], residuals: Residuals) -> Forward {
    let (op, saves) = augmented(scan, residuals);
    let saved = emit(op, operands, Site::Unknown);
    if saved.iter().any(|value| value.is_poison()) {
        return Forward { results: Vec::new(), saved };
    }
    let of_buffer = |(index, buffer): (usize, &Buffer)| match buffer.wanted {
        Wanted::All => saved[index],
        Wanted::Last(count) => {
            let rows = saved[index].dim(0);
            let start = if scan.reverse { Dim::from(0) } else { rows - count };
            slice_rows(saved[index], start.clone(), start + count)
        }
    };
    let mut results: Vec<Value> = scan.buffers.iter().enumerate().map(of_buffer).collect();
    results.extend_from_slice(&saved[saves.last..]);
    Forward { results, saved }
}

/// Some rows of a tensor.
pub(super) fn slice_rows(value: Value, start: Dim, limit: Dim) -> Value {
    emit(Slice { axis: 0, start, limit, step: 1 }, &[value], Site::Unknown)[0]
}
