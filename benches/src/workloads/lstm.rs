//! An LSTM with the gates in PyTorch's order: input, forget, cell, output.

use candle_core::Tensor;
use funcify::{Graph, scan};

use super::{Inputs, Numbers, Sizes, Workload, output};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[Sizes(&[("T", 200), ("B", 32), ("H", 128)])],
    quick: &[Sizes(&[("T", 30), ("B", 4), ("H", 16)])],
    differentiated: &["w", "u", "b"],
    ..Workload::of("lstm", "LSTM", inputs, graph, candle, burn)
};

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, h] = ["T", "B", "H"].map(|letter| sizes.get(letter));
    let scale = (h as f64).sqrt().recip();
    vec![
        ("xs", numbers.normal(&[t, b, h], 1.0)),
        ("h0", numbers.normal(&[b, h], 0.1)),
        ("c0", numbers.normal(&[b, h], 0.1)),
        ("w", numbers.normal(&[h, 4 * h], 0.5 * scale)),
        ("u", numbers.normal(&[h, 4 * h], 0.5 * scale)),
        ("b", numbers.normal(&[4 * h], 0.1)),
    ]
}

fn graph(sizes: &Sizes) -> funcify::Result<Graph> {
    let width = sizes.get("H") as i64;
    Graph::build("lstm", |g| {
        let state = || format!("f32[B,{width}]");
        let xs = g.input("xs", format!("f32[T,B,{width}]").as_str());
        let (h0, c0) = (g.input("h0", state().as_str()), g.input("c0", state().as_str()));
        let weights = || format!("f32[{width},{}]", 4 * width);
        let (w, u) = (g.input("w", weights().as_str()), g.input("u", weights().as_str()));
        let b = g.input("b", format!("f32[{}]", 4 * width).as_str());
        let (_, hs) = scan((h0, c0), xs, |(h, c), x| {
            let gates = x.matmul(w) + h.matmul(u) + b;
            let gate = |number: i64| gates.slice(1, number * width..(number + 1) * width);
            let c = gate(1).sigmoid() * c + gate(0).sigmoid() * gate(2).tanh();
            let h = gate(3).sigmoid() * c.tanh();
            ((h, c), h)
        });
        output("hs", hs)
    })
}

fn candle(sizes: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let sigmoid = |x: &Tensor| (x.neg()?.exp()? + 1.0)?.recip();
    let width = sizes.get("H");
    let [xs, h0, c0, w, u, b] = inputs.all(["xs", "h0", "c0", "w", "u", "b"]);
    let (mut h, mut c, mut hs) = (h0.clone(), c0.clone(), Vec::new());
    for t in 0..xs.dim(0)? {
        let gates = (xs.get(t)?.matmul(w)? + h.matmul(u)?)?.broadcast_add(b)?;
        let gate = |number: usize| gates.narrow(1, number * width, width);
        c = ((sigmoid(&gate(1)?)? * &c)? + (sigmoid(&gate(0)?)? * gate(2)?.tanh()?)?)?;
        h = (sigmoid(&gate(3)?)? * c.tanh()?)?;
        hs.push(h.clone());
    }
    Ok(vec![Tensor::stack(&hs, 0)?])
}

fn burn(sizes: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    use burn::tensor::activation::sigmoid;
    let width = sizes.get("H");
    let [w, u] = inputs.all::<2, 2>(["w", "u"]);
    let b = inputs.get::<1>("b").unsqueeze::<2>();
    let [mut h, mut c] = inputs.all::<2, 2>(["h0", "c0"]);
    let mut hs = Vec::new();
    for x in inputs.get::<3>("xs").iter_dim(0) {
        let gates = x.squeeze_dim::<2>(0).matmul(w.clone()) + h.matmul(u.clone()) + b.clone();
        let gate = |number: usize| gates.clone().narrow(1, number * width, width);
        c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * gate(2).tanh();
        h = sigmoid(gate(3)) * c.clone().tanh();
        hs.push(h.clone());
    }
    vec![burn::tensor::Tensor::stack::<3>(hs, 0).flatten(0, 2)]
}
