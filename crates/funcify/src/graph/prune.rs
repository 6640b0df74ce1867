//! Leaving out what no output needs: nodes, and in loops and choices the results that nobody reads, with the states that
//! feed only those and the operands that only those use.
//!
//! The forward loop of a derivative saves all its states; pruning leaves those that the backward loop reads. Nothing that
//! an output needs is changed, and no row that is read is left out.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::certain::{certain_values, is_certain};
use super::live::{binds, uses_any};
use super::{Graph, Node, ValueId, work};
use crate::ops::scan::Start;
use crate::ops::{AssociativeScan, Op, Scan, Switch, While};
use crate::types::{Sizes, Symbol};

impl Graph {
    /// The graph with the same inputs and outputs, without what no output needs.
    pub(crate) fn pruned(&self) -> Graph {
        self.pruned_without(0..0).unwrap_or_else(|| self.clone())
    }

    /// [`pruned`](Graph::pruned), but loops and choices that may be refused when they run stay as they are, and so does what
    /// they take: an error that a program gives, it gives without its dead parts, too. `None` if nothing is left out.
    pub(crate) fn pruned_certain(&self) -> Option<Graph> {
        let keep = Keep { inputs: vec![true; self.inputs.len()], outputs: vec![true; self.outputs.len()] };
        let mut need = Need::of(self);
        need.is_strict = true;
        need.add(self, &keep.outputs);
        if need.is_all(self) { None } else { self.kept(&keep, &need) }
    }

    /// How much there is to a graph: its nodes with their operands and results, also inside of bodies. Pruning leaves less.
    fn extent(&self) -> usize {
        let of_node = |node: &Node| {
            let bodies = node.op.bodies().into_iter().map(|body| body.extent());
            1 + node.inputs.len() + node.outputs.len() + bodies.sum::<usize>()
        };
        self.inputs.len() + self.outputs.len() + self.nodes.iter().map(of_node).sum::<usize>()
    }

    /// [`pruned`](Graph::pruned), without these inputs. `None` if an output needs one of them.
    pub(crate) fn pruned_without(&self, inputs: Range<usize>) -> Option<Graph> {
        let inputs = (0..self.inputs.len()).map(|index| !inputs.contains(&index)).collect();
        let keep = Keep { inputs, outputs: vec![true; self.outputs.len()] };
        let mut need = Need::of(self);
        need.add(self, &keep.outputs);
        self.kept(&keep, &need)
    }

    /// Which inputs these outputs need.
    pub(crate) fn needed_inputs(&self, outputs: &[bool]) -> Vec<bool> {
        Need::of(self).add(self, outputs)
    }

    /// With these inputs and outputs alone, and what they need. `None` if an output needs an input that is left out.
    fn kept(&self, keep: &Keep, need: &Need) -> Option<Graph> {
        let mut graph = Graph::new(self.name());
        let mut ids = vec![None; self.values.len()];
        for (input, _) in self.inputs.iter().zip(&keep.inputs).filter(|(_, keep)| **keep) {
            let name = self.value_name(input.value).unwrap_or_default();
            ids[input.value.index()] = Some(graph.push_input(name, self.ty(input.value).clone(), input.is_static));
        }
        for (index, node) in self.nodes.iter().enumerate().filter(|(index, _)| need.nodes[*index]) {
            let results: Vec<bool> = node.outputs.iter().map(|output| need.values[output.index()]).collect();
            let slim = match slim(&node.op, &results, &need.bodies[index]) {
                Some(slim) if !need.whole[index] => slim?,
                _ => {
                    let operands: Option<Vec<ValueId>> = node.inputs.iter().map(|input| ids[input.index()]).collect();
                    let types = self.types(&node.outputs);
                    let results = graph.push_typed(node.op.clone(), &operands?, types, node.site).ok()?;
                    node.outputs
                        .iter()
                        .zip(results)
                        .for_each(|(output, id)| self.place(&mut graph, &mut ids, *output, id));
                    continue;
                }
            };
            let operands = slim.operands.iter().map(|operand| ids[node.inputs[*operand].index()]);
            let results = graph.push_node(slim.op, &operands.collect::<Option<Vec<_>>>()?, node.site).ok()?;
            for (result, id) in slim.results.into_iter().zip(results) {
                self.place(&mut graph, &mut ids, node.outputs[result], id);
            }
        }
        for (output, _) in self.outputs.iter().zip(&keep.outputs).filter(|(_, keep)| **keep) {
            graph.push_output(&output.name, ids[output.value.index()]?);
        }
        Some(graph)
    }

