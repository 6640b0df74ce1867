//! The loop of a forward pass, and the residuals that it saves for the backward pass.
//!
//! The states are always saved: the carries before each step, and each row of a full buffer that a step reads and a
//! later step overwrites. All other rows that steps read are in the sequences and in the final buffers. The
//! [`CheckpointPolicy`] selects which of the other values that a step computes are saved as well. A value that the loop
//! already stacks as one of its ys is not saved a second time. If such a value is also the next value of a carry, its
//! trace replaces the trace of that carry, and the value is not recomputed. Pruning removes residuals that the backward
//! loop does not read.

use super::*;
use crate::graph::{Output, Source};
use crate::ops::{Control, Movement, OpClass, Product, Slice, Work};

/// The smallest number of terms per element for which a matrix product counts as expensive. A product with fewer terms
/// is recomputed, because recomputing it costs no more than writing it to memory and reading it back.
const COSTLY_PRODUCT_TERMS: i64 = 32;

/// The residuals that a loop saves for the backward pass. `T` is `Value`, or `usize` for the index of a result of the
/// loop.
#[derive(Debug)]
pub(crate) struct LoopRecord<T = Value> {
    /// All rows of each buffer.
    pub(super) buffers: Vec<T>,
    /// The trace of each carry.
    pub(super) carries: Vec<Trace<T>>,
    /// For each read of each buffer, the trace of the rows that were read, if later steps overwrite them.
    pub(super) overwritten: Vec<Vec<Option<T>>>,
    /// The saved values that a step computes, with their traces.
    pub(super) values: Vec<(ValueId, T)>,
}

/// The trace of a carry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trace<T> {
    /// The values before each step.
    Before(T),
    /// The values after each step.
    After(T),
}

impl LoopRecord<usize> {
    fn of_results(self, results: &[Value]) -> LoopRecord {
        let of_carry = |trace: Trace<usize>| match trace {
            Trace::Before(result) => Trace::Before(results[result]),
            Trace::After(result) => Trace::After(results[result]),
        };
        let of_reads = |reads: Vec<Option<usize>>| reads.into_iter().map(|read| Some(results[read?])).collect();
        LoopRecord {
            buffers: self.buffers.into_iter().map(|result| results[result]).collect(),
            carries: self.carries.into_iter().map(of_carry).collect(),
            overwritten: self.overwritten.into_iter().map(of_reads).collect(),
            values: self.values.into_iter().map(|(value, result)| (value, results[result])).collect(),
        }
    }
}

/// The buffers of a forward loop and the outputs of its body. In both lists, the entries of the original loop come
/// first, followed by the entries of the saved values.
struct Stacked<'a> {
    body: &'a Graph,
    buffers: Vec<Buffer>,
    outputs: Vec<Output>,
    /// The values that are already stacked, with the index of their buffer. Each of these buffers has exactly one row
    /// per step.
    known: Vec<(ValueId, usize)>,
    returned: Returned,
}

impl Stacked<'_> {
    fn find(&self, value: ValueId) -> Option<usize> {
        self.known.iter().find(|(known, _)| *known == value).map(|(_, buffer)| *buffer)
    }

    /// Returns the index of the buffer that stacks a value. Adds the buffer if it does not exist.
    fn save(&mut self, value: ValueId, name: impl FnOnce() -> String) -> usize {
        self.find(value).unwrap_or_else(|| {
            self.buffers.push(Buffer { returned: self.returned, ..Buffer::nit_sot() });
            self.outputs.push(Output { name: name(), value });
            self.known.push((value, self.buffers.len() - 1));
            self.buffers.len() - 1
        })
    }

    /// Returns the index of the buffer that stacks a parameter of the body. Adds the buffer if it does not exist.
    fn before(&mut self, param: usize) -> usize {
        let body = self.body;
        self.save(body.inputs()[param].value, || format!("{}_before", body.input_name(param)))
    }
}

