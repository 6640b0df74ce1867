//! Moves invariant work out of the branches of switches inside a loop, so that this work runs once, before the loop.
//! This is loop-invariant code motion of speculatable work, as in LLVM's `LICM`.
//!
//! The rule saves work if the loop runs a branch more than once, and costs one extra evaluation of the moved ops if the
//! branch never runs.
//!
//! Precondition: the moved ops must not be able to fail, because the branch might never run. They use only invariant
//! operands of the switch, and no size that a step of the loop binds. The loop is not truncated. The switch has at
//! least two branches; otherwise it is a checkpoint. The moved values take at most
//! [`MAX_MEMORY_FACTOR`](super::cost::MAX_MEMORY_FACTOR) times the memory of the branch's parameters, or at most 64
//! KiB, whichever is larger.

use funcify_core::ops::Switch;

use super::cut::compute_values;
use super::invariant::{shared_values, values_to_move, with_moved, with_params};
use super::*;

/// Moves invariant work out of the branches of a loop's switches, so that it runs before the loop.
pub(crate) fn branches(context: &RewriteContext<'_>) -> Option<Patch> {
    match context.op {
        Op::Scan(scan) if scan.truncate.is_none() => {
            let own: Vec<&Symbol> = scan.binds().collect();
            let work = movable_work(&scan.body, scan.params().invariants.start, &own);
            if work.is_empty() {
                return None;
            }
            context.build(context.operands, |operands| emit_scan(scan, &work, operands))
        }
        Op::While(op) => {
            let carries = op.operands().carries.len();
            let work = [&op.condition, &op.body].map(|body| movable_work(body, carries, &[]));
            if work.iter().all(Vec::is_empty) {
                return None;
            }
            context.build(context.operands, |operands| emit_while(op, &work, operands))
        }
        _ => None,
    }
}

/// The values of one branch that are moved out of the loop.
struct Work<'a> {
    /// The index of the switch's node in the body.
    node: usize,
    /// The index of the branch in the switch.
    number: usize,
    branch: &'a Graph,
    /// The invariant operands of the branch, each given as a value of the body and as a parameter of the branch.
    given: Vec<(ValueId, ValueId)>,
    /// The values of the branch that are moved.
    values: Vec<ValueId>,
}

/// Searches the branches of a body's switches, and returns the work that can be moved out of the loop. The inputs of
/// the body from index `first` on are invariants. `own` lists the sizes that the loop itself binds.
fn movable_work<'a>(body: &'a Graph, first: usize, own: &[&Symbol]) -> Vec<Work<'a>> {
    let is_choice = |op: &Op| matches!(op, Op::Switch(switch) if switch.branches.len() > 1);
    let mut all = Vec::new();
    if !body.nodes().iter().any(|node| is_choice(&node.op)) {
        return all;
    }
    let is_shared = shared_values(body, body.inputs()[first..].iter().map(|input| input.value), own);
    let stepwise: Vec<&Symbol> =
        body.nodes().iter().flat_map(|node| node.op.binds()).chain(own.iter().copied()).collect();
    let live = body.live_nodes();
    for (index, node) in body.nodes().iter().enumerate().filter(|(index, node)| live[*index] && is_choice(&node.op)) {
        let Op::Switch(switch) = &node.op else { continue };
        for (number, (branch, places)) in switch.branches.iter().zip(switch.operands()).enumerate() {
            let params = branch.inputs().iter().map(|input| input.value);
            let given: Vec<(ValueId, ValueId)> = node.inputs[places]
                .iter()
                .copied()
                .zip(params)
                .filter(|(operand, _)| is_shared[operand.index()])
                .collect();
            let values =
                values_to_move(branch, &shared_values(branch, given.iter().map(|(_, param)| *param), &stepwise));
            if !values.is_empty() {
                all.push(Work { node: index, number, branch, given, values });
            }
        }
    }
    all
}

impl Work<'_> {
    /// Computes the moved values outside the loop. `outside` pairs each invariant input of the body with its value
    /// outside the loop.
    fn compute(&self, body: &Graph, outside: &[(Value, ValueId)]) -> Option<Vec<Value>> {
        let (operands, params): (Vec<ValueId>, Vec<ValueId>) = self.given.iter().copied().unzip();
        let given: Vec<(Value, ValueId)> = compute_values(body, outside, &operands)?.into_iter().zip(params).collect();
        compute_values(self.branch, &given, &self.values)
    }
}

fn emit_scan(scan: &Scan, work: &[Work<'_>], operands: &[Value]) -> Option<Vec<Value>> {
    let outside = Loop::of(scan, operands).invariants;
    let mut all = operands.to_vec();
    for part in work {
        all.extend(part.compute(&scan.body, &outside)?);
    }
    let invariants = scan.invariants + all.len() - operands.len();
    emit(Scan { body: Arc::new(without_work(&scan.body, work)?), invariants, ..scan.clone() }, &all).ok()
}

/// Emits the moved work, followed by the while loop.
fn emit_while(op: &While, work: &[Vec<Work<'_>>; 2], operands: &[Value]) -> Option<Vec<Value>> {
    with_moved(op, operands, work, |body, outside, work| {
        let mut all = Vec::new();
        for part in work {
            all.extend(part.compute(body, outside)?);
        }
        Some((all, without_work(body, work)?))
    })
}

/// Returns the body without the moved work. The new body takes the moved values as additional parameters at the end.
fn without_work(body: &Graph, work: &[Work<'_>]) -> Option<Graph> {
    let (mut graph, mut copied) = (Graph::new(body.name()), ValueMap::new(body));
    body.inputs().iter().for_each(|input| copied.input(&mut graph, input.value, "x"));
    let param = |graph: &mut Graph, part: &Work<'_>, value: &ValueId| {
        let name = part.branch.value_name(*value).unwrap_or("moved");
        graph.push_input(name, part.branch.ty(*value).clone(), false)
    };
    let params: Vec<Vec<ValueId>> =
        work.iter().map(|part| part.values.iter().map(|value| param(&mut graph, part, value)).collect()).collect();
    for (index, node) in body.nodes().iter().enumerate() {
        let of_node = |(part, _): &(&Work<'_>, _)| part.node == index;
        let mut parts = work.iter().zip(&params).filter(of_node).peekable();
        let (Op::Switch(switch), Some(_)) = (&node.op, parts.peek()) else {
            copied.node(&mut graph, node, node.op.clone())?;
            continue;
        };
        let operand = |value: &ValueId| copied.get(*value);
        let mut operands: Vec<ValueId> = vec![operand(node.inputs.first()?)?];
        let mut branches = switch.branches.clone();
        for (number, places) in switch.operands().into_iter().enumerate() {
            operands.extend(node.inputs[places].iter().map(operand).collect::<Option<Vec<_>>>()?);
            if let Some((part, params)) = parts.next_if(|(part, _)| part.number == number) {
                branches[number] = Arc::new(with_params(part.branch, &part.values)?);
                operands.extend(params);
            }
        }
        let results = graph.push_node(Switch { branches }.into(), &operands, node.site).ok()?;
        node.outputs.iter().zip(results).for_each(|(output, id)| copied.set_named(&mut graph, *output, id));
    }
    copied.outputs(&mut graph)?;
    Some(graph)
}
