//! Tests the amount of work that rewriting does, and the results of a few rules.

use funcify_core::graph::work;
use funcify_core::{CheckpointPolicy, GradOptions, Graph, HostTensor, ScanOptions, Value, evaluate, scan, scan_with};
use funcify_nn::S5;

use super::{Rewrite, RewriteOptions};

/// Builds a chain of ops that the rules for single ops rewrite.
fn chain(length: usize) -> Graph {
    let graph = Graph::build("chain", |g| {
        let mut x = g.input("x", "f32[4,4]");
        for step in 0..length {
            x = (x.t().t() * 1.0 + x.sin() + x.sin()) * (step % 7 + 2) as f64;
        }
        x
    });
    graph.unwrap()
}

/// Builds the gradient of `count` loops, each of which reads the trace of the previous one.
fn loops(count: usize) -> Graph {
    let graph = Graph::build("loops", |g| {
        let (mut xs, w, u) = (g.input("xs", "f32[T,B,4]"), g.input("w", "f32[4,4]"), g.input("u", "f32[4,4]"));
        for _ in 0..count {
            xs = scan(xs.slice(0, 0..1).reshape(xs.index(0, 0).shape()), xs, |h, x| {
                let h = (x.matmul(w) + h.matmul(u)).tanh();
                (h, h)
            })
            .1;
        }
        xs.sum(..)
    });
    graph.unwrap().grad(["w", "u"], GradOptions::new().policy(CheckpointPolicy::SaveAll)).unwrap()
}

/// Checks that the amount of work is roughly linear in the length of the program.
#[test]
fn the_work_grows_with_the_program() {
    for (name, make) in [("chain", chain as fn(usize) -> Graph), ("loops", loops)] {
        let sizes = if name == "chain" { [250, 1000] } else { [4, 16] };
        let works = sizes.map(|size| {
            let graph = make(size);
            let (rewritten, work) = work::measure(|| graph.rewritten());
            assert!(graph.difference(&rewritten).is_some(), "{name}");
            work
        });
        assert!(works[1] <= works[0] * 5, "{name}: {works:?}");
    }
}

/// Checks that the gradient of each weight of a network is a single product outside of the loops.
#[test]
fn a_weight_gradient_is_one_product() {
    let graph = loops(1).rewritten();
    let in_loops = |op: &funcify_core::ops::Op| op.bodies().iter().map(|body| products(body)).sum::<usize>();
    fn products(graph: &Graph) -> usize {
        graph.nodes().iter().filter(|node| matches!(node.op, funcify_core::ops::Op::MatMul(_))).count()
    }
    let inside: usize = graph.nodes().iter().map(|node| in_loops(&node.op)).sum();
    assert_eq!((products(&graph), inside), (3, 2), "{graph}");
}

/// Checks that the gradient with respect to the coefficients of a filter is summed as scalars in the loop and padded
/// only after the loop.
#[test]
fn the_gradient_of_coefficients_is_padded_after_the_loop() {
    use funcify_core::ops::Op;

    let graph = Graph::build("filter", |g| {
        let (w, start, xs) = (g.input("w", "f64[3]"), g.input("start", "f64[]"), g.input("xs", "f64[T]"));
        let ys = scan((start, start), xs, |(y, before), x| {
            let next = w.index(0, 0) * x + w.index(0, 1) * y + w.index(0, 2) * before;
            ((next, y), next)
        });
        ys.1.square().sum(..)
    });
    let gradient = graph.unwrap().grad("w", GradOptions::new()).unwrap();
    let pads_in_loops = |graph: &Graph| {
        let bodies = graph.nodes().iter().flat_map(|node| node.op.bodies());
        bodies.flat_map(|body| body.nodes()).filter(|node| matches!(node.op, Op::Pad(_))).count()
    };
    let rewritten = gradient.rewritten_with(&RewriteOptions::new()).unwrap();
    assert_eq!((pads_in_loops(&gradient), pads_in_loops(&rewritten.graph)), (3, 0), "{}", rewritten.graph);
    assert!(rewritten.counts().contains_key("padded_sums"));
    for steps in [0, 1, 7] {
        let xs = HostTensor::from_fn(funcify_core::DType::F64, &[steps], |index| {
            funcify_core::Scalar::Float((index[0] as f64 * 0.7).sin())
        });
        let inputs = [HostTensor::from([0.5, 0.25, -0.125]), HostTensor::scalar(0.5), xs];
        let [before, after] = [&gradient, &rewritten.graph].map(|graph| evaluate(graph, &inputs).unwrap().remove(0));
        for (before, after) in before.scalars().zip(after.scalars()) {
            let (before, after) = (before.as_f64(), after.as_f64());
            assert!((before - after).abs() <= 1e-14 * before.abs(), "{steps} steps: {before} and {after}");
        }
    }
}

