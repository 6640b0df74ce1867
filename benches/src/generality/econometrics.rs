//! Econometrics: volatility models, exponential smoothing, and technical indicators of many assets.

use std::collections::BTreeMap;

use funcify::{DType, Graph, HostTensor, Scalar, concat, scan};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 2000), ("B", 64)])],
        quick: &[Sizes(&[("T", 12), ("B", 3)])],
        loss: Loss::Output,
        differentiated: &["omega", "alpha", "beta"],
        ..Workload::without_handwritten("garch", "econometrics", garch_inputs, garch)
    },
    Workload {
        full: &[Sizes(&[("T", 480), ("B", 128), ("M", 12)])],
        quick: &[Sizes(&[("T", 14), ("B", 3), ("M", 4)])],
        loss: Loss::Output,
        differentiated: &["alpha", "beta", "gamma"],
        ..Workload::without_handwritten("holt_winters", "econometrics", holt_winters_inputs, holt_winters)
    },
    Workload {
        full: &[Sizes(&[("T", 1000), ("A", 512)])],
        quick: &[Sizes(&[("T", 16), ("A", 4)])],
        loss: Loss::None,
        ..Workload::without_handwritten("rsi", "technical indicators", prices, rsi)
    },
];

fn garch_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b] = ["T", "B"].map(|letter| sizes.get(letter));
    vec![
        ("returns", numbers.normal(&[t, b], 1.0)),
        ("omega", numbers.uniform(&[b], 0.05, 0.1)),
        ("alpha", numbers.uniform(&[b], 0.05, 0.1)),
        ("beta", numbers.uniform(&[b], 0.8, 0.9)),
    ]
}

/// Builds a graph that computes the mean negative log-likelihood of GARCH(1,1). In this model, the variance at each
/// step depends on the variance and the squared return of the previous step.
fn garch(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("garch", |g| {
        let returns = g.input("returns", "f32[T,B]");
        let [omega, alpha, beta] = ["omega", "alpha", "beta"].map(|name| g.input(name, "f32[B]"));
        let squares = returns.square();
        let (_, variances) =
            scan(squares.mean(0), squares, |variance, square| (omega + alpha * square + beta * variance, variance));
        output("loss", 0.5 * (variances.log() + squares / variances).mean(..))
    })
}

/// Draws series with a trend, a seasonal component and noise, and the smoothing parameters of each series.
fn holt_winters_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, m] = ["T", "B", "M"].map(|letter| sizes.get(letter));
    let series = HostTensor::from_fn(DType::F32, &[t, b], |index| {
        let phase = (index[0] % m) as f64 / m as f64 + index[1] as f64 / b as f64;
        let noise = numbers.unit() - 0.5;
        Scalar::Float(2.0 + 0.01 * index[0] as f64 + (std::f64::consts::TAU * phase).sin() + noise)
    });
    vec![
        ("series", series),
        ("alpha", numbers.uniform(&[b], 0.1, 0.5)),
        ("beta", numbers.uniform(&[b], 0.05, 0.2)),
        ("gamma", numbers.uniform(&[b], 0.1, 0.5)),
    ]
}

/// Builds a graph that computes the mean squared error of one-step forecasts by Holt-Winters smoothing. The carry holds
/// the level, the trend, and the seasonal components of the last season, oldest first.
fn holt_winters(sizes: &Sizes) -> funcify::Result<Graph> {
    let season = sizes.get("M");
    Graph::build("holt_winters", |g| {
        let series = g.input("series", "f32[T,B]");
        let [alpha, beta, gamma] = ["alpha", "beta", "gamma"].map(|name| g.input(name, "f32[B]"));
        let first = series.slice(0, 0..season);
        let level = first.mean(0);
        let start = (level, level.zeros_like(), first - level);
        let (_, errors) = scan(start, series.slice(0, season..), |(level, trend, seasons), y| {
            let seasonal = seasons.index(0, 0);
            let error = y - (level + trend + seasonal);
            let next = alpha * (y - seasonal) + (1.0 - alpha) * (level + trend);
            let trend = beta * (next - level) + (1.0 - beta) * trend;
            let seasonal = gamma * (y - next) + (1.0 - gamma) * seasonal;
            ((next, trend, concat(&[seasons.slice(0, 1..), seasonal.unsqueeze(0)], 0)), error)
        });
        output("loss", errors.square().mean(..))
    })
}

/// Draws prices that follow random walks.
fn prices(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, a] = ["T", "A"].map(|letter| sizes.get(letter));
    let mut now = vec![100.0; a];
    let walks = HostTensor::from_fn(DType::F32, &[t, a], |index| {
        now[index[1]] += numbers.unit() - 0.5;
        Scalar::Float(now[index[1]])
    });
    vec![("prices", walks)]
}

/// Builds a graph that computes the relative strength index (RSI) over 14 steps, and the histogram of the moving
/// average convergence/divergence (MACD).
fn rsi(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("rsi", |g| {
        let prices = g.input("prices", "f32[T,A]");
        let first = prices.index(0, 0);
        let nothing = first.zeros_like();
        let start = (first, nothing, nothing, first, first, nothing);
        let (_, (strength, histogram)) =
            scan(start, prices.slice(0, 1..), |(last, gain, loss, fast, slow, signal), price| {
                let change = price - last;
                let gain = gain + (change.maximum(0.0) - gain) / 14.0;
                let loss = loss + ((-change).maximum(0.0) - loss) / 14.0;
                let fast = fast + (2.0 / 13.0) * (price - fast);
                let slow = slow + (2.0 / 27.0) * (price - slow);
                let difference = fast - slow;
                let signal = signal + 0.2 * (difference - signal);
                let strength = 100.0 * gain / (gain + loss + 1e-12);
                ((price, gain, loss, fast, slow, signal), (strength, difference - signal))
            });
        BTreeMap::from([("histogram", histogram), ("strength", strength)])
    })
}