    /// Notes what a value is in another graph, which gets its name.
    fn place(&self, graph: &mut Graph, ids: &mut [Option<ValueId>], value: ValueId, id: ValueId) {
        ids[value.index()] = Some(id);
        if let Some(name) = self.value_name(value) {
            graph.set_value_name(id, name);
        }
    }
}

/// What is left of a graph.
struct Keep {
    inputs: Vec<bool>,
    outputs: Vec<bool>,
}

/// What is left of an op: which operands it takes, and which results it gives.
struct Slim {
    op: Op,
    operands: Vec<usize>,
    results: Vec<usize>,
}

/// What some outputs of a graph need. A body is gone through again only if more of its outputs are needed, so the work does
/// not multiply with each level of a nest.
struct Need {
    values: Vec<bool>,
    nodes: Vec<bool>,
    /// What is needed of the bodies of each node.
    bodies: Vec<Vec<Need>>,
    is_asked: bool,
    /// Whether what may be refused stays as it is.
    is_strict: bool,
    /// The nodes that stay as they are.
    whole: Vec<bool>,
}

impl Need {
    fn of(graph: &Graph) -> Need {
        Need {
            values: vec![false; graph.values.len()],
            nodes: vec![false; graph.nodes.len()],
            bodies: graph.nodes.iter().map(|_| Vec::new()).collect(),
            is_asked: false,
            is_strict: false,
            whole: vec![false; graph.nodes.len()],
        }
    }

    /// Adds what these outputs need; gives which inputs are needed.
    fn add(&mut self, graph: &Graph, outputs: &[bool]) -> Vec<bool> {
        let mut is_new = !self.is_asked;
        for (output, _) in graph.outputs.iter().zip(outputs).filter(|(_, keep)| **keep) {
            is_new |= !std::mem::replace(&mut self.values[output.value.index()], true);
        }
        if is_new {
            self.is_asked = true;
            self.follow(graph);
        }
        graph.inputs.iter().map(|input| self.values[input.value.index()]).collect()
    }

    /// Whether all of a graph is needed: its nodes, with all that they take and give.
    fn is_all(&self, graph: &Graph) -> bool {
        let mut nodes = graph.nodes.iter().enumerate();
        nodes.all(|(index, node)| {
            let results: Vec<bool> = node.outputs.iter().map(|output| self.values[output.index()]).collect();
            self.nodes[index] && (self.whole[index] || all_of_op(node, &results, &self.bodies[index]))
        })
    }

    fn follow(&mut self, graph: &Graph) {
        // A loop is also needed for the size of a symbol that it binds.
        let bound: BTreeSet<&Symbol> = graph.nodes.iter().flat_map(|node| binds(&node.op)).collect();
        let mut sizes: BTreeSet<&Symbol> = BTreeSet::new();
        let certain = if self.is_strict { certain_values(graph) } else { Vec::new() };
        for (index, node) in graph.nodes.iter().enumerate().rev() {
            work::count();
            let results: Vec<bool> = node.outputs.iter().map(|output| self.values[output.index()]).collect();
            if !results.contains(&true) && !binds(&node.op).any(|symbol| sizes.contains(symbol)) {
                continue;
            }
            self.nodes[index] = true;
            sizes.extend(bound.iter().copied().filter(|symbol| uses_any(graph, node, &[*symbol])));
            binds(&node.op).for_each(|symbol| _ = sizes.remove(symbol));
            let bodies = &mut self.bodies[index];
            if bodies.is_empty() {
                let of = |body: &Arc<Graph>| Need { is_strict: self.is_strict, ..Need::of(body) };
                *bodies = node.op.bodies().into_iter().map(of).collect();
            }
            let mut operands = match &node.op {
                Op::Scan(scan) => scan_operands(scan, &results, &mut bodies[0]),
                Op::Switch(switch) => switch_operands(switch, &results, bodies),
                Op::While(op) => while_operands(op, &results, bodies),
                Op::AssociativeScan(op) => associative_operands(op, &results, &mut bodies[0]),
                _ => vec![true; node.inputs.len()],
            };
            let is_lost = |(input, needed): (&ValueId, &bool)| !needed && !certain[input.index()];
            if self.is_strict
                && !node.op.bodies().is_empty()
                && (!is_certain(graph, node, &Sizes::new()) || node.inputs.iter().zip(&operands).any(is_lost))
            {
                self.whole[index] = true;
                operands.fill(true);
            }
            for (input, _) in node.inputs.iter().zip(operands).filter(|(_, needed)| *needed) {
                self.values[input.index()] = true;
            }
        }
    }

