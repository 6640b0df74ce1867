//! Dynamic programming over integers: edit distance, the knapsack problem, and local alignment with affine gaps.

use std::collections::BTreeMap;

use funcify::{DType, Graph, ScanOptions, concat, constant, full, iota, scan, scan_with, select};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("M", 512), ("N", 512)])],
        quick: &[Sizes(&[("M", 9), ("N", 7)])],
        loss: Loss::None,
        ..Workload::without_handwritten("edit_distance", "dynamic programming", strings, edit_distance)
    },
    Workload {
        full: &[Sizes(&[("N", 200), ("C", 5000)])],
        quick: &[Sizes(&[("N", 6), ("C", 16)])],
        loss: Loss::None,
        ..Workload::without_handwritten("knapsack", "dynamic programming", items, knapsack)
    },
    Workload {
        full: &[Sizes(&[("M", 256), ("N", 256), ("B", 16), ("A", 20)])],
        quick: &[Sizes(&[("M", 8), ("N", 6), ("B", 3), ("A", 4)])],
        loss: Loss::None,
        ..Workload::without_handwritten("smith_waterman", "dynamic programming", pairs, smith_waterman)
    },
];

fn strings(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let mut string = |letter: &str| numbers.integers(&[sizes.get(letter)], DType::I32, 0, 4);
    vec![("a", string("M")), ("b", string("N"))]
}

fn edit_distance(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("edit_distance", |g| {
        let (a, b) = (g.input("a", "i32[M]"), g.input("b", "i32[N]"));
        let columns = iota(b.dim(0) + 1, DType::I32);
        let (last, ()) = scan(columns, a, |row, letter| {
            let replaced = row.slice(0, ..-1) + b.ne(letter).cast(DType::I32);
            let deleted = row + 1;
            let best = concat(&[deleted.slice(0, ..1), deleted.slice(0, 1..).minimum(replaced)], 0);
            // Insertions reduce the cost in column j to the minimum of `best[k] + (j - k)` over all k up to j.
            ((best - columns).cummin(0, false) + columns, ())
        });
        output("distances", last)
    })
}

fn items(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let (n, c) = (sizes.get("N"), sizes.get("C") as i64);
    vec![
        ("weights", numbers.integers(&[n], DType::I32, 1, (c / 10).max(4))),
        ("values", numbers.integers(&[n], DType::I32, 1, 1000)),
    ]
}

fn knapsack(sizes: &Sizes) -> funcify::Result<Graph> {
    let capacity = sizes.get("C");
    Graph::build("knapsack", |g| {
        let (weights, values) = (g.input("weights", "i32[N]"), g.input("values", "i32[N]"));
        let capacities = iota(capacity + 1, DType::I32);
        let (best, taken) = scan(capacities.zeros_like(), (weights, values), |best, (weight, value)| {
            let rest = capacities - weight;
            let with_item = select(rest.ge(0), best.take(0, rest) + value, 0);
            (best.maximum(with_item), with_item.gt(best))
        });
        let backward = ScanOptions::new().reverse();
        let (_, chosen) = scan_with(backward, constant(capacity as i32), (taken, weights), |left, (taken, weight)| {
            let chosen = taken.dynamic_index(0, left).cast(DType::I32);
            (left - chosen * weight, chosen)
        });
        BTreeMap::from([("best", best), ("chosen", chosen)])
    })
}

fn pairs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [m, n, b, a] = ["M", "N", "B", "A"].map(|letter| sizes.get(letter));
    vec![
        ("a", numbers.integers(&[m, b], DType::I32, 0, a as i64)),
        ("b", numbers.integers(&[b, n], DType::I32, 0, a as i64)),
        ("scores", numbers.integers(&[a, a], DType::I32, -4, 6)),
    ]
}

/// The cost of the first letter of a gap.
const OPEN: i32 = 8;
/// The cost of each further letter of a gap.
const EXTEND: i32 = 2;
/// A score that is lower than any attainable score.
const LOWEST: f64 = -10_000.0;

fn smith_waterman(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("smith_waterman", |g| {
        let (a, b) = (g.input("a", "i32[M,B]"), g.input("b", "i32[B,N]"));
        let scores = g.input("scores", "i32[A,A]");
        let columns = iota(b.dim(1), DType::I32);
        let start = (b.zeros_like(), b.full_like(LOWEST), full([b.dim(0)], DType::I32, 0.0));
        let ((_, _, best), ()) = scan(start, a, |(row, vertical, best), letter| {
            let matched = row.slice(1, ..-1).pad(1, 1, 0, 0.0) + scores.take(0, letter).take_along(1, b);
            let vertical = (row - OPEN).maximum(vertical - EXTEND);
            let row = matched.maximum(vertical).maximum(0);
            // After a horizontal gap, the score in column j is the maximum of `row[k] - OPEN - EXTEND * (j - k - 1)`
            // over all k before j.
            let reach = (row + columns * EXTEND).cummax(1, false).slice(1, ..-1).pad(1, 1, 0, LOWEST);
            let row = row.maximum(reach - columns * EXTEND + (EXTEND - OPEN));
            ((row, vertical, best.maximum(row.max(1))), ())
        });
        output("best", best)
    })
}
