//! Leaving out what no output needs: nodes, and in loops and choices the results that nobody reads, with the states that
//! feed only those and the operands that only those use.
//!
//! The forward loop of a derivative saves all its states; pruning leaves those that the backward loop reads. Nothing that
//! an output needs is changed, and no row that is read is left out.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::Graph;
use super::live::{binds, uses_any};
use crate::ops::scan::Start;
use crate::ops::{Op, Scan, Switch, While};
use crate::types::Symbol;

impl Graph {
    /// The graph with the same inputs and outputs, without what no output needs.
    pub(crate) fn pruned(&self) -> Graph {
        let keep = Keep { inputs: vec![true; self.inputs.len()], outputs: vec![true; self.outputs.len()] };
        self.kept(&keep).unwrap_or_else(|| self.clone())
    }

    /// [`pruned`](Graph::pruned), without these inputs. `None` if an output needs one of them.
    pub(crate) fn pruned_without(&self, inputs: Range<usize>) -> Option<Graph> {
        let kept = (0..self.inputs.len()).map(|index| !inputs.contains(&index)).collect();
        self.kept(&Keep { inputs: kept, outputs: vec![true; self.outputs.len()] })
    }

    /// With these inputs and outputs alone, and what they need. `None` if an output needs an input that is left out.
    fn kept(&self, keep: &Keep) -> Option<Graph> {
        let (_, slims) = self.slimmed(&keep.outputs);
        let mut graph = Graph::new(self.name());
        let mut ids = vec![None; self.values.len()];
        for (input, _) in self.inputs.iter().zip(&keep.inputs).filter(|(_, keep)| **keep) {
            let name = self.value_name(input.value).unwrap_or_default();
            ids[input.value.index()] = Some(graph.push_input(name, self.ty(input.value).clone(), input.is_static));
        }
        for (node, slim) in self.nodes.iter().zip(slims) {
            let Some(slim) = slim else { continue };
            let operands = slim.operands.iter().map(|operand| ids[node.inputs[*operand].index()]);
            let results = graph.push_node(slim.op, &operands.collect::<Option<Vec<_>>>()?, node.site).ok()?;
            for (result, id) in slim.results.into_iter().zip(results) {
                let old = node.outputs[result];
                ids[old.index()] = Some(id);
                if let Some(name) = self.value_name(old) {
                    graph.set_value_name(id, name);
                }
            }
        }
        for (output, _) in self.outputs.iter().zip(&keep.outputs).filter(|(_, keep)| **keep) {
            graph.push_output(&output.name, ids[output.value.index()]?);
        }
        Some(graph)
    }

    /// Which values these outputs need, and each node that they need, without what they do not.
    fn slimmed(&self, outputs: &[bool]) -> (Vec<bool>, Vec<Option<Slim>>) {
        let mut live = vec![false; self.values.len()];
        for (output, _) in self.outputs.iter().zip(outputs).filter(|(_, keep)| **keep) {
            live[output.value.index()] = true;
        }
        let mut slims: Vec<Option<Slim>> = self.nodes.iter().map(|_| None).collect();
        // A loop is also needed for the size of a symbol that it binds.
        let bound: BTreeSet<&Symbol> = self.nodes.iter().flat_map(|node| binds(&node.op)).collect();
        let mut sizes: BTreeSet<&Symbol> = BTreeSet::new();
        for (node, slot) in self.nodes.iter().zip(&mut slims).rev() {
            let results: Vec<bool> = node.outputs.iter().map(|output| live[output.index()]).collect();
            if !results.contains(&true) && !binds(&node.op).any(|symbol| sizes.contains(symbol)) {
                continue;
            }
            sizes.extend(bound.iter().copied().filter(|symbol| uses_any(self, node, &[*symbol])));
            binds(&node.op).for_each(|symbol| _ = sizes.remove(symbol));
            let slim = slim(&node.op, &results).unwrap_or_else(|| Slim {
                op: node.op.clone(),
                operands: (0..node.inputs.len()).collect(),
                results: (0..node.outputs.len()).collect(),
            });
            slim.operands.iter().for_each(|operand| live[node.inputs[*operand].index()] = true);
            *slot = Some(slim);
        }
        (live, slims)
    }

