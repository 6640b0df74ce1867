//! Graph networks: nodes send messages along edges and update their states with a gated recurrent unit.

use funcify::ops::ScatterMode;
use funcify::{DType, Graph, ScanOptions, Value, scan_with};

use crate::workloads::{Inputs, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("T", 5), ("N", 500), ("E", 2500), ("H", 64)])],
    quick: &[Sizes(&[("T", 3), ("N", 6), ("E", 12), ("H", 4)])],
    differentiated: &["message", "w", "u", "b"],
    ..Workload::without_handwritten("gated_graph_network", "graph networks", inputs, gated_graph_network)
}];

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [n, e, h] = ["N", "E", "H"].map(|letter| sizes.get(letter));
    let scale = (h as f64).sqrt().recip();
    vec![
        ("nodes", numbers.normal(&[n, h], 1.0)),
        ("source", numbers.integers(&[e], DType::I32, 0, n as i64)),
        ("target", numbers.integers(&[e], DType::I32, 0, n as i64)),
        ("message", numbers.normal(&[h, h], scale)),
        ("w", numbers.normal(&[h, 3 * h], scale)),
        ("u", numbers.normal(&[h, 3 * h], scale)),
        ("b", numbers.normal(&[3 * h], 0.1)),
    ]
}

fn gated_graph_network(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = ScanOptions::new().length(sizes.get("T"));
    let width = sizes.get("H") as i64;
    Graph::build("gated_graph_network", |g| {
        let nodes = g.input("nodes", format!("f32[N,{width}]").as_str());
        let [source, target] = ["source", "target"].map(|name| g.input(name, "i32[E]"));
        let message = g.input("message", format!("f32[{width},{width}]").as_str());
        let [w, u] = ["w", "u"].map(|name| g.input(name, format!("f32[{width},{}]", 3 * width).as_str()));
        let b = g.input("b", format!("f32[{}]", 3 * width).as_str());
        let parts = |gates: Value| [0, 1, 2].map(|number: i64| gates.slice(1, number * width..(number + 1) * width));
        let receivers = target.unsqueeze(1).broadcast_to([target.dim(0), width.into()]);
        let (last, ()) = scan_with(steps, nodes, (), |h, ()| {
            let messages = h.matmul(message).take(0, source);
            let received = h.zeros_like().scatter(0, receivers, messages, ScatterMode::Add);
            let [update_in, reset_in, new_in] = parts(received.matmul(w) + b);
            let [update_h, reset_h, new_h] = parts(h.matmul(u));
            let update = (update_in + update_h).sigmoid();
            let reset = (reset_in + reset_h).sigmoid();
            let new = (new_in + reset * new_h).tanh();
            ((1.0 - update) * new + update * h, ())
        });
        output("nodes", last)
    })
}
