//! Cross-entropy over a large vocabulary, computed in chunks of tokens so that the full matrix of logits is never
//! materialised.

use candle_core::{D, Tensor};
use funcify::{Graph, constant, scan};

use super::{Inputs, Loss, Numbers, Sizes, Workload, output};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[Sizes(&[("M", 4096), ("D", 256), ("V", 8192), ("C", 16)])],
    quick: &[Sizes(&[("M", 64), ("D", 16), ("V", 128), ("C", 4)])],
    growth: &[
        Sizes(&[("M", 4096), ("D", 256), ("V", 8192), ("C", 1)]),
        Sizes(&[("M", 4096), ("D", 256), ("V", 8192), ("C", 4)]),
        Sizes(&[("M", 4096), ("D", 256), ("V", 8192), ("C", 64)]),
    ],
    loss: Loss::Output,
    differentiated: &["hidden", "w"],
    ..Workload::of("chunked_loss", "Chunked cross-entropy", inputs, graph, candle, burn)
};

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [m, d, v] = ["M", "D", "V"].map(|letter| sizes.get(letter));
    let scale = (d as f64).sqrt().recip();
    vec![
        ("hidden", numbers.normal(&[m, d], 1.0)),
        ("w", numbers.normal(&[d, v], scale)),
        ("targets", numbers.below(&[m], v)),
    ]
}

fn graph(sizes: &Sizes) -> funcify::Result<Graph> {
    let [m, d, v, chunks] = ["M", "D", "V", "C"].map(|letter| sizes.get(letter));
    let chunk = m / chunks;
    Graph::build("chunked_loss", |g| {
        let hidden = g.input("hidden", format!("f32[{m},{d}]").as_str());
        let w = g.input("w", format!("f32[{d},{v}]").as_str());
        let targets = g.input("targets", format!("i64[{m}]").as_str());
        let rows = (hidden.reshape([chunks, chunk, d]), targets.reshape([chunks, chunk]));
        let (sum, ()) = scan(constant(0f32), rows, |sum, (hidden, targets)| {
            let logits = hidden.matmul(w);
            let right = logits.gather(1, targets.unsqueeze(1)).squeeze(1);
            (sum + (logits.logsumexp(1) - right).sum(0), ())
        });
        output("loss", sum / m as f64)
    })
}

fn candle(sizes: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let [m, chunks] = ["M", "C"].map(|letter| sizes.get(letter));
    let [hidden, w, targets] = inputs.all(["hidden", "w", "targets"]);
    let mut sum = Tensor::zeros((), hidden.dtype(), hidden.device())?;
    for chunk in 0..chunks {
        let [hidden, targets] = [hidden, targets].map(|rows| rows.narrow(0, chunk * m / chunks, m / chunks));
        let logits = hidden?.matmul(w)?;
        let right = logits.gather(&targets?.unsqueeze(1)?.contiguous()?, 1)?.squeeze(1)?;
        sum = (sum + (logits.log_sum_exp(D::Minus1)? - right)?.sum_all()?)?;
    }
    Ok(vec![(sum / m as f64)?])
}

fn burn(sizes: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    let [m, chunks] = ["M", "C"].map(|letter| sizes.get(letter));
    let [hidden, w] = inputs.all::<2, 2>(["hidden", "w"]);
    let targets = inputs.integers::<1>("targets");
    let mut sum = burn::tensor::Tensor::<1>::zeros([1], &hidden.device());
    for chunk in 0..chunks {
        let rows = chunk * m / chunks..(chunk + 1) * m / chunks;
        let logits = hidden.clone().slice([rows.clone()]).matmul(w.clone());
        let targets = targets.clone().slice([rows]).unsqueeze_dim::<2>(1);
        let right = logits.clone().gather(1, targets);
        let largest = logits.clone().detach().max_dim(1);
        let normalizer = (logits - largest.clone()).exp().sum_dim(1).log() + largest;
        sum = sum + (normalizer - right).sum();
    }
    vec![sum / m as f64]
}