    fn has(&self, graph: &Graph, input: usize) -> bool {
        self.values[graph.inputs[input].value.index()]
    }

    /// Which inputs are needed.
    fn inputs(&self, graph: &Graph) -> Vec<bool> {
        (0..graph.inputs.len()).map(|input| self.has(graph, input)).collect()
    }
}

/// Whether a loop is needed for the size of its number of steps alone.
fn only_counts(scan: &Scan, results: &[bool]) -> bool {
    !results.contains(&true) && scan.until.is_none()
}

/// Which buffers and carries are needed: their results are, or a step that is needed reads them.
fn needed_states(scan: &Scan, results: &[bool], body: &Need) -> Vec<bool> {
    let layout = scan.params();
    let is_read = |reads: &Range<usize>| reads.clone().any(|param| body.has(&scan.body, param));
    let read = layout.buffers.iter().map(is_read).chain(layout.carries.map(|param| body.has(&scan.body, param)));
    results.iter().zip(read).map(|(result, read)| *result || read).collect()
}

fn scan_operands(scan: &Scan, results: &[bool], body: &mut Need) -> Vec<bool> {
    let (layout, outputs, places) = (scan.params(), scan.results(), scan.operands());
    let mut operands = vec![false; places.count];
    places.steps.iter().for_each(|steps| operands[*steps] = true);
    if only_counts(scan, results) {
        return operands;
    }
    let mut states = results.to_vec();
    loop {
        let mut needed = vec![false; outputs.count];
        for (written, state) in outputs.buffers.iter().zip(&states) {
            needed[written.clone()].fill(*state);
        }
        needed[outputs.carries.clone()].copy_from_slice(&states[scan.buffers.len()..]);
        outputs.until.iter().for_each(|until| needed[*until] = true);
        body.add(&scan.body, &needed);
        let more = needed_states(scan, results, body);
        if more == states {
            break;
        }
        states = more;
    }
    for (operand, params) in places.sequences.zip(layout.sequences) {
        operands[operand] = params.into_iter().any(|param| body.has(&scan.body, param));
    }
    for (operand, needed) in places.buffers.iter().zip(&states) {
        operand.iter().for_each(|operand| operands[*operand] = *needed);
    }
    operands[places.carries].copy_from_slice(&states[scan.buffers.len()..]);
    for (operand, param) in places.invariants.zip(layout.invariants) {
        operands[operand] = body.has(&scan.body, param);
    }
    operands
}

fn switch_operands(switch: &Switch, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
    let branches = switch.branches.iter().zip(bodies);
    std::iter::once(true).chain(branches.flat_map(|(branch, need)| need.add(branch, results))).collect()
}

/// Which carries are needed: their results are, or the condition or a step that is needed reads them.
fn needed_carries(op: &While, results: &[bool], bodies: &[Need]) -> Vec<bool> {
    let is_read = |index| bodies[0].has(&op.condition, index) || bodies[1].has(&op.body, index);
    results.iter().enumerate().map(|(index, result)| *result || is_read(index)).collect()
}

fn while_operands(op: &While, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
    let of_condition = bodies[0].add(&op.condition, &[true]);
    let mut carries = needed_carries(op, results, bodies);
    loop {
        let of_body = bodies[1].add(&op.body, &carries);
        let more = needed_carries(op, results, bodies);
        if more == carries {
            let count = carries.len();
            return [carries.as_slice(), &of_condition[count..], &of_body[count..]].concat();
        }
        carries = more;
    }
}

/// Which leaves are needed: their results are, or a combination that is needed reads them.
fn needed_leaves(op: &AssociativeScan, results: &[bool], combine: &Need) -> Vec<bool> {
    let is_read = |leaf| combine.has(&op.combine, leaf) || combine.has(&op.combine, op.leaves + leaf);
    results.iter().enumerate().map(|(leaf, result)| *result || is_read(leaf)).collect()
}

