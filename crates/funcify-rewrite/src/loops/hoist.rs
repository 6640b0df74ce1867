//! Moves work that depends only on sequences out of the loop, so that one op performs it for all steps (PyTensor's
//! `push_out_seq`). Unlike PyTensor's rule, this one also moves matrix products: `x_t W` for all steps is a single
//! product (Appleyard, Kociský, Blunsom 2016).
//!
//! The batching rules vectorise an op, with one lane per step. The loop then reads one row of the result per step. If
//! all rows of a trace are computed this way, the loop no longer writes that trace.
//!
//! Precondition: the loop runs all its steps, and their number is known before the loop. The ops must not be able to
//! fail, because the loop may have no steps. The right operand of a matrix product is the same in each step, so that
//! the products of all steps form a single product. The memory for all steps is bounded: each value is at most
//! [`MAX_MEMORY_FACTOR`](super::cost::MAX_MEMORY_FACTOR) times as large as the data that a step already reads and
//! writes, or at most 64 KiB for all steps. A moved value that the loop still reads must also depend on a product,
//! or be no larger than the sequence rows that determine it, unless it takes at most 64 KiB for all steps.

use funcify_core::graph::Source;
use funcify_core::ops::{Indexing, OpClass, Work};

use super::cost::affordable;
use super::*;

/// Moves work that depends only on sequences out of the loop, so that it runs before the loop.
pub(crate) fn hoist(context: &RewriteContext<'_>) -> Option<Patch> {
    hoist_if(context, |_| true)
}

/// Moves table lookups that depend only on sequences out of the loop, together with the work before and after them. An
/// interpreter of loops takes about as long for a lookup in one step as for a hundred lookups at once. Lookups in the
/// results of products stay with the products.
pub(crate) fn hoist_lookups(context: &RewriteContext<'_>) -> Option<Patch> {
    hoist_if(context, |origin| origin.has_lookup && !origin.has_product)
}

/// Moves the work out of the loop for which `is_wanted` returns `true`.
fn hoist_if(context: &RewriteContext<'_>, is_wanted: impl Fn(&Origin) -> bool) -> Option<Patch> {
    let scan = whole_loop(context).filter(|scan| !scan.sequences.is_empty())?;
    let plan = Hoisted::of(scan, is_wanted)?;
    context.build(context.operands, |operands| plan.emit_hoisted(scan, operands))
}

/// The values and traces to compute before the loop.
struct Hoisted {
    /// The moved values that the remaining loop reads.
    read: Vec<ValueId>,
    /// The traces that are computed before the loop: the index of each, and the value that a step writes to it.
    traces: Vec<(usize, ValueId)>,
}

/// The work that computes a value of a body from rows of sequences.
struct Origin {
    /// The rows of sequences on which the value depends.
    sources: Vec<ValueId>,
    has_product: bool,
    has_lookup: bool,
}

impl Origin {
    fn of(body: &Graph, classes: &[Class], value: ValueId) -> Self {
        let mut origin = Origin { sources: Vec::new(), has_product: false, has_lookup: false };
        let mut pending = vec![value];
        let mut seen = vec![false; body.values().count()];
        while let Some(value) = pending.pop() {
            if std::mem::replace(&mut seen[value.index()], true) || classes[value.index()] != Class::FromSequences {
                continue;
            }
            match defining_op(body, value) {
                Some((op, operands)) => {
                    origin.has_product |= op.work() == Work::Terms;
                    origin.has_lookup |= is_lookup(op);
                    pending.extend_from_slice(operands);
                }
                None => origin.sources.push(value),
            }
        }
        origin
    }
}

/// Returns `true` if an op reads elements of a table at computed positions.
fn is_lookup(op: &Op) -> bool {
    match op.class() {
        OpClass::Indexing(op) => match op {
            Indexing::DynamicSlice(_) | Indexing::Take(_) | Indexing::Gather(_) => true,
            Indexing::DynamicUpdate(_) | Indexing::Scatter(_) => false,
        },
        OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Along(_) => false,
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => false,
        OpClass::Control(_) | OpClass::Custom(_) => false,
    }
}

