//! Runs an inner loop for all steps of the outer loop at once (loop interchange: Allen, Kennedy 1984; JAX's `vmap` of a
//! `scan`). The inner loop must depend on the sequences of the outer loop, but not on the outer loop's states. Each
//! step of the new loop performs the corresponding inner step for all outer steps. The number of sequential steps is
//! then no longer multiplied by the number of outer steps.
//!
//! Precondition: neither loop can fail, neither is truncated, and both run all their steps. The number of inner steps
//! is the same in each outer step. The inner loop has no checkpoint policy, and its body has no loop or switch. For
//! each outer step, the new loop holds at most twice the bytes that the outer step already reads and writes.
//! Alternatively, the new loop holds at most 64 KiB in total. If the outer loop has a state, the inner loop must return
//! only final values. Otherwise, rows that a backward loop recomputes in order to save memory would be stored for all
//! steps.

use super::cost::is_bounded_for_nonempty;
use super::*;

/// The limit on the memory that the new loop holds, as a multiple of the bytes that the outer loop reads and writes.
const MAX_HELD_FACTOR: i64 = 2;

/// Moves inner loops out of the outer loop. Each of them then runs once, for all outer steps.
pub(crate) fn interchange(context: &RewriteContext<'_>) -> Option<Patch> {
    let scan = whole_loop(context).filter(|scan| !scan.sequences.is_empty())?;
    let results = independent_results(scan);
    if results.is_empty() {
        return None;
    }
    context.build(context.operands, |operands| emit_inner_before(scan, &results, operands))
}

/// Returns the used results of the inner loops that can be moved out of the outer loop: loops that depend on no state
/// of the outer loop, and whose memory is within the limit.
fn independent_results(scan: &Scan) -> Vec<ValueId> {
    let body = &scan.body;
    if !body.nodes().iter().any(|node| matches!(node.op, Op::Scan(_))) {
        return Vec::new();
    }
    let (classes, uses, present) = (classes(scan), uses(body), bytes_of_step(scan));
    let has_state = scan.carries > 0 || scan.buffers.iter().any(|buffer| buffer.start != Start::Empty);
    let stepwise: Vec<&Symbol> = body.nodes().iter().flat_map(|node| node.op.binds()).collect();
    let (mut held, mut results) = (Dim::from(0), Vec::new());
    for node in body.live() {
        let Op::Scan(inner) = &node.op else { continue };
        let classes: Vec<Class> = node.inputs.iter().map(|input| classes[input.index()]).collect();
        let is_independent = classes.contains(&Class::FromSequences) && !classes.contains(&Class::Stepwise);
        let keeps_rows = has_state && !inner.buffers.is_empty();
        if !is_independent || keeps_rows || !is_plain(inner) || uses_any(body, node, &stepwise) {
            continue;
        }
        let with = held.clone() + bytes_held(body, node, inner);
        if is_bounded_for_nonempty(&with, &present, MAX_HELD_FACTOR, &scan.steps) {
            held = with;
            results.extend(node.outputs.iter().copied().filter(|output| uses[output.index()] > 0));
        }
    }
    results
}

fn is_plain(scan: &Scan) -> bool {
    let is_whole = scan.until.is_none() && scan.truncate.is_none() && scan.policy.is_none() && !scan.steps_operand;
    is_whole && scan.body.nodes().iter().all(|node| node.op.bodies().is_empty() && !node.op.is_opaque())
}

/// Returns the number of bytes per outer step that the new loop holds: the operands of the inner loop that the outer
/// loop computes, the results of the inner loop, and the largest value that its body computes.
fn bytes_held(body: &Graph, node: &Node, inner: &Scan) -> Dim {
    let computed: Vec<ValueId> = node.inputs.iter().copied().filter(|input| body.node_of(*input).is_some()).collect();
    let values = inner.body.nodes().iter().flat_map(|node| &node.outputs).map(|output| bytes(inner.body.ty(*output)));
    let largest = values.reduce(|largest, size| if largest.is_at_least(&size) == Some(true) { largest } else { size });
    bytes_of(body, &computed) + bytes_of(body, &node.outputs) + largest.unwrap_or(Dim::from(0))
}

fn emit_inner_before(scan: &Scan, results: &[ValueId], operands: &[Value]) -> Option<Vec<Value>> {
    let mut parts = Loop::of(scan, operands);
    for (value, rows) in results.iter().zip(compute_for_all_steps(&parts, &scan.steps, &[], results)?) {
        let param = parts.param_for(*value, "inner");
        parts.sequences.push(SequencePart { value: rows, reads: vec![(0, param)] });
    }
    parts.emit()?.old.into_iter().collect()
}