/// Checks that `cumulative` replaces loops that compute running minima or maxima, and loops that compute running sums
/// or products of integers. The results must stay the same in both directions and for any number of steps.
#[test]
fn running_extremes_and_integers_are_exact() {
    let floats = [1.0, -2.0, f64::INFINITY, 0.5, f64::NAN, 7.0, f64::NEG_INFINITY];
    let integers = [7i32, -3, i32::MAX, 1 << 30, -1, i32::MIN, 5];
    type Combine = fn(Value, Value) -> Value;
    let combinations: [(&str, Combine); 6] = [
        ("f64", |c, x| c.maximum(x)),
        ("f64", |c, x| x.minimum(c)),
        ("i32", |c, x| c + x),
        ("i32", |c, x| x * c),
        ("i32", |c, x| c.maximum(x)),
        ("i32", |c, x| c.minimum(x)),
    ];
    for (number, (dtype, combine)) in combinations.into_iter().enumerate() {
        for options in [ScanOptions::new(), ScanOptions::new().reverse()] {
            let graph = Graph::build("running", |g| {
                let (init, xs) = (g.input("init", &*format!("{dtype}[]")), g.input("xs", &*format!("{dtype}[T]")));
                scan_with(options, init, xs, |c, x| {
                    let next = combine(c, x);
                    (next, (c, next))
                })
            })
            .unwrap();
            let rewritten = graph.rewritten();
            let is_loop = rewritten.nodes().iter().any(|node| matches!(node.op, funcify_core::ops::Op::Scan(_)));
            assert!(!is_loop, "{number}: {rewritten}");
            for count in [0, 1, floats.len()] {
                let inputs = match dtype {
                    "f64" => {
                        [HostTensor::scalar(0.25), HostTensor::from_vec(floats[..count].to_vec(), [count]).unwrap()]
                    }
                    _ => [HostTensor::scalar(3i32), HostTensor::from_vec(integers[..count].to_vec(), [count]).unwrap()],
                };
                let shown = |graph: &Graph| format!("{:?}", evaluate(graph, &inputs).unwrap());
                assert_eq!(shown(&graph), shown(&rewritten), "{number}, {count} rows");
            }
        }
    }
}

/// Checks that, on request, the loop of a state space layer with a complex state and the loops of its gradient become
/// associative scans.
#[test]
fn a_state_space_layer_is_an_associative_scan() {
    let scans =
        |graph: &Graph| graph.nodes().iter().filter(|node| matches!(node.op, funcify_core::ops::Op::Scan(_))).count();
    let graph = S5 { associative: false, ..S5::new(3, 4) }.layer().unwrap().graph;
    let gradient = graph.vjp(.., GradOptions::new()).unwrap();
    for graph in [graph, gradient] {
        let rewritten = graph.rewritten_with(&RewriteOptions::new().with("affine_recurrence")).unwrap().graph;
        assert_eq!(scans(&rewritten), 0, "{rewritten}");
        assert!(scans(&graph.rewritten()) > 0);
    }
}
