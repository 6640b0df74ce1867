//! Trims traces: if only the last rows of a trace are read, the trace keeps only those rows (scan-c7; PyTensor's
//! `scan_save_mem`).
//!
//! Precondition: every use of the trace is a slice that reads only the last `n` rows of the trace, for a constant `n`.
//! A trace that is an output of the graph counts as read in full. The trace is known to have at least as many rows as
//! the largest of these `n`. If the trace had fewer rows, the trimmed loop would fail with a different error than the
//! slice.

use super::*;

/// Trims all traces from which only the last rows are read. Returns the new graph, and the source line of the first
/// changed loop. Returns `None` if no trace can be trimmed.
pub(super) fn trim_traces(graph: &Graph) -> Option<(Graph, Site)> {
    let trimmable = trimmable(graph);
    let op = |_: usize, node: &Node| match &node.op {
        Op::Scan(scan) => {
            let mut scan = scan.clone();
            for (buffer, trace) in scan.buffers.iter_mut().zip(&node.outputs) {
                buffer.returned = trimmable.get(trace).map_or(buffer.returned, |count| Returned::Last(*count));
            }
            scan.into()
        }
        Op::Slice(slice) => match trimmable.get(&node.inputs[0]) {
            Some(count) => shift_slice(graph, node.inputs[0], slice, *count).into(),
            None => node.op.clone(),
        },
        op => op.clone(),
    };
    // Values are numbered in node order, so the first key belongs to the first loop.
    let first = graph.node_of(*trimmable.keys().next()?)?;
    Some((with_ops(graph, op)?, first.site))
}

/// Returns the traces that can be trimmed, each with the number of rows to keep.
fn trimmable(graph: &Graph) -> BTreeMap<ValueId, usize> {
    let mut last: BTreeMap<ValueId, Option<usize>> = BTreeMap::new();
    if !graph.nodes().iter().any(|node| matches!(node.op, Op::Scan(_))) {
        return BTreeMap::new();
    }
    for node in graph.live() {
        for input in &node.inputs {
            if let Some(scan) = loop_of(graph, *input) {
                let count = last_rows(graph, scan, *input, node);
                let most = last.entry(*input).or_insert(Some(0));
                *most = most.zip(count).map(|(most, count)| most.max(count));
            }
        }
    }
    graph.outputs().iter().for_each(|output| _ = last.remove(&output.value));
    let surely = |(value, count): (ValueId, Option<usize>)| {
        let (rows, count) = (&graph.ty(value).shape[0], count.filter(|count| *count > 0)?);
        let has_more = *rows != Dim::from(count) && rows.is_at_least(&Dim::from(count)) == Some(true);
        has_more.then_some((value, count))
    };
    last.into_iter().filter_map(surely).collect()
}

/// Returns the loop that computes a value, or `None` if the value does not hold all rows of a loop's buffer.
fn loop_of(graph: &Graph, value: ValueId) -> Option<&Scan> {
    let Source::Node(node, result) = graph.source(value) else { return None };
    let Op::Scan(scan) = &graph.node(node).op else { return None };
    scan.buffers.get(result).filter(|buffer| buffer.returned == Returned::All).map(|_| scan)
}

/// Returns the smallest `n` such that a slice of a trace reads only the last `n` rows that the loop writes. Returns
/// `None` if the op is not a contiguous slice along axis 0, if it can fail, or if `n` is not constant.
fn last_rows(graph: &Graph, scan: &Scan, trace: ValueId, node: &Node) -> Option<usize> {
    let Op::Slice(Slice { axis: 0, start, limit, step: 1 }) = &node.op else { return None };
    if !cannot_fail(graph, node, &Sizes::new()) {
        return None;
    }
    let rows = match scan.reverse {
        true => limit.clone(),
        false => graph.ty(trace).shape[0].clone() - start,
    };
    rows.constant().and_then(|rows| usize::try_from(rows).ok())
}

/// Converts a slice of the full trace to the equivalent slice of the trimmed trace.
fn shift_slice(graph: &Graph, trace: ValueId, slice: &Slice, count: usize) -> Slice {
    if loop_of(graph, trace).is_some_and(|scan| scan.reverse) {
        return slice.clone();
    }
    let left_out = graph.ty(trace).shape[0].clone() - count;
    Slice { start: slice.start.clone() - &left_out, limit: slice.limit.clone() - &left_out, ..slice.clone() }
}

/// Copies a graph, replacing the op of each node with the result of `op`.
fn with_ops(graph: &Graph, op: impl Fn(usize, &Node) -> Op) -> Option<Graph> {
    let mut copy = GraphCopy::with_inputs_of(graph);
    graph.nodes().iter().enumerate().try_for_each(|(index, node)| copy.node(node, op(index, node)))?;
    copy.finish()
}
