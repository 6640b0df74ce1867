//! Text automata: a deterministic finite automaton that reads a batch of strings.

use std::collections::BTreeMap;

use funcify::{DType, Graph, ScanOptions, full, scan_with};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("L", 1024), ("B", 256), ("S", 64), ("A", 32)])],
    quick: &[Sizes(&[("L", 12), ("B", 3), ("S", 5), ("A", 4)])],
    loss: Loss::None,
    ..Workload::without_handwritten("dfa_match", "automata over text", inputs, dfa_match)
}];

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [l, b, s, a] = ["L", "B", "S", "A"].map(|letter| sizes.get(letter));
    vec![
        ("texts", numbers.integers(&[b, l], DType::U8, 0, a as i64)),
        ("transitions", numbers.integers(&[s, a], DType::I32, 0, s as i64)),
        ("accepting", numbers.integers(&[s], DType::I32, 0, 2)),
    ]
}

fn dfa_match(sizes: &Sizes) -> funcify::Result<Graph> {
    let letters = sizes.get("A");
    Graph::build("dfa_match", |g| {
        let (texts, accepting) = (g.input("texts", "u8[B,L]"), g.input("accepting", "i32[S]"));
        let transitions = g.input("transitions", format!("i32[S,{letters}]").as_str());
        let table = transitions.reshape([transitions.dim(0) * letters]);
        let none = full([texts.dim(0)], DType::I32, 0.0);
        let ((states, counts), ()) =
            scan_with(ScanOptions::new().axis(1), (none, none), texts, |(states, counts), letter| {
                let states = table.take(0, states * letters as i64 + letter.cast(DType::I32));
                ((states, counts + accepting.take(0, states)), ())
            });
        BTreeMap::from([("states", states), ("counts", counts)])
    })
}