fn associative_operands(op: &AssociativeScan, results: &[bool], combine: &mut Need) -> Vec<bool> {
    let mut leaves = results.to_vec();
    loop {
        let params = combine.add(&op.combine, &leaves);
        let more = needed_leaves(op, results, combine);
        if more == leaves {
            return [leaves.as_slice(), &params[2 * op.leaves..]].concat();
        }
        leaves = more;
    }
}

/// Whether nothing is left out of an op if only these results are needed, and of its bodies that.
fn all_of_op(node: &Node, results: &[bool], bodies: &[Need]) -> bool {
    let Some(Some(slim)) = slim(&node.op, results, bodies) else { return true };
    let pairs = node.op.bodies().into_iter().zip(slim.op.bodies());
    slim.operands.len() == node.inputs.len()
        && slim.results.len() == node.outputs.len()
        && pairs.into_iter().all(|(before, after)| before.extent() == after.extent())
}

/// What is left of an op if only these results are needed, and of its bodies that. `None` if it stays as it is: a function
/// with a derivative rule does, for its rule is for all its results.
fn slim(op: &Op, results: &[bool], bodies: &[Need]) -> Option<Option<Slim>> {
    match op {
        Op::Scan(scan) => Some(slim_scan(scan, results, &bodies[0])),
        Op::Switch(switch) => Some(slim_switch(switch, results, bodies)),
        Op::While(op) => Some(slim_while(op, results, bodies)),
        Op::AssociativeScan(op) => Some(slim_associative(op, results, &bodies[0])),
        _ => None,
    }
}

fn slim_scan(scan: &Scan, results: &[bool], need: &Need) -> Option<Slim> {
    if only_counts(scan, results) {
        let body = Arc::new(Graph::new(scan.body.name()));
        let op = Scan { body, sequences: vec![], buffers: vec![], carries: 0, invariants: 0, ..scan.clone() };
        return Some(Slim { op: op.into(), operands: scan.operands().steps.into_iter().collect(), results: vec![] });
    }
    let (layout, outputs, places) = (scan.params(), scan.results(), scan.operands());
    let (needed, used) = (needed_states(scan, results, need), need.inputs(&scan.body));
    let mut kept = vec![false; outputs.count];
    for (written, needed) in outputs.buffers.iter().zip(&needed) {
        kept[written.clone()].fill(*needed);
    }
    kept[outputs.carries.clone()].copy_from_slice(&needed[scan.buffers.len()..]);
    outputs.until.iter().for_each(|until| kept[*until] = true);
    let is_read = |reads: &Range<usize>| used[reads.clone()].contains(&true);
    let mut inputs = vec![false; layout.count];
    let mut operands: Vec<usize> = places.steps.into_iter().collect();
    let mut op = Scan { sequences: vec![], buffers: vec![], carries: 0, invariants: 0, ..scan.clone() };
    for (number, operand) in places.sequences.enumerate() {
        if is_read(&layout.sequences[number]) {
            inputs[layout.sequences[number].clone()].fill(true);
            operands.push(operand);
            op.sequences.push(scan.sequences[number].clone());
        }
    }
    for (number, buffer) in scan.buffers.iter().enumerate().filter(|(number, _)| needed[*number]) {
        inputs[layout.buffers[number].clone()].fill(true);
        operands.extend(places.buffers[number].filter(|_| buffer.start != Start::Empty));
        op.buffers.push(buffer.clone());
    }
    let carries = places.carries.zip(layout.carries).zip(&needed[scan.buffers.len()..]);
    let carries: Vec<(usize, usize)> = carries.filter(|(_, needed)| **needed).map(|(pair, _)| pair).collect();
    op.carries = carries.len();
    let invariants: Vec<(usize, usize)> =
        places.invariants.zip(layout.invariants).filter(|(_, param)| used[*param]).collect();
    op.invariants = invariants.len();
    for (operand, param) in carries.into_iter().chain(invariants) {
        inputs[param] = true;
        operands.push(operand);
    }
    op.body = Arc::new(scan.body.kept(&Keep { inputs, outputs: kept }, need)?);
    let results = (0..needed.len()).filter(|result| needed[*result]).collect();
    Some(Slim { op: op.into(), operands, results })
}

