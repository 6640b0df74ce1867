//! Turns associative scans, and cumulative reductions of floats and booleans, into loops for backends that compile
//! loops. Cumulative reductions of integers are kept, because compiled code has a kernel for them.

use std::borrow::Cow;
use std::sync::Arc;

use funcify_core::Value;
use funcify_core::error::{Result, Site};
use funcify_core::graph::{Failed, Graph, Input, Node, Replay, at_site, emit, tracer};
use funcify_core::ops::{Along, Control, Op, OpClass};
use funcify_core::tree::Named;
use funcify_core::types::Sizes;

/// Replaces associative scans, and cumulative reductions of floats and booleans, with loops. Replaces those that have
/// zero elements at the given sizes with their operands. Keeps those of unknown sizes.
pub(crate) fn with_loops<'g>(graph: &'g Graph, sizes: &Sizes) -> Result<Cow<'g, Graph>> {
    if !has_scans(graph) {
        return Ok(Cow::Borrowed(graph));
    }
    let with_loop_bodies = |op: &Op| -> Result<Op> {
        let body = |body: &Arc<Graph>| Ok(Arc::new(with_loops(body, sizes)?.into_owned()));
        if op.bodies().into_iter().any(|body| has_scans(body)) {
            return Ok(op.with_bodies(op.bodies().into_iter().map(body).collect::<Result<_>>()?));
        }
        Ok(op.clone())
    };
    let ops = graph.nodes().iter().map(|node| with_loop_bodies(&node.op)).collect::<Result<Vec<Op>>>()?;
    let built = tracer::rebuild(graph, Site::Unknown, |_| {
        tracer::reserve_symbols(graph);
        // Rename the inputs: the parameters of a body may have duplicate names, but the tracer requires unique input
        // names.
        let input = |(index, input): (usize, &Input)| {
            tracer::input(&format!("x{index}"), graph.input_type(index).clone(), input.is_static, Site::Unknown)
        };
        let inputs: Vec<Value> = graph.inputs().iter().enumerate().map(input).collect();
        let replayed = Replay::new(graph, inputs).walk_live(|index, node, operands| {
            at_site(node.site, || match &ops[index] {
                Op::AssociativeScan(op) => match count(graph, node, 0, sizes) {
                    Some(0) => Ok(operands[..op.leaves].to_vec()),
                    Some(_) => op.emit_loop(&operands),
                    None => emit(op.clone(), &operands),
                },
                Op::Cumulative(op) if !is_of_integers(graph, node) => match count(graph, node, op.axis, sizes) {
                    Some(0) => Ok(vec![operands[0]]),
                    Some(_) => op.emit_loop(operands[0]),
                    None => emit(*op, &operands),
                },
                op => emit(op.clone(), &operands),
            })
        })?;
        Ok::<_, Failed>(Named(graph.named_outputs(replayed.outputs()?)))
    })?;
    Ok(Cow::Owned(built.pruned()))
}

/// Returns `true` if a graph, or a body in it, has an associative scan or a cumulative reduction to turn into a loop.
fn has_scans(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| {
        let is_scan = match node.op.class() {
            OpClass::Control(Control::AssociativeScan(_)) => true,
            OpClass::Along(Along::Cumulative(_)) => !is_of_integers(graph, node),
            OpClass::Control(_) | OpClass::Along(_) | OpClass::Elementwise(_) | OpClass::Movement(_) => false,
            OpClass::Creation(_) | OpClass::Indexing(_) | OpClass::Product(_) => false,
            OpClass::RandomBits(_) | OpClass::Binding(_) | OpClass::Custom(_) => false,
        };
        is_scan || node.op.bodies().into_iter().any(|body| has_scans(body))
    })
}

fn is_of_integers(graph: &Graph, node: &Node) -> bool {
    graph.ty(node.inputs[0]).dtype.is_int()
}

/// Returns the number of elements of a node's first operand along an axis, or `None` if it is not known.
fn count(graph: &Graph, node: &Node, axis: usize, sizes: &Sizes) -> Option<usize> {
    usize::try_from(graph.ty(node.inputs[0]).shape[axis].value(sizes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::{has_scans, with_loops};
    use funcify_core::graph::failing;
    use funcify_core::ops::{Op, ReduceKind};
    use funcify_core::types::{Sizes, Symbol};
    use funcify_core::{Graph, HostTensor, Value, associative_scan, cond, evaluate, scan, switch, while_loop};

    /// Checks that cumulative reductions along any axis and in both directions become loops.
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
                let loops = with_loops(&graph, &sizes).unwrap();
                let left = loops.nodes().iter().filter(|node| matches!(node.op, Op::Cumulative(_))).count();
                assert_eq!(left, 0, "{loops}");
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

    /// Builds a graph with a cumulative reduction in every kind of body: the branches of switches, the condition and
    /// the step of a while loop, the step of a scan, and a branch inside that step. The reductions apply to parameters
    /// as well as to captures.
    fn in_bodies(ty: &str, kind: ReduceKind) -> Graph {
        let running = move |x: Value| x.cumulative(kind, 0, kind == ReduceKind::Min);
        let built = Graph::build("bodies", |g| {
            let (x, n, p) = (g.input("x", format!("{ty}[3]").as_str()), g.input("n", "i64[]"), g.input("p", "bool[]"));
            let chosen = cond(p, || running(x), || x);
            let switched = switch(n, [&|| running(chosen), &|| running(running(x)), &|| chosen + x]);
            let goes_on = |(c, k): (Value, Value)| k.lt(2) & running(c).max(0).lt(1e3);
            let (looped, _) = while_loop((switched, n.zeros_like()), goes_on, |(c, k)| (running(c), k + 1));
            let (last, rows) = scan(looped, x, |c, _| (cond(p, || running(c), || c), running(c)));
            (chosen, switched, looped, last, rows)
        });
        built.unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_running_reduction_in_a_body_is_a_loop() {
        for ty in ["f16", "bf16", "f32", "f64"] {
            for kind in [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min] {
                let graph = in_bodies(ty, kind);
                let loops = with_loops(&graph, &Sizes::new()).unwrap_or_else(|error| panic!("{ty}: {error}"));
                assert!(!has_scans(&loops), "{loops}");
                assert!(loops.check().is_ok() && Graph::parse(&loops.to_string()).is_ok(), "{loops}");
                for (n, p) in [(0i64, false), (1, true), (2, true)] {
                    let x = HostTensor::from([1f64, 3.0, -2.0]).cast(graph.input_type(0).dtype);
                    let inputs = [x, HostTensor::scalar(n), HostTensor::scalar(p)];
                    assert_eq!(evaluate(&loops, &inputs).unwrap(), evaluate(&graph, &inputs).unwrap(), "{ty}: {loops}");
                }
            }
        }
    }

    /// Checks that a failure to build an op of an inserted loop causes an error instead of a panic.
    #[test]
    fn an_op_that_fails_in_a_loop_is_an_error() {
        for ty in ["f16", "f32"] {
            let graph = in_bodies(ty, ReduceKind::Sum);
            failing::check_each_op_failing(|| with_loops(&graph, &Sizes::new()).map(|loops| loops.into_owned()));
        }
        let graph = Graph::build("associative", |g| {
            associative_scan((g.input("a", "f32[3]"), g.input("b", "f32[3]")), |(a, b), (c, d)| (a * c, b * c + d))
        });
        let graph = graph.unwrap();
        failing::check_each_op_failing(|| with_loops(&graph, &Sizes::new()).map(|loops| loops.into_owned()));
    }
}