/// Returns the loop of the forward pass and the record of its residuals. This loop returns all rows of the original
/// buffers, and has an additional result for each value that it saves.
fn with_residual_outputs(scan: &Scan, policy: &CheckpointPolicy) -> (Scan, LoopRecord<usize>) {
    let (layout, results, body) = (scan.params(), scan.results(), &scan.body);
    let output = |index: usize| body.outputs()[index].clone();
    let rows = scan.buffers.iter().zip(&results.buffers).enumerate();
    let mut stacked = Stacked {
        body,
        buffers: scan.buffers.iter().map(|buffer| Buffer { returned: Returned::All, ..buffer.clone() }).collect(),
        outputs: (0..results.carries.start).map(output).collect(),
        known: rows
            .filter(|(_, (buffer, _))| buffer.start == Start::Empty)
            .map(|(index, (_, written))| (body.outputs()[written.start].value, index))
            .collect(),
        returned: last_rows(scan).map_or(Returned::All, Returned::Last),
    };
    let values = saved_values(body, layout.carries.end, policy);
    let save = |value: ValueId| (value, stacked.save(value, || format!("residual_{}", value.index())));
    let values = values.into_iter().map(save).collect();
    let mut carries = Vec::new();
    for (param, result) in layout.carries.clone().zip(results.carries.clone()) {
        let (before, after) = (body.inputs()[param].value, body.outputs()[result].value);
        let is_useful = stacked.returned == Returned::All && stacked.find(before).is_none() && is_read(body, after);
        if *policy == CheckpointPolicy::SaveCostly && is_useful {
            stacked.save(after, || format!("{}_after", body.input_name(param)));
        }
        carries.push(match (stacked.find(before), stacked.find(after)) {
            (None, Some(buffer)) if stacked.buffers[buffer].returned == Returned::All => Trace::After(buffer),
            _ => Trace::Before(stacked.before(param)),
        });
    }
    let mut overwritten = Vec::new();
    for (buffer, params) in scan.buffers.iter().zip(&layout.buffers) {
        let is_written_later =
            |read: &usize| buffer.writes.iter().any(|write| if scan.reverse { write >= read } else { write <= read });
        let reads = buffer.reads.iter().zip(params.clone());
        overwritten
            .push(reads.map(|(read, param)| is_written_later(read).then(|| stacked.before(param))).collect::<Vec<_>>());
    }
    let Stacked { buffers, mut outputs, .. } = stacked;
    outputs.extend(results.carries.chain(results.until).map(output));
    let record = LoopRecord { buffers: (0..scan.buffers.len()).collect(), carries, overwritten, values };
    (Scan { body: Arc::new(body.with_outputs(outputs)), buffers, ..scan.clone() }, record)
}

/// Returns `true` if the value can be saved and an op of the body reads it, so the backward loop may need the value.
fn is_read(body: &Graph, value: ValueId) -> bool {
    can_be_saved(body, value) && body.nodes().iter().any(|node| node.inputs.contains(&value))
}

/// Returns `true` if the backward loop can read the saved value instead of running the op that computes it. Returns
/// `false` for parameters of the body, and for results of opaque ops and of ops with bodies.
pub(super) fn can_be_saved(body: &Graph, value: ValueId) -> bool {
    match body.source(value) {
        Source::Input(_) => false,
        Source::Node(node, _) => {
            let op = &body.node(node).op;
            op.bodies().is_empty() && !op.is_opaque()
        }
    }
}

/// Returns the gradient truncation of the loop if the loop is certain to run at least that many steps, or `None`
/// otherwise. With a truncation of `k`, the backward loop reads only the `k` rows of each trace that are written last.
fn last_rows(scan: &Scan) -> Option<usize> {
    let is_there = |steps: &usize| scan.until.is_none() && scan.steps.is_at_least(&Dim::from(*steps)) == Some(true);
    scan.truncate.filter(is_there)
}

