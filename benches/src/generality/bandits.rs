//! Multi-armed bandits: the upper confidence bound algorithm on a batch of Bernoulli bandits.

use std::collections::BTreeMap;

use funcify::ops::ScatterMode;
use funcify::{DType, Graph, iota, scan};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("T", 1000), ("B", 256), ("K", 10)])],
    quick: &[Sizes(&[("T", 16), ("B", 3), ("K", 4)])],
    loss: Loss::None,
    ..Workload::without_handwritten("ucb", "bandits", inputs, ucb)
}];

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, k] = ["T", "B", "K"].map(|letter| sizes.get(letter));
    vec![
        ("chances", numbers.uniform(&[b, k], 0.1, 0.9)),
        ("first", numbers.uniform(&[b, k], 0.0, 1.0)),
        ("noise", numbers.uniform(&[t, b], 0.0, 1.0)),
    ]
}

fn ucb(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("ucb", |g| {
        let [chances, first] = ["chances", "first"].map(|name| g.input(name, "f32[B,K]"));
        let noise = g.input("noise", "f32[T,B]");
        // Each arm is pulled once before the loop.
        let wins = first.lt(chances).cast(DType::I32);
        let times = iota(noise.dim(0), DType::F32) + funcify::size(chances.dim(1), DType::F32);
        let ((pulls, wins), rewards) =
            scan((wins.ones_like(), wins), (noise, times), |(pulls, wins), (noise, time)| {
                let counts = pulls.cast(DType::F32);
                let bound = wins.cast(DType::F32) / counts + (time.log() * 2.0 / counts).sqrt();
                let arm = bound.argmax(1).unsqueeze(1);
                let reward = noise.unsqueeze(1).lt(chances.take_along(1, arm)).cast(DType::I32);
                let pulls = pulls.scatter(1, arm, reward.ones_like(), ScatterMode::Add);
                ((pulls, wins.scatter(1, arm, reward, ScatterMode::Add)), reward.sum(..))
            });
        // Because of rounding, the implementations may break near-ties differently. This barely changes the outputs,
        // which are sums over all bandits.
        BTreeMap::from([("pulls", pulls.sum(0)), ("wins", wins.sum(0)), ("reward", rewards.sum(0))])
    })
}
