//! Merges two loops that have the same number of steps and the same direction (PyTensor's `scan_merge`; XLA's
//! multi-output fusion of loops).
//!
//! - If a loop reads a trace of another loop row by row, a step of the merged loop uses the row that it has just
//!   computed. The trace is then stored only if another op uses it.
//! - If two independent loops read the same sequence, the merged loop reads its rows only once.
//!
//! Precondition: both loops run all their steps. Neither may be able to fail, because merging changes the order of
//! their ops. Neither loop is truncated, has a checkpoint policy or binds sizes. The second loop may depend on the
//! first one only through rows of the same step. This rule runs after all others. By then, all work that can be moved
//! out of a loop, such as a product of all rows of a trace, has been moved.

use std::collections::HashSet;

use funcify_core::graph::ValueMap;

use super::loops::{BufferPart, CarryPart, Loop, SequencePart, traces};
use super::*;

/// Two loops to merge, given as node indices.
struct Pair {
    first: usize,
    second: usize,
    /// The nodes between the two loops that depend on the first loop. These nodes are placed after the merged loop.
    waiting: Vec<usize>,
}

/// Merges pairs of loops. Returns the new graph, and the source line of the first merged loop, or `None` if no loops
/// can be merged.
pub(super) fn fuse_loops(graph: &Graph) -> Option<(Graph, Site)> {
    let pairs = pairs(graph);
    let nodes = graph.nodes();
    let site = nodes[pairs.first()?.second].site;
    let mut copy = GraphCopy::with_inputs_of(graph);
    let mut next = 0;
    for pair in pairs {
        let is_waiting = |index: &usize| *index == pair.first || pair.waiting.binary_search(index).is_ok();
        for index in (next..pair.second).filter(|index| !is_waiting(index)) {
            copy.node(&nodes[index], nodes[index].op.clone())?;
        }
        add_merged(&mut copy, graph, pair.first, pair.second)?;
        pair.waiting.iter().try_for_each(|index| copy.node(&nodes[*index], nodes[*index].op.clone()))?;
        next = pair.second + 1;
    }
    nodes[next..].iter().try_for_each(|node| copy.node(node, node.op.clone()))?;
    Some((copy.finish()?, site))
}

/// Returns the pairs of loops to merge, in order. The pairs do not overlap.
fn pairs(graph: &Graph) -> Vec<Pair> {
    if graph.nodes().iter().filter(|node| matches!(node.op, Op::Scan(_))).count() < 2 {
        return Vec::new();
    }
    let live = graph.live_nodes();
    let mut pairs: Vec<Pair> = Vec::new();
    // Maps each sequence to the last loop found so far that reads it.
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
        // Try a loop only once, even if several sequences make it a candidate.
        let mut tried = HashSet::new();
        let mut partners = candidates.filter(|first| *first >= free && tried.insert(*first));
        pairs.extend(partners.find_map(|first| pair(graph, first, second)));
        readers.extend(sequences().map(|value| (value, second)));
    }
    pairs
}

/// Returns the scan of a node, or `None` if the node is not a loop that may be merged with another one.
fn fusible<'g>(graph: &Graph, node: &'g Node) -> Option<&'g Scan> {
    let Op::Scan(scan) = &node.op else { return None };
    let is_whole = scan.until.is_none() && scan.truncate.is_none() && scan.policy.is_none() && !scan.steps_operand;
    (is_whole && !scan.body.binds_any() && cannot_fail(graph, node, &Sizes::new())).then_some(scan)
}