/// Returns the values that `policy` saves in a loop's body or in a branch. Excludes values that depend only on
/// invariants. Also excludes the results of inner loops and of functions with derivative rules, because these loops and
/// functions run again and save their own residuals. The first `stepwise` parameters differ between steps. For a
/// branch, `stepwise` is the total number of parameters.
pub(crate) fn saved_values(body: &Graph, stepwise: usize, policy: &CheckpointPolicy) -> Vec<ValueId> {
    let mut differs = vec![false; body.values().count()];
    body.inputs()[..stepwise].iter().for_each(|input| differs[input.value.index()] = true);
    let mut saved = Vec::new();
    let mut costly = vec![false; differs.len()];
    // A value whose size is bound in the step cannot be saved, because its size may differ between steps.
    let bound: Vec<&Symbol> = body.nodes().iter().flat_map(|node| node.op.binds()).collect();
    let is_fixed = |value: ValueId| {
        let mut symbols = body.ty(value).shape.dims().iter().flat_map(Dim::symbols);
        symbols.all(|symbol| !bound.contains(&symbol))
    };
    for node in body.nodes() {
        if !node.inputs.iter().any(|input| differs[input.index()]) {
            continue;
        }
        node.outputs.iter().for_each(|output| differs[output.index()] = true);
        let is_costly = is_costly(body, node) || node.inputs.iter().any(|input| costly[input.index()]);
        node.outputs.iter().for_each(|output| costly[output.index()] = is_costly);
        // Reshapes, transposes and broadcasts are cheap to recompute.
        let is_work = match node.op.class() {
            OpClass::Movement(Movement::Reshape(_) | Movement::Transpose(_) | Movement::Broadcast(_)) => false,
            OpClass::Control(Control::Scan(_) | Control::While(_) | Control::Call(_)) => false,
            OpClass::Control(Control::Switch(_) | Control::AssociativeScan(_)) | OpClass::Movement(_) => true,
            OpClass::Elementwise(_) | OpClass::Creation(_) | OpClass::Indexing(_) | OpClass::Along(_) => true,
            OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) | OpClass::Custom(_) => true,
        };
        let is_saved = match policy {
            CheckpointPolicy::SaveDots => node.op.work() == Work::Terms,
            CheckpointPolicy::SaveCostly => is_costly && is_work,
            CheckpointPolicy::SaveAll => is_work,
            _ => false,
        };
        saved.extend(node.outputs.iter().copied().filter(|output| is_saved && is_fixed(*output)));
    }
    saved
}

/// Returns `true` if a node is a convolution, or a matrix product with many terms.
fn is_costly(body: &Graph, node: &Node) -> bool {
    let OpClass::Product(product) = node.op.class() else { return false };
    match product {
        Product::Conv(_) => true,
        Product::MatMul(_) => {
            let terms = body.ty(node.inputs[0]).shape.dims().last().and_then(Dim::constant);
            terms.is_none_or(|terms| terms >= COSTLY_PRODUCT_TERMS)
        }
    }
}

impl Scan {
    /// Adds the loop to a forward pass, together with the residuals that the policy selects. `wrt` marks the operands
    /// that are differentiated.
    pub(in crate::ops) fn forward_pass(
        &self,
        operands: &[Value],
        wrt: &[bool],
        policy: &CheckpointPolicy,
    ) -> Result<Forward, Failed> {
        let (op, record) = with_residual_outputs(self, &self.resolved_policy(policy));
        let stacked = op.buffers.len();
        let all = emit(Op::from(op).with_forward_rules(wrt)?, operands)?;
        let rows = self.buffers.iter().zip(&all);
        let mut results: Vec<Value> = rows.map(|(buffer, rows)| returned(self, buffer, *rows)).collect();
        results.extend_from_slice(&all[stacked..]);
        Ok(Forward { results, record: Record::Loop(record.of_results(&all)) })
    }
}

/// Selects the rows of a buffer that the loop returns. `all` holds all rows of the buffer.
pub(super) fn returned(scan: &Scan, buffer: &Buffer, all: Value) -> Value {
    let Returned::Last(count) = buffer.returned else { return all };
    let start = if scan.reverse { Dim::from(0) } else { all.dim(0) - count };
    slice_rows(all, start.clone(), start + count)
}

/// Returns the rows `start..limit` of a tensor.
pub(super) fn slice_rows(value: Value, start: Dim, limit: Dim) -> Value {
    value.emit(Slice { axis: 0, start, limit, step: 1 })
}
