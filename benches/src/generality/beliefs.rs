//! Graphical models: stereo depth estimation by belief propagation.

use std::collections::BTreeMap;

use funcify::{DType, Graph, Value, fori_loop, full, iota};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("N", 48), ("L", 16), ("T", 10)])],
    quick: &[Sizes(&[("N", 6), ("L", 4), ("T", 3)])],
    loss: Loss::None,
    ..Workload::without_handwritten("stereo_bp", "graphical models", inputs, stereo_bp)
}];

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [n, l] = ["N", "L"].map(|letter| sizes.get(letter));
    vec![("costs", numbers.uniform(&[n, n, l], 0.0, 1.0))]
}

/// Builds a graph that runs loopy belief propagation on a grid. The cost of a pair of neighbouring pixels grows with
/// the difference of their labels, up to a limit.
fn stereo_bp(sizes: &Sizes) -> funcify::Result<Graph> {
    let [n, l, steps] = ["N", "L", "T"].map(|letter| sizes.get(letter));
    Graph::build("stereo_bp", |g| {
        let costs = g.input("costs", format!("f32[{n},{n},{l}]").as_str());
        let labels = iota(l, DType::F32);
        let smoothness = (0.2 * (labels.unsqueeze(1) - labels).abs()).minimum(0.6);
        let message = |belief: Value, from_target: Value| {
            let message = ((belief - from_target).unsqueeze(2) + smoothness).min(3);
            message - message.min(2).unsqueeze(2)
        };
        // `forward` moves each message to the next pixel along an axis, and `backward` moves it to the previous one. At
        // the border, incoming messages are zero.
        let forward = |messages: Value, axis: i64| messages.slice(axis, ..-1).pad(axis, 1, 0, 0.0);
        let backward = |messages: Value, axis: i64| messages.slice(axis, 1..).pad(axis, 0, 1, 0.0);
        let start = [full([n, n, l], DType::F32, 0.0); 4];
        let messages = fori_loop(0, steps, start, |_, [above, below, left, right]| {
            let belief = costs + above + below + left + right;
            [
                forward(message(belief, below), 0),
                backward(message(belief, above), 0),
                forward(message(belief, right), 1),
                backward(message(belief, left), 1),
            ]
        });
        let belief = messages.into_iter().fold(costs, |sum, message| sum + message);
        BTreeMap::from([("belief", belief), ("labels", belief.argmin(2).cast(DType::I32))])
    })
}
