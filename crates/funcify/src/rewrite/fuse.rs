//! Two loops of the same steps are one (PyTensor's `scan_merge`; XLA's multi-output fusion of loops).
//!
//! - A loop that reads a trace of another row by row reads the value of the step itself, so the trace is no tensor any more, unless
//!   something else uses it.
//! - Loops that do not depend on each other and read a sequence in common read its rows once.
//!
//! Precondition: both run all their steps, equally many in the same direction, and are certain, as their ops run in another order
//! then; neither is truncated, says what a forward pass keeps, or binds sizes; the second depends on the first through rows of the
//! same step alone. It is tried where no other rule has anything to say: work that leaves a loop, as a product of all rows of the
//! trace does, has left it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::Site;
use crate::graph::{Copied, Copy, Graph, Node, Source, ValueId, is_certain, uses_any};
use crate::ops::Op;
use crate::ops::scan::{Scan, Start, Wanted};
use crate::types::{Sizes, Symbol};

/// Two loops that are to be one.
struct Pair {
    first: usize,
    second: usize,
    /// The nodes between that depend on the first, which come after both.
    waiting: Vec<usize>,
}

/// The graph with loops in pairs as one, and the line of the first; `None` if no two are.
pub(super) fn fused(graph: &Graph) -> Option<(Graph, Site)> {
    let pairs = pairs(graph);
    let nodes = graph.nodes();
    let site = nodes[pairs.first()?.second].site;
    let mut copy = Copy::of(graph);
    let mut next = 0;
    for pair in pairs {
        let is_waiting = |index: &usize| *index == pair.first || pair.waiting.binary_search(index).is_ok();
        for index in (next..pair.second).filter(|index| !is_waiting(index)) {
            copy.node(&nodes[index], nodes[index].op.clone())?;
        }
        place(&mut copy, graph, pair.first, pair.second)?;
        pair.waiting.iter().try_for_each(|index| copy.node(&nodes[*index], nodes[*index].op.clone()))?;
        next = pair.second + 1;
    }
    nodes[next..].iter().try_for_each(|node| copy.node(node, node.op.clone()))?;
    Some((copy.finished()?, site))
}

/// The loops that are to be one: no pair begins before the one before it has ended.
fn pairs(graph: &Graph) -> Vec<Pair> {
    if graph.nodes().iter().filter(|node| matches!(node.op, Op::Scan(_))).count() < 2 {
        return Vec::new();
    }
    let live = graph.live_nodes();
    let mut pairs: Vec<Pair> = Vec::new();
    // The last loop that reads a sequence.
    let mut readers: HashMap<ValueId, usize> = HashMap::new();
    for (second, node) in graph.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
        let Some(scan) = fusible(graph, node) else { continue };
        let sequences = || scan.operands().sequences.map(|operand| node.inputs[operand]);
        let before = sequences().filter_map(|value| match graph.source(value) {
            Source::Node(node, _) if live[node.index()] => Some(node.index()),
            _ => None,
        });
        let free = pairs.last().map_or(0, |pair| pair.second + 1);
        let candidates = before.chain(sequences().filter_map(|value| readers.get(&value).copied()));
        pairs.extend(candidates.filter(|first| *first >= free).find_map(|first| pair(graph, first, second)));
        readers.extend(sequences().map(|value| (value, second)));
    }
    pairs
}

/// The loop of a node, if it may be one with another.
fn fusible<'g>(graph: &Graph, node: &'g Node) -> Option<&'g Scan> {
    let Op::Scan(scan) = &node.op else { return None };
    let is_whole = scan.until.is_none() && scan.truncate.is_none() && scan.policy.is_none() && !scan.steps_operand;
    (is_whole && !scan.body.binds_any() && is_certain(graph, node, &Sizes::new())).then_some(scan)
}

/// Two loops, if they run the same steps, and the second depends on the first through rows of traces alone.
fn pair(graph: &Graph, first: usize, second: usize) -> Option<Pair> {
    let nodes = graph.nodes();
    let (a, b) = (fusible(graph, &nodes[first])?, fusible(graph, &nodes[second])?);
    if a.steps != b.steps || a.reverse != b.reverse {
        return None;
    }
    let mut depends: HashSet<ValueId> = nodes[first].outputs.iter().copied().collect();
    // A size that a loop binds is a result, too.
    let mut sizes: Vec<&Symbol> = Vec::new();
    let mut waiting = Vec::new();
    for (index, node) in nodes.iter().enumerate().take(second).skip(first + 1) {
        if node.inputs.iter().any(|input| depends.contains(input)) || uses_any(graph, node, &sizes) {
            waiting.push(index);
            depends.extend(&node.outputs);
            sizes.extend(node.op.binds());
        }
    }
    let rows = rows_of(graph, first, &nodes[second], b);
    let sequences = b.operands().sequences;
    let is_row = |operand: usize| sequences.contains(&operand) && rows[operand - sequences.start].is_some();
    let mut operands = nodes[second].inputs.iter().enumerate();
    let is_so = !uses_any(graph, &nodes[second], &sizes)
        && operands.all(|(operand, value)| !depends.contains(value) || is_row(operand));
    is_so.then_some(Pair { first, second, waiting })
}

