//! Rules for loops. Each rule splits a loop into parts ([`Loop`]), changes the reads, writes or carries of a step, and
//! reassembles the loop.
//!
//! Work that a rule moves out of a loop must not be able to fail (rewrite-c3), because the loop may have no steps. The
//! memory for traces that rules add is limited to a multiple of the bytes that the loop already reads and writes
//! ([`cost`]). In loops with early exit, work that depends on the step is not moved. Truncated loops (scan-c8) are left
//! unchanged.

mod affine;
mod branches;
mod constants;
mod cost;
mod cumulative;
mod cut;
mod flatten;
mod hoist;
mod interchange;
mod invariant;
mod last_rows;
mod padded;
mod removed_states;
mod sink;
mod states;
mod steps;

use std::collections::HashMap;
use std::sync::Arc;

pub(super) use affine::affine;
pub(super) use branches::branches;
pub(super) use constants::constants;
pub(super) use cumulative::cumulative;
pub(super) use flatten::flatten;
pub(super) use hoist::{hoist, hoist_lookups};
pub(super) use interchange::interchange;
pub(super) use invariant::invariants;
pub(super) use last_rows::last_rows;
pub(super) use padded::padded_sums;
pub(super) use sink::sink;
pub(super) use states::states;
pub(super) use steps::few_steps;

use funcify_core::error::Site;
use funcify_core::graph::{Graph, Node, ValueId, ValueMap, cannot_fail, emit, uses_any};
use funcify_core::ops::scan::{Buffer, Returned, Scan, Sequence, Start};
use funcify_core::ops::{Binary, Broadcast, Constant, Op, Reduce, ReduceKind, Slice, While};
use funcify_core::types::{Dim, Sizes, Symbol};
use funcify_core::{HostTensor, Scalar, Value, concat, full};

use self::cost::{MAX_MEMORY_FACTOR, bytes, bytes_of, bytes_of_step, is_bounded};
use self::cut::{Class, classes, compute_for_all_steps, computes_needed, needed};
use crate::rule::{Patch, RewriteContext};

/// A loop, split into parts. The ids of values in the body refer to `body`, a copy of the original body with additional
/// parameters. `V` is the type of the operands: values of the open graph, or value ids of a graph.
pub(super) struct Loop<V = Value> {
    pub(super) scan: Scan,
    pub(super) body: Graph,
    count: Option<V>,
    pub(super) sequences: Vec<SequencePart<V>>,
    pub(super) buffers: Vec<BufferPart<V>>,
    pub(super) carries: Vec<CarryPart<V>>,
    pub(super) invariants: Vec<(V, ValueId)>,
    until: Option<ValueId>,
    /// The parameters that became splat constants, each with its fill value. These parameters no longer have operands.
    constants: Vec<(ValueId, Scalar)>,
    /// The values of the body that are replaced, each with its replacement.
    replacements: HashMap<ValueId, ValueId>,
}

pub(super) struct SequencePart<V = Value> {
    pub(super) value: V,
    /// The row offsets at which a step reads the sequence, each with the parameter that receives the row.
    pub(super) reads: Vec<(usize, ValueId)>,
}

pub(super) struct BufferPart<V = Value> {
    pub(super) buffer: Buffer,
    pub(super) value: Option<V>,
    pub(super) reads: Vec<ValueId>,
    pub(super) written: Vec<ValueId>,
    /// The index of the buffer's result in the original loop, or `None` if a rule added the buffer.
    pub(super) number: Option<usize>,
}

pub(super) struct CarryPart<V = Value> {
    pub(super) value: V,
    pub(super) param: ValueId,
    pub(super) next: ValueId,
    /// The index of the carry's result in the original loop, or `None` if a rule added the carry.
    pub(super) number: Option<usize>,
}

/// The results of a reassembled loop.
struct Results {
    /// The results of the original loop, in order. `None` for results that the reassembled loop does not return.
    old: Vec<Option<Value>>,
    /// The results of all buffers of the reassembled loop, in order.
    buffers: Vec<Value>,
    /// The final values of all carries of the reassembled loop, in order.
    carries: Vec<Value>,
}

