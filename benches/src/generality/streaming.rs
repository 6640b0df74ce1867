//! Streaming statistics: a count-min sketch, and running means and covariances.

use std::collections::BTreeMap;

use funcify::ops::ScatterMode;
use funcify::{DType, Graph, Value, constant, full, scan};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 200), ("N", 1000), ("W", 4096), ("Q", 1000)])],
        quick: &[Sizes(&[("T", 5), ("N", 7), ("W", 16), ("Q", 6)])],
        loss: Loss::None,
        ..Workload::without_handwritten("count_min", "streaming statistics", items, count_min)
    },
    Workload {
        full: &[Sizes(&[("T", 1000), ("B", 32), ("D", 16)])],
        quick: &[Sizes(&[("T", 9), ("B", 3), ("D", 4)])],
        loss: Loss::None,
        ..Workload::without_handwritten("welford", "streaming statistics", streams, welford)
    },
];

/// The odd multipliers of the hash functions, one for each row of the sketch.
const MULTIPLIERS: [u32; 4] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F];

fn items(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, n, q] = ["T", "N", "Q"].map(|letter| sizes.get(letter));
    vec![
        ("items", numbers.integers(&[t, n], DType::U32, 0, 20_000)),
        ("queries", numbers.integers(&[q], DType::U32, 0, 20_000)),
    ]
}

/// Builds a graph that counts items with a count-min sketch, whose width must be a power of two.
fn count_min(sizes: &Sizes) -> funcify::Result<Graph> {
    let width = sizes.get("W");
    let shift = i64::from(32 - width.ilog2());
    Graph::build("count_min", |g| {
        let (items, queries) = (g.input("items", "u32[T,N]"), g.input("queries", "u32[Q]"));
        let multipliers = constant(MULTIPLIERS).unsqueeze(1);
        let hash = |items: Value| ((items * multipliers) >> shift).cast(DType::I32);
        let empty = full([MULTIPLIERS.len(), width], DType::I32, 0.0);
        let (sketch, ()) = scan(empty, items, |sketch, items| {
            let places = hash(items);
            (sketch.scatter(1, places, places.ones_like(), ScatterMode::Add), ())
        });
        let counts = sketch.take_along(1, hash(queries)).min(0);
        BTreeMap::from([("sketch", sketch), ("counts", counts)])
    })
}

fn streams(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, d] = ["T", "B", "D"].map(|letter| sizes.get(letter));
    vec![("xs", numbers.normal(&[t, b, d], 1.0)), ("mix", numbers.normal(&[d, d], 1.0))]
}

fn welford(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("welford", |g| {
        let (xs, mix) = (g.input("xs", "f32[T,B,D]"), g.input("mix", "f32[D,D]"));
        let [batch, width] = [1, 2].map(|axis| xs.dim(axis));
        let products = full([batch.clone(), width.clone(), width.clone()], DType::F32, 0.0);
        let start = (constant(0f32), full([batch, width], DType::F32, 0.0), products);
        let ((count, mean, products), ()) = scan(start, xs, |(count, mean, products), x| {
            let x = x.matmul(mix);
            let count = count + 1.0;
            let before = x - mean;
            let mean = mean + before / count;
            let after = x - mean;
            ((count, mean, products + before.unsqueeze(2) * after.unsqueeze(1)), ())
        });
        BTreeMap::from([("mean", mean), ("covariance", products / (count - 1.0))])
    })
}
