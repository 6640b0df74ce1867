//! Kalman filters for tracking.

use funcify::{Graph, scan};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("T", 500), ("B", 64)])],
    quick: &[Sizes(&[("T", 6), ("B", 3)])],
    loss: Loss::Output,
    differentiated: &["log_q", "log_r"],
    ..Workload::without_handwritten("kalman_tracks", "tracking filters", inputs, kalman_tracks)
}];

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b] = ["T", "B"].map(|letter| sizes.get(letter));
    vec![
        ("measured", numbers.normal(&[t, b], 1.0)),
        ("log_q", numbers.uniform(&[b], -4.0, -2.0)),
        ("log_r", numbers.uniform(&[b], -1.0, 1.0)),
    ]
}

/// Builds a graph that computes the mean negative log-likelihood of measured positions by a Kalman filter. The state of
/// the filter consists of position and velocity. The matrix products are written out as scalar formulas. The
/// acceleration is noise with variance q, and the measurement noise has variance r.
fn kalman_tracks(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("kalman_tracks", |g| {
        let measured = g.input("measured", "f32[T,B]");
        let [q, r] = ["log_q", "log_r"].map(|name| g.input(name, "f32[B]").exp());
        let (zeros, ones) = (q.zeros_like(), q.ones_like());
        let start = (measured.index(0, 0), zeros, ones, zeros, ones);
        let (_, costs) = scan(start, measured, |(x, v, xx, xv, vv), z| {
            let x = x + v;
            let xx = xx + 2.0 * xv + vv + 0.25 * q;
            let xv = xv + vv + 0.5 * q;
            let vv = vv + q;
            let (variance, innovation) = (xx + r, z - x);
            let (gain_x, gain_v) = (xx / variance, xv / variance);
            let cost = 0.5 * (variance.log() + innovation.square() / variance);
            let next = (
                x + gain_x * innovation,
                v + gain_v * innovation,
                (1.0 - gain_x) * xx,
                (1.0 - gain_x) * xv,
                vv - gain_v * xv,
            );
            (next, cost)
        });
        output("loss", costs.mean(..))
    })
}