impl<V: Copy> Loop<V> {
    /// Splits a loop with the given operands into parts.
    pub(super) fn of(scan: &Scan, operands: &[V]) -> Self {
        let (layout, results, places, body) = (scan.params(), scan.results(), scan.operands(), &scan.body);
        let param = |index: usize| body.inputs()[index].value;
        let result = |index: usize| body.outputs()[index].value;
        let sequences = scan.sequences.iter().zip(places.sequences).zip(&layout.sequences);
        let buffers = scan.buffers.iter().zip(&places.buffers).enumerate();
        let carries = places.carries.zip(layout.carries).zip(results.carries).enumerate();
        Loop {
            count: places.steps.map(|index| operands[index]),
            sequences: sequences
                .map(|((sequence, operand), params)| SequencePart {
                    value: operands[operand],
                    reads: sequence.reads.iter().copied().zip(params.clone().map(param)).collect(),
                })
                .collect(),
            buffers: buffers
                .map(|(number, (buffer, operand))| BufferPart {
                    buffer: buffer.clone(),
                    value: operand.map(|operand| operands[operand]),
                    reads: layout.buffers[number].clone().map(param).collect(),
                    written: results.buffers[number].clone().map(result).collect(),
                    number: Some(number),
                })
                .collect(),
            carries: carries
                .map(|(number, ((operand, of), next))| CarryPart {
                    value: operands[operand],
                    param: param(of),
                    next: result(next),
                    number: Some(scan.buffers.len() + number),
                })
                .collect(),
            invariants: places
                .invariants
                .zip(layout.invariants)
                .map(|(place, of)| (operands[place], param(of)))
                .collect(),
            until: results.until.map(result),
            constants: Vec::new(),
            replacements: HashMap::new(),
            body: (**body).clone(),
            scan: scan.clone(),
        }
    }

    /// Replaces a value of the body with a new parameter, and returns the parameter. The parameter takes the name of
    /// the value, or `name` if the value has none.
    fn param_for(&mut self, value: ValueId, name: &str) -> ValueId {
        let name = self.body.value_name(value).unwrap_or(name).to_string();
        let param = self.body.push_input(&name, self.body.ty(value).clone(), false);
        self.replacements.insert(value, param);
        param
    }

    /// Adds a trace of a value in the body. Returns the index of its buffer.
    fn trace(&mut self, value: ValueId) -> usize {
        let buffer = Buffer::nit_sot();
        self.buffers.push(BufferPart { buffer, value: None, reads: vec![], written: vec![value], number: None });
        self.buffers.len() - 1
    }

    /// Returns the values that a step outputs: the written rows, the next carries, and the exit condition.
    fn outputs(&self) -> Vec<ValueId> {
        let written = self.buffers.iter().flat_map(|part| part.written.iter().copied());
        written.chain(self.carries.iter().map(|part| part.next)).chain(self.until).collect()
    }

    /// Returns the indices of the live nodes that bind sizes.
    fn binding(&self) -> Vec<usize> {
        let live = self.body.live_nodes();
        let is_binding = |(index, node): &(usize, &Node)| live[*index] && node.op.binds().next().is_some();
        self.body.nodes().iter().enumerate().filter(is_binding).map(|(index, _)| index).collect()
    }

    /// Returns a flag for each value: `true` if `outputs` or the nodes that bind sizes need it. `is_there` returns
    /// `true` for values that are already available. The operands of the ops that compute such values are not needed.
    fn needed(&self, outputs: &[ValueId], is_there: impl Fn(ValueId) -> bool) -> Vec<bool> {
        let nodes = self.body.nodes();
        let binding = self.binding().into_iter().flat_map(|index| &nodes[index].inputs);
        needed(&self.body, outputs.iter().chain(binding), is_there)
    }

    /// Builds the new body from the parameters and results of the parts, and the nodes that the results need. Returns
    /// `None` if a result needs a value that is not available.
    fn body(&self) -> Option<Graph> {
        let outputs = self.outputs();
        let needed = self.needed(&outputs, |value| self.replacements.contains_key(&value));
        let (mut graph, mut copied) = (Graph::new(self.body.name()), ValueMap::new(&self.body));
        let sequences = self.sequences.iter().flat_map(|part| part.reads.iter().map(|(_, param)| *param));
        let buffers = self.buffers.iter().flat_map(|part| part.reads.iter().copied());
        let carries = self.carries.iter().map(|part| part.param);
        let invariants = self.invariants.iter().map(|(_, param)| *param);
        for param in sequences.chain(buffers).chain(carries).chain(invariants) {
            copied.input(&mut graph, param, "x");
        }
        for (param, number) in self.constants.iter().filter(|(param, _)| needed[param.index()]) {
            let ty = self.body.ty(*param);
            let value = Arc::new(HostTensor::from_fn(ty.dtype, &[], |_| *number));
            let mut id = graph.push_node(Constant { value }.into(), &[], Site::Unknown).ok()?;
            if ty.rank() > 0 {
                id = graph.push_node(Broadcast { shape: ty.shape.clone() }.into(), &id, Site::Unknown).ok()?;
            }
            copied.set(*param, *id.first()?);
        }
        for (value, other) in &self.replacements {
            copied.set(*value, copied.get(*other)?);
        }
        let binding = self.binding();
        for (index, node) in self.body.nodes().iter().enumerate() {
            if binding.contains(&index) || computes_needed(node, &needed, &copied) {
                copied.node(&mut graph, node, node.op.clone())?;
            }
        }
        for (index, output) in outputs.into_iter().enumerate() {
            graph.push_output(&format!("r{index}"), copied.get(output)?);
        }
        Some(graph)
    }

