//! How much work rewriting is, and that a rule cannot change a type.

use crate::graph::work;
use crate::{GradOptions, Graph, Residuals, scan};

/// A chain of ops, with what each rule for single ops has something to say about.
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

/// Loops after one another, differentiated.
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
    graph.unwrap().grad(["w", "u"], GradOptions::new().residuals(Residuals::SaveAll)).unwrap()
}

/// Four times the program is about four times the work.
#[test]
fn the_work_grows_with_the_program() {
    for (name, make) in [("chain", chain as fn(usize) -> Graph), ("loops", loops)] {
        let sizes = if name == "chain" { [250, 1000] } else { [4, 16] };
        let works = sizes.map(|size| {
            let graph = make(size);
            let (rewritten, work) = work::of(|| graph.rewritten());
            assert!(graph.difference(&rewritten).is_some(), "{name}");
            work
        });
        assert!(works[1] <= works[0] * 5, "{name}: {works:?}");
    }
}

/// The gradient of each weight of a network is one product, outside of its loops.
#[test]
fn a_weight_gradient_is_one_product() {
    let graph = loops(1).rewritten();
    let in_loops = |op: &crate::ops::Op| op.bodies().iter().map(|body| products(body)).sum::<usize>();
    fn products(graph: &Graph) -> usize {
        graph.nodes().iter().filter(|node| matches!(node.op, crate::ops::Op::MatMul(_))).count()
    }
    let inside: usize = graph.nodes().iter().map(|node| in_loops(&node.op)).sum();
    assert_eq!((products(&graph), inside), (3, 2), "{graph}");
}
