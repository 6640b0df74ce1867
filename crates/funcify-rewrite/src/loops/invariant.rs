//! Moves work that is the same in each step out of the loop. The work then runs once, before the loop (loop-invariant
//! code motion; PyTensor's `push_out_non_seq`).
//!
//! A value that depends only on invariants is moved out of the body of a scan, or out of the condition or body of a
//! while loop, even if the value is the result of an inner loop. Constants and ops that only move elements are not
//! worth moving on their own.
//!
//! Precondition: the moved ops must not be able to fail, because the loop may have no steps. The moved ops use no size
//! that the loop or one of its steps binds. The loop is not truncated. The moved values take at most eight times as
//! many bytes as the parameters of the body, or at most 64 KiB.

use super::cost::affordable;
use super::cut::compute_values;
use super::*;

/// Moves loop-invariant work out of a scan or a while loop.
pub(crate) fn invariants(context: &RewriteContext<'_>) -> Option<Patch> {
    match context.op {
        Op::Scan(scan) if scan.truncate.is_none() => {
            let own: Vec<&Symbol> = scan.binds().collect();
            let given = scan.body.inputs()[scan.params().invariants.start..].iter().map(|input| input.value);
            let moved = values_to_move(&scan.body, &shared_values(&scan.body, given, &own));
            if moved.is_empty() {
                return None;
            }
            context.build(context.operands, |operands| emit_scan(scan, &moved, operands))
        }
        Op::While(op) => {
            let carries = op.operands().carries.len();
            let moved = [&op.condition, &op.body].map(|body| {
                let given = body.inputs()[carries..].iter().map(|input| input.value);
                values_to_move(body, &shared_values(body, given, &[]))
            });
            if moved.iter().all(Vec::is_empty) {
                return None;
            }
            context.build(context.operands, |operands| emit_while(op, &moved, operands))
        }
        _ => None,
    }
}

/// Returns a flag for each value of a body: `true` if the value depends only on the `given` values, and its op may run
/// outside of the loop. `own` lists the sizes that the loop itself binds.
pub(super) fn shared_values(body: &Graph, given: impl Iterator<Item = ValueId>, own: &[&Symbol]) -> Vec<bool> {
    let mut is_shared = vec![false; body.values().count()];
    given.for_each(|value| is_shared[value.index()] = true);
    let mut stepwise: Vec<&Symbol> = body.nodes().iter().flat_map(|node| node.op.binds()).collect();
    stepwise.extend(own);
    for node in body.nodes() {
        let is_so = node.inputs.iter().all(|input| is_shared[input.index()])
            && !is_never_moved(&node.op)
            && !uses_any(body, node, &stepwise)
            && cannot_fail(body, node, &Sizes::new());
        node.outputs.iter().for_each(|output| is_shared[output.index()] = is_so);
    }
    is_shared
}

/// Returns the values to move out of a body, up to the memory limit. These are the shared values that the body outputs,
/// or that the remaining ops of the body read. Returns no values if the shared ops only move or create elements.
pub(super) fn values_to_move(body: &Graph, is_shared: &[bool]) -> Vec<ValueId> {
    let is_made = |output: &ValueId| is_shared[output.index()];
    let is_work = body.nodes().iter().any(|node| !node.op.is_movement() && node.outputs.iter().any(is_made));
    if !is_work {
        return Vec::new();
    }
    let mut is_read = vec![false; is_shared.len()];
    body.outputs().iter().for_each(|output| is_read[output.value.index()] = true);
    let mut read = Vec::new();
    for node in body.live().rev() {
        let outputs = node.outputs.iter().copied().filter(|output| is_read[output.index()]);
        let is_moved = node.outputs.first().is_some_and(|output| is_shared[output.index()]);
        match is_moved && (!node.op.is_movement() || !node.outputs.iter().any(|output| is_read[output.index()])) {
            true => read.extend(outputs),
            false => node.inputs.iter().for_each(|input| is_read[input.index()] = true),
        }
    }
    read.reverse();
    let inputs: Vec<ValueId> = body.inputs().iter().map(|input| input.value).collect();
    affordable(body, read, &bytes_of(body, &inputs), &Dim::from(1))
}

/// Returns `true` for ops that are never moved: custom ops, calls to functions with derivative rules, ops that bind a
/// size, and checkpoints, which the backward pass must recompute.
fn is_never_moved(op: &Op) -> bool {
    match op {
        Op::Switch(switch) => switch.branches.len() == 1,
        op => op.is_opaque() || op.binds().next().is_some(),
    }
}

fn emit_scan(scan: &Scan, moved: &[ValueId], operands: &[Value]) -> Option<Vec<Value>> {
    let mut parts = Loop::of(scan, operands);
    for (value, outer) in moved.iter().zip(compute_values(&parts.body, &parts.invariants, moved)?) {
        let param = parts.param_for(*value, "moved");
        parts.invariants.push((outer, param));
    }
    parts.emit()?.old.into_iter().collect()
}

fn emit_while(op: &While, moved: &[Vec<ValueId>; 2], operands: &[Value]) -> Option<Vec<Value>> {
    with_moved(op, operands, moved, |body, outside, moved| {
        Some((compute_values(body, outside, moved)?, with_params(body, moved)?))
    })
}

/// Adds a while loop whose condition and body take additional operands. Calls `more` for the condition and then for the
/// body, each time with the graph, its captured values, and its entry in `moved`. `more` returns the additional
/// operands, and the new graph that takes them as inputs.
pub(super) fn with_moved<M>(
    op: &While,
    operands: &[Value],
    moved: &[M; 2],
    more: impl Fn(&Graph, &[(Value, ValueId)], &M) -> Option<(Vec<Value>, Graph)>,
) -> Option<Vec<Value>> {
    let places = op.operands();
    let mut all = operands[places.carries.clone()].to_vec();
    let mut graphs = Vec::new();
    for ((body, captured), moved) in [(&op.condition, places.condition), (&op.body, places.body)].into_iter().zip(moved)
    {
        let captured = &operands[captured];
        let params = body.inputs()[places.carries.len()..].iter().map(|input| input.value);
        let outside: Vec<(Value, ValueId)> = captured.iter().copied().zip(params).collect();
        let (values, graph) = more(body, &outside, moved)?;
        all.extend_from_slice(captured);
        all.extend(values);
        graphs.push(Arc::new(graph));
    }
    let [condition, body] = <[Arc<Graph>; 2]>::try_from(graphs).ok()?;
    emit(While { condition, body, bound: op.bound.clone() }, &all).ok()
}

/// Returns a copy of the body that takes the given values as additional parameters, after the existing ones, instead of
/// computing them.
pub(super) fn with_params(body: &Graph, values: &[ValueId]) -> Option<Graph> {
    let (mut graph, mut copied) = (Graph::new(body.name()), ValueMap::new(body));
    for value in body.inputs().iter().map(|input| input.value).chain(values.iter().copied()) {
        copied.input(&mut graph, value, "moved");
    }
    for node in body.live() {
        // Keep nodes without results, because they bind sizes.
        if node.outputs.is_empty() || node.outputs.iter().any(|output| copied.get(*output).is_none()) {
            copied.node(&mut graph, node, node.op.clone())?;
        }
    }
    copied.outputs(&mut graph)?;
    Some(graph)
}