    /// Which inputs these outputs need.
    fn used_inputs(&self, outputs: &[bool]) -> Vec<bool> {
        let (live, _) = self.slimmed(outputs);
        self.inputs.iter().map(|input| live[input.value.index()]).collect()
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

/// What is left of an op if only these results are needed. `None` if it stays as it is: a function with a derivative rule
/// does, for its rule is for all its results.
fn slim(op: &Op, results: &[bool]) -> Option<Slim> {
    match op {
        Op::Scan(scan) => slim_scan(scan, results),
        Op::Switch(switch) => slim_switch(switch, results),
        Op::While(op) => slim_while(op, results),
        _ => None,
    }
}

fn slim_scan(scan: &Scan, needed: &[bool]) -> Option<Slim> {
    if !needed.contains(&true) && scan.until.is_none() {
        // Needed for the size of its number of steps alone.
        let body = Arc::new(Graph::new(scan.body.name()));
        let op = Scan { body, sequences: vec![], buffers: vec![], carries: 0, invariants: 0, ..scan.clone() };
        return Some(Slim { op: op.into(), operands: scan.operands().steps.into_iter().collect(), results: vec![] });
    }
    let (layout, results, places) = (scan.params(), scan.results(), scan.operands());
    // A buffer or a carry is needed if its result is, or if a step that is needed reads it.
    let mut needed = needed.to_vec();
    let (outputs, used) = loop {
        let mut outputs = vec![false; results.count];
        for (written, needed) in results.buffers.iter().zip(&needed) {
            outputs[written.clone()].fill(*needed);
        }
        outputs[results.carries.clone()].copy_from_slice(&needed[scan.buffers.len()..]);
        results.until.iter().for_each(|until| outputs[*until] = true);
        let used = scan.body.used_inputs(&outputs);
        let mut more = needed.clone();
        for (reads, needed) in layout.buffers.iter().zip(&mut more) {
            *needed |= used[reads.clone()].contains(&true);
        }
        for (param, needed) in layout.carries.clone().zip(&mut more[scan.buffers.len()..]) {
            *needed |= used[param];
        }
        if more == needed {
            break (outputs, used);
        }
        needed = more;
    };
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
    op.body = Arc::new(scan.body.kept(&Keep { inputs, outputs })?);
    let results = (0..needed.len()).filter(|result| needed[*result]).collect();
    Some(Slim { op: op.into(), operands, results })
}

fn slim_switch(switch: &Switch, results: &[bool]) -> Option<Slim> {
    let mut operands = vec![0];
    let mut branches = Vec::with_capacity(switch.branches.len());
    for (branch, places) in switch.branches.iter().zip(switch.operands()) {
        let inputs = branch.used_inputs(results);
        operands.extend(places.zip(&inputs).filter(|(_, used)| **used).map(|(operand, _)| operand));
        branches.push(Arc::new(branch.kept(&Keep { inputs, outputs: results.to_vec() })?));
    }
    let results = (0..results.len()).filter(|result| results[*result]).collect();
    Some(Slim { op: Switch { branches }.into(), operands, results })
}

fn slim_while(op: &While, needed: &[bool]) -> Option<Slim> {
    let places = op.operands();
    let count = places.carries.len();
    let of_condition = op.condition.used_inputs(&[true]);
    let mut needed: Vec<bool> = needed.iter().zip(&of_condition).map(|(needed, used)| *needed || *used).collect();
    let of_body = loop {
        let used = op.body.used_inputs(&needed);
        let more: Vec<bool> = needed.iter().zip(&used).map(|(needed, used)| *needed || *used).collect();
        if more == needed {
            break used;
        }
        needed = more;
    };
    let kept = |range: Range<usize>, used: &[bool]| {
        range.zip(used.to_vec()).filter(|(_, used)| *used).map(|(operand, _)| operand).collect::<Vec<usize>>()
    };
    let carries = kept(places.carries, &needed);
    let captured = [kept(places.condition, &of_condition[count..]), kept(places.body, &of_body[count..])];
    let operands = [carries.as_slice(), &captured[0], &captured[1]].concat();
    let inputs = |used: &[bool]| [needed.as_slice(), &used[count..]].concat();
    let condition = op.condition.kept(&Keep { inputs: inputs(&of_condition), outputs: vec![true] })?;
    let body = op.body.kept(&Keep { inputs: inputs(&of_body), outputs: needed.clone() })?;
    let op = While { condition: Arc::new(condition), body: Arc::new(body), bound: op.bound.clone() };
    Some(Slim { op: op.into(), operands, results: carries })
}
