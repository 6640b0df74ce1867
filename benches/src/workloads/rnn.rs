//! An Elman network: `h = tanh(x W + h U + b)`.

use candle_core::Tensor;
use funcify::{Graph, scan};

use super::{Inputs, Numbers, Sizes, Workload, output};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[
        Sizes(&[("T", 1000), ("B", 1), ("H", 32)]),
        Sizes(&[("T", 1000), ("B", 32), ("H", 128)]),
        Sizes(&[("T", 200), ("B", 64), ("H", 256)]),
    ],
    quick: &[Sizes(&[("T", 50), ("B", 4), ("H", 16)])],
    growth: &[
        Sizes(&[("T", 16), ("B", 4), ("H", 16)]),
        Sizes(&[("T", 64), ("B", 4), ("H", 16)]),
        Sizes(&[("T", 256), ("B", 4), ("H", 16)]),
        Sizes(&[("T", 1024), ("B", 4), ("H", 16)]),
        Sizes(&[("T", 4096), ("B", 4), ("H", 16)]),
        Sizes(&[("T", 16384), ("B", 4), ("H", 16)]),
    ],
    differentiated: &["w", "u", "b"],
    ..Workload::of("rnn", "Elman RNN", inputs, graph, candle, burn)
};

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, h] = ["T", "B", "H"].map(|letter| sizes.get(letter));
    let scale = (h as f64).sqrt().recip();
    vec![
        ("xs", numbers.normal(&[t, b, h], 1.0)),
        ("h0", numbers.normal(&[b, h], 0.1)),
        ("w", numbers.normal(&[h, h], 0.5 * scale)),
        ("u", numbers.normal(&[h, h], 0.8 * scale)),
        ("b", numbers.normal(&[h], 0.1)),
    ]
}

fn graph(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("rnn", |g| {
        let [xs, h0] = [g.input("xs", "f32[T,B,H]"), g.input("h0", "f32[B,H]")];
        let [w, u, b] = [g.input("w", "f32[H,H]"), g.input("u", "f32[H,H]"), g.input("b", "f32[H]")];
        let (_, hs) = scan(h0, xs, |h, x| {
            let h = (x.matmul(w) + h.matmul(u) + b).tanh();
            (h, h)
        });
        output("hs", hs)
    })
}

fn candle(_: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let [xs, h0, w, u, b] = inputs.all(["xs", "h0", "w", "u", "b"]);
    let (mut h, mut hs) = (h0.clone(), Vec::new());
    for t in 0..xs.dim(0)? {
        h = (xs.get(t)?.matmul(w)? + h.matmul(u)?)?.broadcast_add(b)?.tanh()?;
        hs.push(h.clone());
    }
    Ok(vec![Tensor::stack(&hs, 0)?])
}

fn burn(_: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    let [w, u] = inputs.all::<2, 2>(["w", "u"]);
    let b = inputs.get::<1>("b").unsqueeze::<2>();
    let (mut h, mut hs) = (inputs.get::<2>("h0"), Vec::new());
    for x in inputs.get::<3>("xs").iter_dim(0) {
        h = (x.squeeze_dim::<2>(0).matmul(w.clone()) + h.matmul(u.clone()) + b.clone()).tanh();
        hs.push(h.clone());
    }
    vec![burn::tensor::Tensor::stack::<3>(hs, 0).flatten(0, 2)]
}
