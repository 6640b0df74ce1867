//! Graph algorithms on edge lists: PageRank, shortest paths, and connected components.

use std::collections::BTreeMap;

use funcify::ops::ScatterMode;
use funcify::{DType, Graph, ScanOptions, constant, full, iota, scan_with, select, while_loop, while_loop_bounded};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 50), ("N", 10_000), ("E", 100_000)])],
        quick: &[Sizes(&[("T", 4), ("N", 8), ("E", 16)])],
        loss: Loss::None,
        ..Workload::without_handwritten("pagerank", "graph algorithms", edges, pagerank)
    },
    Workload {
        full: &[Sizes(&[("N", 20_000), ("E", 100_000)])],
        quick: &[Sizes(&[("N", 8), ("E", 16)])],
        loss: Loss::None,
        is_conditional: true,
        ..Workload::without_handwritten("bellman_ford", "graph algorithms", weighted_edges, bellman_ford)
    },
    Workload {
        full: &[Sizes(&[("N", 50_000), ("E", 50_000)])],
        quick: &[Sizes(&[("N", 12), ("E", 8)])],
        loss: Loss::None,
        is_conditional: true,
        ..Workload::without_handwritten("connected_components", "graph algorithms", edges, connected_components)
    },
];

fn edges(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [n, e] = ["N", "E"].map(|letter| sizes.get(letter));
    let mut ends = || numbers.integers(&[e], DType::I32, 0, n as i64);
    vec![("source", ends()), ("target", ends())]
}

fn weighted_edges(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let mut inputs = edges(sizes, numbers);
    inputs.push(("weight", numbers.uniform(&[sizes.get("E")], 0.1, 1.0)));
    inputs
}

/// The damping factor of PageRank: the probability of following an edge rather than jumping to a random node.
const DAMPING: f64 = 0.85;

fn pagerank(sizes: &Sizes) -> funcify::Result<Graph> {
    let n = sizes.get("N");
    let steps = ScanOptions::new().length(sizes.get("T"));
    Graph::build("pagerank", |g| {
        let [source, target] = ["source", "target"].map(|name| g.input(name, "i32[E]"));
        let zeros = full([n], DType::F32, 0.0);
        let ones = full([source.dim(0)], DType::F32, 1.0);
        let degree = zeros.scatter(0, source, ones, ScatterMode::Add);
        let is_dangling = degree.eq(0.0);
        let share = select(is_dangling, 0.0, 1.0 / degree.maximum(1.0));
        let start = full([n], DType::F32, 1.0 / n as f64);
        let (rank, changes) = scan_with(steps, start, (), |rank, ()| {
            let sent = (rank * share).take(0, source);
            let received = zeros.scatter(0, target, sent, ScatterMode::Add);
            let dangling = select(is_dangling, rank, 0.0).sum(0) / n as f64;
            let next = (received + dangling) * DAMPING + (1.0 - DAMPING) / n as f64;
            (next, (next - rank).abs().sum(0))
        });
        BTreeMap::from([("rank", rank), ("changes", changes)])
    })
}

/// Builds a graph that computes the shortest distances from node 0. The distance of an unreachable node is -1.
fn bellman_ford(sizes: &Sizes) -> funcify::Result<Graph> {
    let n = sizes.get("N");
    Graph::build("bellman_ford", |g| {
        let [source, target] = ["source", "target"].map(|name| g.input(name, "i32[E]"));
        let weight = g.input("weight", "f32[E]");
        let start = select(iota(n, DType::I32).eq(0), 0.0, f64::INFINITY);
        let (distance, _) = while_loop_bounded(
            n,
            (start, constant(true)),
            |(_, changed)| changed,
            |(distance, _)| {
                let next = distance.scatter(0, target, distance.take(0, source) + weight, ScatterMode::Min);
                (next, next.ne(distance).any(0))
            },
        );
        output("distance", select(distance.is_finite(), distance, -1.0))
    })
}

fn connected_components(sizes: &Sizes) -> funcify::Result<Graph> {
    let n = sizes.get("N");
    Graph::build("connected_components", |g| {
        let [source, target] = ["source", "target"].map(|name| g.input(name, "i32[E]"));
        let nodes = iota(n, DType::I32);
        let (labels, _) = while_loop(
            (nodes, constant(true)),
            |(_, changed)| changed,
            |(labels, _)| {
                let forward = labels.scatter(0, target, labels.take(0, source), ScatterMode::Min);
                let both = forward.scatter(0, source, forward.take(0, target), ScatterMode::Min);
                // Each label is the index of a node. Replace it with the label of that node (pointer jumping).
                let next = both.take(0, both);
                (next, next.ne(labels).any(0))
            },
        );
        BTreeMap::from([("labels", labels), ("count", labels.eq(nodes).cast(DType::I32).sum(0))])
    })
}
