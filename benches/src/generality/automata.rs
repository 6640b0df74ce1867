//! Cellular automata: Conway's Game of Life on a torus, and the Abelian sandpile.

use std::collections::BTreeMap;

use funcify::{DType, Graph, ScanOptions, Value, concat, constant, scan_with, while_loop_bounded};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 100), ("H", 256), ("W", 256)])],
        quick: &[Sizes(&[("T", 5), ("H", 8), ("W", 7)])],
        loss: Loss::None,
        ..Workload::without_handwritten("life", "cellular automata", life_inputs, life)
    },
    Workload {
        full: &[Sizes(&[("T", 1000), ("H", 128), ("W", 128)])],
        quick: &[Sizes(&[("T", 16), ("H", 7), ("W", 6)])],
        loss: Loss::None,
        is_conditional: true,
        ..Workload::without_handwritten("sandpile", "cellular automata", sandpile_inputs, sandpile)
    },
];

fn life_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("cells", numbers.integers(&[sizes.get("H"), sizes.get("W")], DType::I32, 0, 2))]
}

/// Shifts a tensor by one position along an axis, cyclically.
fn roll(x: Value, axis: i64, forward: bool) -> Value {
    let cut = if forward { -1 } else { 1 };
    concat(&[x.slice(axis, cut..), x.slice(axis, ..cut)], axis)
}

fn life(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = ScanOptions::new().length(sizes.get("T"));
    Graph::build("life", |g| {
        let cells = g.input("cells", "i32[H,W]");
        let (last, population) = scan_with(steps, cells, (), |cells, ()| {
            let (above, below) = (roll(cells, 0, true), roll(cells, 0, false));
            let beside = |row: Value| roll(row, 1, true) + roll(row, 1, false);
            let neighbours = above + below + beside(above) + beside(cells) + beside(below);
            let alive = neighbours.eq(3) | (neighbours.eq(2) & cells.eq(1));
            let cells = alive.cast(DType::I32);
            (cells, cells.sum(..))
        });
        BTreeMap::from([("cells", last), ("population", population)])
    })
}

/// Draws a sandpile whose mean height is just below the critical mean height.
fn sandpile_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("pile", numbers.integers(&[sizes.get("H"), sizes.get("W")], DType::I32, 0, 5))]
}

fn sandpile(sizes: &Sizes) -> funcify::Result<Graph> {
    let most = sizes.get("T");
    Graph::build("sandpile", |g| {
        let start = (g.input("pile", "i32[H,W]"), constant(0i32));
        let (pile, steps) = while_loop_bounded(
            most,
            start,
            |(pile, _)| pile.ge(4).any(..),
            |(pile, steps)| {
                // Each toppling moves one grain to each of the four neighbours. At the border, grains fall off.
                let topplings = pile >> 2;
                let padded = topplings.pad(0, 1, 1, 0.0).pad(1, 1, 1, 0.0);
                let (rows, columns) = (padded.slice(1, 1..-1), padded.slice(0, 1..-1));
                let received =
                    rows.slice(0, ..-2) + rows.slice(0, 2..) + columns.slice(1, ..-2) + columns.slice(1, 2..);
                (pile - topplings * 4 + received, steps + 1)
            },
        );
        BTreeMap::from([("pile", pile), ("steps", steps)])
    })
}