fn slim_switch(switch: &Switch, results: &[bool], bodies: &[Need]) -> Option<Slim> {
    let mut operands = vec![0];
    let mut branches = Vec::with_capacity(switch.branches.len());
    for ((branch, places), need) in switch.branches.iter().zip(switch.operands()).zip(bodies) {
        let inputs = need.inputs(branch);
        operands.extend(places.zip(&inputs).filter(|(_, used)| **used).map(|(operand, _)| operand));
        branches.push(Arc::new(branch.kept(&Keep { inputs, outputs: results.to_vec() }, need)?));
    }
    let results = (0..results.len()).filter(|result| results[*result]).collect();
    Some(Slim { op: Switch { branches }.into(), operands, results })
}

fn slim_while(op: &While, results: &[bool], bodies: &[Need]) -> Option<Slim> {
    let places = op.operands();
    let count = places.carries.len();
    let (of_condition, of_body) = (bodies[0].inputs(&op.condition), bodies[1].inputs(&op.body));
    let needed = needed_carries(op, results, bodies);
    let kept = |range: Range<usize>, used: &[bool]| {
        range.zip(used.to_vec()).filter(|(_, used)| *used).map(|(operand, _)| operand).collect::<Vec<usize>>()
    };
    let carries = kept(places.carries, &needed);
    let captured = [kept(places.condition, &of_condition[count..]), kept(places.body, &of_body[count..])];
    let operands = [carries.as_slice(), &captured[0], &captured[1]].concat();
    let inputs = |used: &[bool]| [needed.as_slice(), &used[count..]].concat();
    let condition = op.condition.kept(&Keep { inputs: inputs(&of_condition), outputs: vec![true] }, &bodies[0])?;
    let body = op.body.kept(&Keep { inputs: inputs(&of_body), outputs: needed.clone() }, &bodies[1])?;
    let op = While { condition: Arc::new(condition), body: Arc::new(body), bound: op.bound.clone() };
    Some(Slim { op: op.into(), operands, results: carries })
}

fn slim_associative(op: &AssociativeScan, results: &[bool], need: &Need) -> Option<Slim> {
    let (needed, used) = (needed_leaves(op, results, need), need.inputs(&op.combine));
    let captured = &used[2 * op.leaves..];
    let operands = [needed.as_slice(), captured].concat();
    let kept = Keep { inputs: [needed.as_slice(), &needed, captured].concat(), outputs: needed.clone() };
    let combine = Arc::new(op.combine.kept(&kept, need)?);
    let chosen = |flags: &[bool]| (0..flags.len()).filter(|index| flags[*index]).collect::<Vec<usize>>();
    let results = chosen(&needed);
    let op = AssociativeScan { combine, leaves: results.len(), reverse: op.reverse };
    Some(Slim { op: op.into(), operands: chosen(&operands), results })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostTensor, evaluate};

    /// The second leaf reads the first one, and nothing reads the third.
    #[test]
    fn an_associative_scan_keeps_the_leaves_that_are_read() {
        let text = "fn @f(%a: f64[3], %b: f64[3], %c: f64[3]) {
  %0: f64[3], %1: f64[3], %2: f64[3] = associative_scan %a, %b, %c {
    combine (%a1: f64[], %b1: f64[], %c1: f64[], %a2: f64[], %b2: f64[], %c2: f64[]) {
      %3: f64[] = mul %a1, %a2
      %4: f64[] = mul %b1, %a2
      %5: f64[] = add %4, %b2
      %6: f64[] = add %c1, %c2
      give %3, %5, %6
    }
  }
  return y=%1
}";
        let graph = Graph::parse(text).unwrap();
        let pruned = graph.pruned();
        let shown = pruned.to_string();
        assert!(shown.contains("= associative_scan %a, %b {"), "{shown}");
        assert!(!shown.contains("add %c"), "{shown}");
        let row = |numbers: [f64; 3]| HostTensor::from(numbers);
        let arguments = [row([2., 3., 4.]), row([1., 1., 1.]), row([5., 6., 7.])];
        assert_eq!(evaluate(&pruned, &arguments).unwrap(), [row([1., 4., 17.])]);
        assert_eq!(evaluate(&graph, &arguments).unwrap(), [row([1., 4., 17.])]);
    }
}
