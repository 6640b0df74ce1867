//! Finds the values of a body that can be computed for all steps at once, and extracts the programs that compute them.
//! The batching rules vectorise these programs, with one lane per step.

use funcify_core::graph;
use funcify_core::ops::{OpClass, Product};
use funcify_core::vmap::{Batched, inline};

use super::*;

/// The class of a value in a loop's body. The class determines whether the value can be computed before the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// The value depends only on invariants, so it is the same in each step.
    Shared,
    /// The value depends on rows of sequences, and possibly on invariants, only through ops that may run before the
    /// loop.
    FromSequences,
    /// The value depends on states, or on ops that must run inside the loop.
    Stepwise,
}

/// Returns the class of each value in a loop's body.
pub(super) fn classes(scan: &Scan) -> Vec<Class> {
    let (body, layout, present) = (&scan.body, scan.params(), bytes_of_step(scan));
    let mut classes = vec![Class::Stepwise; body.values().count()];
    for params in layout.sequences {
        params.for_each(|param| classes[body.inputs()[param].value.index()] = Class::FromSequences);
    }
    layout.invariants.for_each(|param| classes[body.inputs()[param].value.index()] = Class::Shared);
    // The sizes that each step binds anew, such as the step counts of inner loops.
    let stepwise: Vec<&Symbol> = body.nodes().iter().flat_map(|node| node.op.binds()).collect();
    for node in body.nodes() {
        let operands: Vec<Class> = node.inputs.iter().map(|input| classes[input.index()]).collect();
        if operands.contains(&Class::Stepwise)
            || !node.op.bodies().is_empty()
            || node.op.is_opaque()
            || uses_any(body, node, &stepwise)
            || !cannot_fail(body, node, &Sizes::new())
            || !may_lift(scan, node, &operands, &present)
        {
            continue;
        }
        let class = if operands.contains(&Class::FromSequences) { Class::FromSequences } else { Class::Shared };
        node.outputs.iter().for_each(|output| classes[output.index()] = class);
    }
    classes
}

/// Returns `true` if an op of a loop may run for all steps at once. A matrix product must stay a single product, and
/// the memory for all steps must be bounded. `present` is the number of bytes that a step already reads and writes.
fn may_lift(scan: &Scan, node: &Node, operands: &[Class], present: &Dim) -> bool {
    let body = &scan.body;
    let is_one_product = match node.op.class() {
        OpClass::Product(Product::MatMul(_)) => {
            operands == [Class::FromSequences, Class::Shared] && body.ty(node.inputs[0]).rank() == 2
        }
        OpClass::Product(Product::Conv(_)) => operands == [Class::FromSequences, Class::Shared],
        OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) => true,
        OpClass::Along(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => true,
        // `classes` has already excluded these ops.
        OpClass::Control(_) | OpClass::Custom(_) => return false,
    };
    let is_from_sequences = operands.contains(&Class::FromSequences);
    !is_from_sequences
        || (is_one_product && is_bounded(&bytes_of(body, &node.outputs), present, MAX_MEMORY_FACTOR, &scan.steps))
}

/// Computes values of a loop's body for all steps at once, given the rows of the sequences, the invariants, and traces
/// of other values. Returns `None` if a value depends on anything else.
pub(super) fn compute_for_all_steps(
    parts: &Loop,
    steps: &Dim,
    traces: &[(ValueId, Value)],
    outputs: &[ValueId],
) -> Option<Vec<Value>> {
    let body = &parts.body;
    let mut given: Vec<(ValueId, Batched)> =
        traces.iter().map(|(value, trace)| (*value, Batched::mapped(*trace))).collect();
    let needed = needed(body, outputs, |value| traces.iter().any(|(traced, _)| *traced == value));
    for part in &parts.sequences {
        for (offset, param) in part.reads.iter().filter(|(_, param)| needed[param.index()]) {
            given.push((*param, Batched::mapped(rows(part.value, *offset, steps))));
        }
    }
    given.extend(parts.invariants.iter().map(|(value, param)| (*param, Batched::unmapped(*value))));
    let (params, inputs): (Vec<ValueId>, Vec<Batched>) = given.into_iter().unzip();
    let program = extract_program(body, &params, outputs)?;
    Some(inline(&program, steps, &inputs).ok()?.into_iter().map(|result| result.materialized(steps)).collect())
}

/// Computes values of a body from the given values of its parameters. Returns `None` if a value depends on anything
/// else.
pub(super) fn compute_values(body: &Graph, given: &[(Value, ValueId)], outputs: &[ValueId]) -> Option<Vec<Value>> {
    let (values, params): (Vec<Value>, Vec<ValueId>) = given.iter().copied().unzip();
    graph::inline(&extract_program(body, &params, outputs)?, &values).ok()
}

/// Returns a flag for each value of a body: `true` if it is needed to compute `outputs`. `is_there` returns `true` for
/// values that are already available, so the ops that compute these values need not run.
pub(super) fn needed<'a>(
    body: &Graph,
    outputs: impl IntoIterator<Item = &'a ValueId>,
    is_there: impl Fn(ValueId) -> bool,
) -> Vec<bool> {
    let mut needed = vec![false; body.values().count()];
    outputs.into_iter().for_each(|output| needed[output.index()] = true);
    for node in body.nodes().iter().rev() {
        if node.outputs.iter().any(|output| needed[output.index()] && !is_there(*output)) {
            node.inputs.iter().for_each(|input| needed[input.index()] = true);
        }
    }
    needed
}

/// Returns `true` if a node computes a needed value that has not been copied.
pub(super) fn computes_needed(node: &Node, needed: &[bool], copied: &ValueMap<'_>) -> bool {
    node.outputs.iter().any(|output| needed[output.index()] && copied.get(*output).is_none())
}

/// Extracts the part of a body that computes `outputs` from `params`. Returns `None` if an output depends on anything
/// else.
fn extract_program(body: &Graph, params: &[ValueId], outputs: &[ValueId]) -> Option<Graph> {
    let needed = needed(body, outputs, |value| params.contains(&value));
    let (mut graph, mut copied) = (Graph::new("step"), ValueMap::new(body));
    params.iter().enumerate().for_each(|(number, param)| copied.input(&mut graph, *param, &format!("x{number}")));
    for node in body.nodes() {
        if computes_needed(node, &needed, &copied) {
            copied.node(&mut graph, node, node.op.clone())?;
        }
    }
    for (index, output) in outputs.iter().enumerate() {
        graph.push_output(&format!("y{index}"), copied.get(*output)?);
    }
    Some(graph)
}