/// Returns the two loops as a pair, or `None` if they cannot be merged. Two loops can be merged if they have the same
/// number of steps and the same direction, and if the second loop depends on the first one only through rows of traces.
fn pair(graph: &Graph, first: usize, second: usize) -> Option<Pair> {
    let nodes = graph.nodes();
    let (a, b) = (fusible(graph, &nodes[first])?, fusible(graph, &nodes[second])?);
    if a.steps != b.steps || a.reverse != b.reverse {
        return None;
    }
    let mut depends: HashSet<ValueId> = nodes[first].outputs.iter().copied().collect();
    // The sizes bound by nodes in `waiting`. A node that uses one of them also depends on the first loop.
    let mut sizes: Vec<&Symbol> = Vec::new();
    let mut waiting = Vec::new();
    for (index, node) in nodes.iter().enumerate().take(second).skip(first + 1) {
        if node.inputs.iter().any(|input| depends.contains(input)) || uses_any(graph, node, &sizes) {
            waiting.push(index);
            depends.extend(&node.outputs);
            sizes.extend(node.op.binds());
        }
    }
    let rows = rows_of(&nodes[first], &nodes[second]);
    let sequences = b.operands().sequences;
    let is_row = |operand: usize| sequences.contains(&operand) && rows[operand - sequences.start].is_some();
    let mut operands = nodes[second].inputs.iter().enumerate();
    let is_so = !uses_any(graph, &nodes[second], &sizes)
        && operands.all(|(operand, value)| !depends.contains(value) || is_row(operand));
    is_so.then_some(Pair { first, second, waiting })
}

/// Returns an entry for each sequence of the second loop. If the sequence is a trace of the first loop, the entry is
/// the value that the first body writes to the trace; otherwise it is `None`.
fn rows_of(first: &Node, second: &Node) -> Vec<Option<ValueId>> {
    let (Op::Scan(of), Op::Scan(scan)) = (&first.op, &second.op) else { return Vec::new() };
    // A trace has exactly one row per step. The second loop can therefore only read the row of the current step.
    let written: HashMap<ValueId, ValueId> =
        traces(of).map(|(trace, written)| (first.outputs[trace], written)).collect();
    scan.operands().sequences.map(|operand| written.get(&second.inputs[operand]).copied()).collect()
}

/// Adds the merged loop to the copy of the graph.
fn add_merged(copy: &mut GraphCopy<'_>, graph: &Graph, first: usize, second: usize) -> Option<()> {
    let (a, b) = (&graph.nodes()[first], &graph.nodes()[second]);
    let (Op::Scan(of_a), Op::Scan(of_b)) = (&a.op, &b.op) else { return None };
    let (mut both, other) = (Loop::of(of_a, &a.inputs), Loop::of(of_b, &b.inputs));
    // Append the second body to the first. If the second body reads a row of a trace of the first loop, use the value
    // that the first body writes to that row.
    let mut copied = ValueMap::new(&other.body);
    let rows = rows_of(a, b);
    for (part, row) in other.sequences.iter().zip(&rows).filter_map(|(part, row)| Some((part, (*row)?))) {
        part.reads.iter().for_each(|(_, param)| copied.set(*param, row));
    }
    for input in other.body.inputs() {
        if copied.get(input.value).is_none() {
            copied.input(&mut both.body, input.value, "x");
        }
    }
    other.body.nodes().iter().try_for_each(|node| copied.node(&mut both.body, node, node.op.clone()))?;
    let copies = |values: &[ValueId]| values.iter().map(|value| copied.get(*value)).collect::<Option<Vec<_>>>();
    for (part, _) in other.sequences.into_iter().zip(rows).filter(|(_, row)| row.is_none()) {
        let reads = part.reads.iter().map(|(offset, param)| Some((*offset, copied.get(*param)?)));
        both.sequences.push(SequencePart { reads: reads.collect::<Option<_>>()?, ..part });
    }
    for part in other.buffers {
        let (reads, written) = (copies(&part.reads)?, copies(&part.written)?);
        both.buffers.push(BufferPart { reads, written, ..part });
    }
    for part in other.carries {
        both.carries.push(CarryPart { param: copied.get(part.param)?, next: copied.get(part.next)?, ..part });
    }
    for (value, param) in other.invariants {
        both.invariants.push((value, copied.get(param)?));
    }
    both.scan.unroll = of_a.unroll.max(of_b.unroll);
    let (scan, operands) = both.assemble()?;
    let operands: Vec<ValueId> = operands.into_iter().map(|operand| copy.get(operand)).collect::<Option<_>>()?;
    let ids = copy.graph.push_node(scan.into(), &operands, b.site).ok()?;
    let (buffers_a, carries_a) = a.outputs.split_at(of_a.buffers.len());
    let (buffers_b, carries_b) = b.outputs.split_at(of_b.buffers.len());
    let values = [buffers_a, buffers_b, carries_a, carries_b].concat();
    values.into_iter().zip(ids).for_each(|(value, id)| copy.set(value, id));
    Some(())
}
