//! Associative scans and running reductions as loops, for backends that compile loops.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Result, Site};
use crate::graph::{Failed, Graph, Input, Node, Replay, at_site, emit, tracer};
use crate::ops::Op;
use crate::tree::Named;
use crate::types::Sizes;
use crate::value::Value;

/// A program with loops in the place of associative scans and running reductions, but for those without elements at these
/// sizes.
pub(super) fn stepwise<'g>(graph: &'g Graph, sizes: &Sizes) -> Result<Cow<'g, Graph>> {
    if !has_scans(graph) {
        return Ok(Cow::Borrowed(graph));
    }
    let with_loops = |op: &Op| -> Result<Op> {
        let body = |body: &Arc<Graph>| Ok(Arc::new(stepwise(body, sizes)?.into_owned()));
        if op.bodies().into_iter().any(|body| has_scans(body)) {
            return Ok(op.with_bodies(op.bodies().into_iter().map(body).collect::<Result<_>>()?));
        }
        Ok(op.clone())
    };
    let ops = graph.nodes().iter().map(|node| with_loops(&node.op)).collect::<Result<Vec<Op>>>()?;
    let built = tracer::build(graph.name(), Site::Unknown, |_| {
        tracer::reserve_symbols(graph);
        // A body may have two parameters of one name.
        let input = |(index, input): (usize, &Input)| {
            tracer::input(&format!("x{index}"), graph.input_type(index).clone(), input.is_static, Site::Unknown)
        };
        let inputs: Vec<Value> = graph.inputs().iter().enumerate().map(input).collect();
        let replayed = Replay::new(graph, inputs).live(|index, node, operands| {
            at_site(node.site, || match &ops[index] {
                Op::AssociativeScan(op) if has_elements(graph, node, 0, sizes) => op.emit_loop(&operands),
                Op::Cumulative(op) if has_elements(graph, node, op.axis, sizes) => op.emit_loop(operands[0]),
                op => emit(op.clone(), &operands),
            })
        })?;
        Ok::<_, Failed>(Named(graph.named_outputs(replayed.outputs()?)))
    })?;
    Ok(Cow::Owned(built.pruned()))
}

/// Whether a graph or a body in it has an associative scan or a running reduction.
fn has_scans(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| {
        let is_scan = matches!(node.op, Op::AssociativeScan(_) | Op::Cumulative(_));
        is_scan || node.op.bodies().into_iter().any(|body| has_scans(body))
    })
}

fn has_elements(graph: &Graph, node: &Node, axis: usize, sizes: &Sizes) -> bool {
    graph.ty(node.inputs[0]).shape[axis].value(sizes).is_ok_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::stepwise;
    use crate::ops::{Op, ReduceKind};
    use crate::types::{Sizes, Symbol};
    use crate::{Graph, HostTensor, evaluate};

    /// Running reductions become loops, of any axis and in both directions; one of nothing stays.
    #[test]
    fn a_running_reduction_is_a_loop() {
        for kind in
            [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min, ReduceKind::Any, ReduceKind::All]
        {
            let graph = Graph::build("running", |g| {
                let x = g.input(
                    "x",
                    if matches!(kind, ReduceKind::Any | ReduceKind::All) { "bool[2,T]" } else { "f32[2,T]" },
                );
                (x.cumulative(kind, 1, false), x.cumulative(kind, 0, true), x.cumulative(kind, 1, true))
            })
            .unwrap();
            for count in [0usize, 1, 3] {
                let mut sizes = Sizes::new();
                sizes.set(&Symbol::new("T"), count);
                let loops = stepwise(&graph, &sizes).unwrap();
                let left = loops.nodes().iter().filter(|node| matches!(node.op, Op::Cumulative(_))).count();
                assert_eq!(left, if count == 0 { 2 } else { 0 }, "{loops}");
                let numbers = [3f32, -1.0, 0.5, 2.0, 0.0, 4.0][..2 * count].to_vec();
                let x = HostTensor::from_vec(numbers, [2, count]).unwrap().cast(graph.input_type(0).dtype);
                assert_eq!(
                    evaluate(&loops, std::slice::from_ref(&x)).unwrap(),
                    evaluate(&graph, &[x]).unwrap(),
                    "{loops}"
                );
            }
        }
    }
}
