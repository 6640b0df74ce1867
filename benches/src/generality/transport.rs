//! Entropy-regularised optimal transport.

use funcify::{Graph, fori_loop};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("N", 128), ("M", 128), ("D", 3), ("T", 50)])],
    quick: &[Sizes(&[("N", 6), ("M", 5), ("D", 3), ("T", 4)])],
    loss: Loss::Output,
    differentiated: &["x"],
    ..Workload::without_handwritten("sinkhorn", "optimal transport", inputs, sinkhorn)
}];

/// The strength of the regularisation.
const EPSILON: f64 = 0.2;

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [n, m, d] = ["N", "M", "D"].map(|letter| sizes.get(letter));
    vec![("x", numbers.normal(&[n, d], 1.0)), ("y", numbers.normal(&[m, d], 1.0))]
}

/// Builds a graph that runs Sinkhorn's algorithm in log space, between two sets of points with equal weights.
fn sinkhorn(sizes: &Sizes) -> funcify::Result<Graph> {
    let [n, m, steps] = ["N", "M", "T"].map(|letter| sizes.get(letter));
    let (log_n, log_m) = ((n as f64).ln(), (m as f64).ln());
    Graph::build("sinkhorn", |g| {
        let (x, y) = (g.input("x", "f32[N,D]"), g.input("y", "f32[M,D]"));
        let cost = (x.unsqueeze(1) - y).square().sum(2);
        let start = (cost.index(1, 0).zeros_like(), cost.index(0, 0).zeros_like());
        let (f, g) = fori_loop(0, steps, start, |_, (_, g)| {
            let f = -EPSILON * (((g - cost) / EPSILON).logsumexp(1) - log_m);
            let g = -EPSILON * (((f.unsqueeze(1) - cost) / EPSILON).logsumexp(0) - log_n);
            (f, g)
        });
        let plan = ((f.unsqueeze(1) + g - cost) / EPSILON - (log_n + log_m)).exp();
        output("cost", (plan * cost).sum(..))
    })
}