    /// Reassembles the loop. Returns the loop and its operands, or `None` if a step needs a value that is not
    /// available.
    pub(super) fn assemble(&self) -> Option<(Scan, Vec<V>)> {
        let body = self.body()?;
        let mut operands: Vec<V> = self.count.into_iter().collect();
        operands.extend(self.sequences.iter().map(|part| part.value));
        operands.extend(self.buffers.iter().filter_map(|part| part.value));
        operands.extend(self.carries.iter().map(|part| part.value));
        operands.extend(self.invariants.iter().map(|(value, _)| *value));
        let scan = Scan {
            body: Arc::new(body),
            sequences: (self.sequences.iter())
                .map(|part| Sequence { reads: part.reads.iter().map(|(offset, _)| *offset).collect() })
                .collect(),
            buffers: self.buffers.iter().map(|part| part.buffer.clone()).collect(),
            carries: self.carries.len(),
            invariants: self.invariants.len(),
            ..self.scan.clone()
        };
        Some((scan, operands))
    }
}

impl Loop {
    /// Reassembles the loop and adds it to the open graph. Returns the loop's results, or `None` if the loop cannot be
    /// built.
    fn emit(&self) -> Option<Results> {
        let (scan, operands) = self.assemble()?;
        let results = emit(scan, &operands).ok()?;
        let mut old = vec![None; self.scan.buffers.len() + self.scan.carries];
        let numbers = self.buffers.iter().map(|part| part.number).chain(self.carries.iter().map(|part| part.number));
        for (number, result) in numbers.zip(&results) {
            number.into_iter().for_each(|number| old[number] = Some(*result));
        }
        let (buffers, carries) = results.split_at(self.buffers.len());
        Some(Results { old, buffers: buffers.to_vec(), carries: carries.to_vec() })
    }

    /// Works like [`emit`](Loop::emit), but adds no loop if the loop has no results left and binds no size.
    fn emit_rest(&self) -> Option<Results> {
        if !self.buffers.is_empty() || !self.carries.is_empty() || self.scan.binds().next().is_some() {
            return self.emit();
        }
        let old = vec![None; self.scan.buffers.len() + self.scan.carries];
        Some(Results { old, buffers: vec![], carries: vec![] })
    }
}

/// Returns the op if it is a scan that runs all its steps, is not truncated (scan-c8) and cannot fail; otherwise
/// returns `None`. Such a loop can be removed as dead code without losing an error.
fn whole_loop<'a>(context: &RewriteContext<'a>) -> Option<&'a Scan> {
    match context.op {
        Op::Scan(scan) if scan.until.is_none() && scan.truncate.is_none() && is_certain_loop(context, scan) => {
            Some(scan)
        }
        _ => None,
    }
}

fn is_certain_loop(context: &RewriteContext<'_>, scan: &Scan) -> bool {
    let mut nodes = scan.body.nodes().iter();
    scan.has_all_rows(&context.types()) && nodes.all(|node| cannot_fail(&scan.body, node, &Sizes::new()))
}

/// Counts how often live nodes and outputs use each value of a body.
fn uses(body: &Graph) -> Vec<usize> {
    let mut uses = vec![0; body.values().count()];
    body.live().flat_map(|node| &node.inputs).for_each(|input| uses[input.index()] += 1);
    body.outputs().iter().for_each(|output| uses[output.value.index()] += 1);
    uses
}

/// Returns the op that computes a value of a body, with its operands, or `None` for a parameter.
fn defining_op(body: &Graph, value: ValueId) -> Option<(&Op, &[ValueId])> {
    body.node_of(value).map(|node| (&node.op, node.inputs.as_slice()))
}

/// Iterates over the complete traces of the loop: the buffers that start empty, and whose rows the loop returns in
/// full. Each item contains the index of the buffer and the value that a step writes to it.
pub(super) fn traces(scan: &Scan) -> impl Iterator<Item = (usize, ValueId)> {
    let results = scan.results().buffers;
    let is_trace = |buffer: &Buffer| buffer.start == Start::Empty && buffer.returned == Returned::All;
    let traces = scan.buffers.iter().enumerate().filter(move |(_, buffer)| is_trace(buffer));
    traces.map(move |(number, _)| (number, scan.body.outputs()[results[number].start].value))
}

/// Selects the rows that the loop returns (scan-c7), given all rows of a buffer.
fn returned_rows(all: Value, returned: Returned, reverse: bool) -> Value {
    let rows = all.dim(0);
    match returned {
        Returned::All => all,
        Returned::Last(count) if reverse => all.slice(0, Dim::from(0)..Dim::from(count)),
        Returned::Last(count) => all.slice(0, rows.clone() - count..rows),
    }
}

/// Selects the rows of a sequence that the steps read at the given offset.
fn rows(value: Value, offset: usize, steps: &Dim) -> Value {
    if offset == 0 && value.dim(0) == *steps {
        return value;
    }
    let slice = Slice { axis: 0, start: Dim::from(offset), limit: steps.clone() + offset, step: 1 };
    value.emit(slice)
}