/// For each sequence of a loop the trace of the first one that it reads row by row, if it does.
fn rows_of(graph: &Graph, first: usize, node: &Node, scan: &Scan) -> Vec<Option<usize>> {
    let Op::Scan(of) = &graph.nodes()[first].op else { return Vec::new() };
    let trace = |value: ValueId| match graph.source(value) {
        Source::Node(node, result) if node.index() == first => Some(result),
        _ => None,
    };
    let is_trace = |number: &usize| {
        of.buffers.get(*number).is_some_and(|buffer| buffer.start == Start::Empty && buffer.wanted == Wanted::All)
    };
    // It has a row a step, so a step reads none but its own.
    scan.operands().sequences.map(|operand| trace(node.inputs[operand]).filter(is_trace)).collect()
}

/// One of two loops, whose body becomes a part of another.
struct Half<'a> {
    scan: &'a Scan,
    node: &'a Node,
    /// What the values of its body are.
    values: Copied<'a>,
}

impl<'a> Half<'a> {
    fn of(node: &'a Node) -> Option<Self> {
        let Op::Scan(scan) = &node.op else { return None };
        Some(Half { scan, node, values: Copied::new(&scan.body) })
    }

    /// Makes a parameter of the body one of another body.
    fn param(&mut self, body: &mut Graph, param: usize) {
        self.values.input(body, self.scan.body.inputs()[param].value, "x");
    }

    /// Adds the nodes to another body.
    fn nodes(&mut self, body: &mut Graph) -> Option<()> {
        self.scan.body.nodes().iter().try_for_each(|node| self.values.node(body, node, node.op.clone()))
    }

    fn result(&self, result: usize) -> Option<ValueId> {
        self.values.get(self.scan.body.outputs()[result].value)
    }
}

/// Adds both loops as one.
fn place(copy: &mut Copy<'_>, graph: &Graph, first: usize, second: usize) -> Option<()> {
    let (mut a, mut b) = (Half::of(&graph.nodes()[first])?, Half::of(&graph.nodes()[second])?);
    let rows = rows_of(graph, first, b.node, b.scan);
    let mut body = Graph::new(a.scan.body.name());
    let (mut operands, mut sequences, mut buffers) = (Vec::new(), Vec::new(), Vec::new());
    for (half, rows) in [(&mut a, &[][..]), (&mut b, &rows)] {
        let params = half.scan.params().sequences;
        for (number, operand) in half.scan.operands().sequences.enumerate() {
            if rows.get(number).copied().flatten().is_none() {
                params[number].clone().for_each(|param| half.param(&mut body, param));
                operands.push(half.node.inputs[operand]);
                sequences.push(half.scan.sequences[number].clone());
            }
        }
    }
    for half in [&mut a, &mut b] {
        half.scan.params().buffers.into_iter().flatten().for_each(|param| half.param(&mut body, param));
        operands.extend(half.scan.operands().buffers.into_iter().flatten().map(|operand| half.node.inputs[operand]));
        buffers.extend(half.scan.buffers.iter().cloned());
    }
    for part in [
        |scan: &Scan| (scan.params().carries, scan.operands().carries),
        |scan: &Scan| (scan.params().invariants, scan.operands().invariants),
    ] {
        for half in [&mut a, &mut b] {
            let (params, places) = part(half.scan);
            params.for_each(|param| half.param(&mut body, param));
            operands.extend_from_slice(&half.node.inputs[places]);
        }
    }
    a.nodes(&mut body)?;
    for (params, trace) in b.scan.params().sequences.into_iter().zip(rows) {
        if let Some(trace) = trace {
            let row = a.result(a.scan.results().buffers[trace].start)?;
            params.for_each(|param| b.values.set(b.scan.body.inputs()[param].value, row));
        }
    }
    b.nodes(&mut body)?;
    let written = |half: &Half<'_>| half.scan.results().buffers.into_iter().flatten();
    let results: Vec<ValueId> = written(&a)
        .map(|result| a.result(result))
        .chain(written(&b).map(|result| b.result(result)))
        .chain(a.scan.results().carries.map(|result| a.result(result)))
        .chain(b.scan.results().carries.map(|result| b.result(result)))
        .collect::<Option<_>>()?;
    results.iter().enumerate().for_each(|(index, result)| body.push_output(&format!("r{index}"), *result));
    let scan = Scan {
        body: Arc::new(body),
        sequences,
        buffers,
        carries: a.scan.carries + b.scan.carries,
        invariants: a.scan.invariants + b.scan.invariants,
        unroll: a.scan.unroll.max(b.scan.unroll),
        ..a.scan.clone()
    };
    let operands: Vec<ValueId> = operands.into_iter().map(|operand| copy.get(operand)).collect::<Option<_>>()?;
    let ids = copy.graph.push_node(scan.into(), &operands, b.node.site).ok()?;
    let [of_a, of_b] = [&a, &b].map(|half| half.node.outputs.split_at(half.scan.buffers.len()));
    let values = [of_a.0, of_b.0, of_a.1, of_b.1].concat();
    values.into_iter().zip(ids).for_each(|(value, id)| copy.set(value, id));
    Some(())
}