impl Hoisted {
    fn of(scan: &Scan, is_wanted: impl Fn(&Origin) -> bool) -> Option<Hoisted> {
        let body = &scan.body;
        let present = bytes_of_step(scan);
        let classes = classes(scan);
        let uses = uses(body);
        let is_from_sequences = |output: &ValueId| classes[output.index()] == Class::FromSequences;
        let mut moved: Vec<bool> =
            body.nodes().iter().map(|node| node.outputs.first().is_some_and(is_from_sequences)).collect();
        let origin = |value: ValueId| Origin::of(body, &classes, value);
        let traces = traces(scan).filter(|(_, value)| is_from_sequences(value) && is_wanted(&origin(*value)));
        let traces: Vec<_> = traces.collect();
        loop {
            let read = values_read(body, &moved, &traces, &uses);
            let pays_off = |value: ValueId| {
                let origin = origin(value);
                is_wanted(&origin) && pays_off(scan, &origin, value)
            };
            let refused: Vec<ValueId> = read.iter().copied().filter(|value| !pays_off(*value)).collect();
            if refused.is_empty() {
                let plan = Hoisted { read: affordable(body, read, &present, &scan.steps), traces };
                let has_work = !plan.read.is_empty() || !plan.traces.is_empty();
                return has_work.then_some(plan);
            }
            for value in refused {
                if let Source::Node(node, _) = body.source(value) {
                    moved[node.index()] = false;
                }
            }
        }
    }

    fn emit_hoisted(&self, scan: &Scan, operands: &[Value]) -> Option<Vec<Value>> {
        let mut parts = Loop::of(scan, operands);
        let written = self.traces.iter().map(|(_, written)| *written);
        let outputs: Vec<ValueId> = self.read.iter().copied().chain(written).collect();
        let mut values = compute_for_all_steps(&parts, &scan.steps, &[], &outputs)?;
        let traces = values.split_off(self.read.len());
        for (value, rows) in self.read.iter().zip(values) {
            let param = parts.param_for(*value, "moved");
            parts.sequences.push(SequencePart { value: rows, reads: vec![(0, param)] });
        }
        parts.buffers.retain(|part| !self.traces.iter().any(|(number, _)| part.number == Some(*number)));
        let mut results = parts.emit_rest()?.old;
        for ((number, _), trace) in self.traces.iter().zip(traces) {
            results[*number] = Some(trace);
        }
        results.into_iter().collect()
    }
}

/// Returns those results of moved nodes that the remaining loop reads.
fn values_read(body: &Graph, moved: &[bool], traces: &[(usize, ValueId)], uses: &[usize]) -> Vec<ValueId> {
    let moved = || body.nodes().iter().zip(moved).filter(|(_, moved)| **moved).map(|(node, _)| node);
    let mut left = uses.to_vec();
    for node in moved() {
        if node.outputs.iter().any(|output| uses[output.index()] > 0) {
            node.inputs.iter().for_each(|input| left[input.index()] = left[input.index()].saturating_sub(1));
        }
    }
    for (_, written) in traces {
        left[written.index()] = left[written.index()].saturating_sub(1);
    }
    moved().flat_map(|node| &node.outputs).copied().filter(|output| left[output.index()] > 0).collect()
}

/// Returns `true` if it pays off to compute a value for all steps at once. The op that computes it must not be a
/// movement op. In addition, the value must depend on a product, be no larger than the sequence rows that determine
/// it, or take at most 64 KiB for all steps.
fn pays_off(scan: &Scan, origin: &Origin, value: ValueId) -> bool {
    let body = &scan.body;
    let Some((op, _)) = defining_op(body, value) else { return true };
    if op.is_movement() {
        return false;
    }
    origin.has_product || is_bounded(&bytes(body.ty(value)), &bytes_of(body, &origin.sources), 1, &scan.steps)
}
