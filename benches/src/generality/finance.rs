//! Option pricing: American options on a binomial tree, and European options on simulated paths.

use funcify::{DType, Graph, HostTensor, ScanOptions, full, iota, random, scan_with};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("N", 512), ("B", 64)])],
        quick: &[Sizes(&[("N", 8), ("B", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("binomial_american", "option pricing", strikes, binomial_american)
    },
    Workload {
        full: &[Sizes(&[("T", 128), ("N", 2048), ("B", 8)])],
        quick: &[Sizes(&[("T", 5), ("N", 16), ("B", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("heston_paths", "option pricing", heston_inputs, heston_paths)
    },
];

const START: f64 = 100.0;
const RATE: f64 = 0.05;

fn strikes(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("strikes", numbers.uniform(&[sizes.get("B")], 80.0, 120.0))]
}

/// Builds a graph that prices one-year American put options by backward induction. Column `j` holds the stock price and
/// the option values after `j` upward moves.
fn binomial_american(sizes: &Sizes) -> funcify::Result<Graph> {
    let n = sizes.get("N");
    let step = 1.0 / n as f64;
    let move_up = 0.2 * step.sqrt();
    let (up, down, discount) = (move_up.exp(), (-move_up).exp(), (-RATE * step).exp());
    let chance = ((RATE * step).exp() - down) / (up - down);
    Graph::build("binomial_american", |g| {
        let strikes = g.input("strikes", "f32[B]").unsqueeze(1);
        let prices = START * (move_up * (2.0 * iota(n + 1, DType::F32) - n as f64)).exp();
        let start = (prices, (strikes - prices).maximum(0.0));
        let ((_, values), ()) = scan_with(ScanOptions::new().length(n), start, (), |(prices, values), ()| {
            let prices = up * prices;
            let kept = discount * (chance * values.slice(1, 1..) + (1.0 - chance) * values.slice(1, ..-1));
            ((prices, kept.pad(1, 0, 1, 0.0).maximum(strikes - prices)), ())
        });
        output("prices", values.index(1, 0))
    })
}

fn heston_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("strikes", numbers.uniform(&[sizes.get("B")], 80.0, 120.0)), ("key", HostTensor::from([0u32, 42]))]
}

/// Builds a graph that prices one-year European call options under the Heston model, by simulating price paths. The
/// simulation uses Euler steps with full truncation of the variance.
fn heston_paths(sizes: &Sizes) -> funcify::Result<Graph> {
    let [steps, n] = ["T", "N"].map(|letter| sizes.get(letter));
    let step = 1.0 / steps as f64;
    let correlation = -0.7f64;
    Graph::build("heston_paths", |g| {
        let strikes = g.input("strikes", "f32[B]");
        let start = (g.input("key", "u32[2]"), full([n], DType::F32, START.ln()), full([n], DType::F32, 0.04));
        let options = ScanOptions::new().length(steps);
        let ((_, logs, _), ()) = scan_with(options, start, (), |(key, logs, variance), ()| {
            let [key, draw] = random::split(key, 2).unstack(0);
            let [first, second] = random::normal(draw, [2, n], DType::F32).unstack(0);
            let second = correlation * first + (1.0 - correlation * correlation).sqrt() * second;
            let now = variance.maximum(0.0);
            let deviation = (step * now).sqrt();
            let logs = logs + step * (RATE - 0.5 * now) + deviation * first;
            ((key, logs, variance + 1.5 * step * (0.04 - now) + 0.3 * deviation * second), ())
        });
        let payoffs = (logs.exp() - strikes.unsqueeze(1)).maximum(0.0);
        output("prices", (-RATE).exp() * payoffs.mean(1))
    })
}
