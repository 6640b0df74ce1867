//! Root finding: Newton's method and bisection for batches of equations.

use funcify::{DType, Graph, Value, constant, fori_loop, iota, select, while_loop_bounded};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("B", 65536)])],
        quick: &[Sizes(&[("B", 5)])],
        loss: Loss::None,
        is_conditional: true,
        ..Workload::without_handwritten("kepler", "root finding", orbits, kepler)
    },
    Workload {
        full: &[Sizes(&[("B", 2048), ("K", 20), ("T", 30)])],
        quick: &[Sizes(&[("B", 5), ("K", 4), ("T", 16)])],
        differentiated: &["cash", "fraction"],
        ..Workload::without_handwritten("bisection", "root finding", bonds, bisection)
    },
];

fn orbits(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let b = sizes.get("B");
    vec![("mean_anomaly", numbers.uniform(&[b], -3.1, 3.1)), ("eccentricity", numbers.uniform(&[b], 0.0, 0.8))]
}

/// Builds a graph that solves Kepler's equation by Newton's method. The iteration ends when no eccentric anomaly
/// changes by more than 1e-4.
fn kepler(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("kepler", |g| {
        let (mean, eccentricity) = (g.input("mean_anomaly", "f32[B]"), g.input("eccentricity", "f32[B]"));
        let start = mean + 0.85 * eccentricity * mean.sign();
        let (anomaly, _) = while_loop_bounded(
            50,
            (start, constant(1f32)),
            |(_, change)| change.gt(1e-4),
            |(anomaly, _)| {
                let residual = anomaly - eccentricity * anomaly.sin() - mean;
                let change = residual / (1.0 - eccentricity * anomaly.cos());
                (anomaly - change, change.abs().max(0))
            },
        );
        output("anomaly", anomaly)
    })
}

/// Draws the semiannual payments of bonds, and the price of each bond as a fraction of the sum of its payments.
fn bonds(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [b, k] = ["B", "K"].map(|letter| sizes.get(letter));
    vec![("cash", numbers.uniform(&[b, k], 1.0, 5.0)), ("fraction", numbers.uniform(&[b], 0.7, 1.1))]
}

/// Builds a graph that computes the yields of bonds by bisection. A final Newton step makes the yields differentiable.
/// Gradients treat the starting point and the slope of this step as constants.
fn bisection(sizes: &Sizes) -> funcify::Result<Graph> {
    let [k, steps] = ["K", "T"].map(|letter| sizes.get(letter));
    Graph::build("bisection", |g| {
        let (cash, fraction) = (g.input("cash", format!("f32[B,{k}]").as_str()), g.input("fraction", "f32[B]"));
        let price = fraction * cash.sum(1);
        let times = 0.5 * (iota(k, DType::F32) + 1);
        let discounted = |cash: Value, yields: Value| cash * (-(yields.unsqueeze(1) * times)).exp();
        let (fixed_cash, fixed_price) = (cash.stop_gradient(), price.stop_gradient());
        let start = (fixed_price.full_like(-0.5), fixed_price.full_like(2.0));
        let (low, high) = fori_loop(0, steps, start, |_, (low, high)| {
            let middle = 0.5 * (low + high);
            let is_low = discounted(fixed_cash, middle).sum(1).gt(fixed_price);
            (select(is_low, middle, low), select(is_low, high, middle))
        });
        let yields = 0.5 * (low + high);
        let flows = discounted(cash, yields);
        let slope = -(times * flows).sum(1).stop_gradient();
        output("yields", yields - (flows.sum(1) - price) / slope)
    })
}
