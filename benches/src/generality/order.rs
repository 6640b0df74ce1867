//! Order statistics: a moving median, and sorting by an odd-even transposition network.

use funcify::{DType, Graph, ScanOptions, Value, concat, full, scan, scan_with, stack};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 300), ("B", 64), ("W", 15)])],
        quick: &[Sizes(&[("T", 9), ("B", 3), ("W", 5)])],
        loss: Loss::None,
        ..Workload::without_handwritten("moving_median", "order statistics", signals, moving_median)
    },
    Workload {
        full: &[Sizes(&[("B", 128), ("N", 128)])],
        quick: &[Sizes(&[("B", 3), ("N", 8)])],
        loss: Loss::None,
        ..Workload::without_handwritten("odd_even_sort", "order statistics", rows, odd_even_sort)
    },
];

fn signals(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("xs", numbers.normal(&[sizes.get("T"), sizes.get("B")], 1.0))]
}

fn moving_median(sizes: &Sizes) -> funcify::Result<Graph> {
    let width = sizes.get("W");
    Graph::build("moving_median", |g| {
        let xs = g.input("xs", "f32[T,B]");
        let start = full([xs.dim(1), width.into()], DType::F32, 0.0);
        let (_, medians) = scan(start, xs, |window, x| {
            let window = concat(&[window.slice(1, 1..), x.unsqueeze(1)], 1);
            let (sorted, _) = window.sort(1, false);
            (window, sorted.index(1, width as i64 / 2))
        });
        output("medians", medians)
    })
}

fn rows(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("rows", numbers.integers(&[sizes.get("B"), sizes.get("N")], DType::I32, 0, 1000))]
}

fn odd_even_sort(sizes: &Sizes) -> funcify::Result<Graph> {
    let [b, n] = ["B", "N"].map(|letter| sizes.get(letter));
    Graph::build("odd_even_sort", |g| {
        // Sorts the two elements of each pair of neighbours.
        let exchange = |x: Value, count: usize| {
            let pairs = x.reshape([b, count / 2, 2]);
            stack(&[pairs.min(2), pairs.max(2)], 2).reshape([b, count])
        };
        let rows = g.input("rows", format!("i32[{b},{n}]").as_str());
        let steps = ScanOptions::new().length(n / 2);
        let (sorted, ()) = scan_with(steps, rows, (), |rows, ()| {
            let rows = exchange(rows, n);
            let inner = exchange(rows.slice(1, 1..-1), n - 2);
            (concat(&[rows.slice(1, ..1), inner, rows.slice(1, -1..)], 1), ())
        });
        output("sorted", sorted)
    })
}
