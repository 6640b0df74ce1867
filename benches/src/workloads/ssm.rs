//! A selective state space model, the core of Mamba. Its decays and input projections differ from step to step.

use candle_core::{D, Tensor};
use funcify::{DType, Graph, full, scan};

use super::{Inputs, Numbers, Sizes, Workload, output};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[Sizes(&[("T", 1024), ("D", 256), ("N", 16)])],
    quick: &[Sizes(&[("T", 32), ("D", 16), ("N", 4)])],
    differentiated: &["a", "dt", "b", "c", "x"],
    ..Workload::of("ssm", "Selective SSM", inputs, graph, candle, burn)
};

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, d, n] = ["T", "D", "N"].map(|letter| sizes.get(letter));
    vec![
        ("a", numbers.uniform(&[d, n], -8.0, -0.5)),
        ("dt", numbers.uniform(&[t, d], 0.01, 0.1)),
        ("b", numbers.normal(&[t, n], 1.0)),
        ("c", numbers.normal(&[t, n], 1.0)),
        ("x", numbers.normal(&[t, d], 1.0)),
    ]
}

fn graph(sizes: &Sizes) -> funcify::Result<Graph> {
    let state = [sizes.get("D"), sizes.get("N")];
    Graph::build("ssm", |g| {
        let a = g.input("a", format!("f32[{},{}]", state[0], state[1]).as_str());
        let of_features = |name: &str| g.input(name, format!("f32[T,{}]", state[0]).as_str());
        let of_states = |name: &str| g.input(name, format!("f32[T,{}]", state[1]).as_str());
        let (dt, b, c, x) = (of_features("dt"), of_states("b"), of_states("c"), of_features("x"));
        let (_, y) = scan(full(state, DType::F32, 0.0), (dt, b, c, x), |h, (dt, b, c, x)| {
            let decay = (dt.unsqueeze(1) * a).exp();
            let h = decay * h + (dt * x).unsqueeze(1) * b.unsqueeze(0);
            (h, (h * c.unsqueeze(0)).sum(1))
        });
        output("y", y)
    })
}

fn candle(_: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let [a, dt, b, c, x] = inputs.all(["a", "dt", "b", "c", "x"]);
    let (mut h, mut ys) = (a.zeros_like()?, Vec::new());
    for t in 0..dt.dim(0)? {
        let (dt, x) = (dt.get(t)?, x.get(t)?);
        let decay = dt.unsqueeze(1)?.broadcast_mul(a)?.exp()?;
        let driven = (dt * x)?.unsqueeze(1)?.broadcast_mul(&b.get(t)?.unsqueeze(0)?)?;
        h = ((decay * h)? + driven)?;
        ys.push(h.broadcast_mul(&c.get(t)?.unsqueeze(0)?)?.sum(D::Minus1)?);
    }
    Ok(vec![Tensor::stack(&ys, 0)?])
}

fn burn(_: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    let a = inputs.get::<2>("a");
    let [dt, b, c, x] = inputs.all::<4, 2>(["dt", "b", "c", "x"]);
    let (mut h, mut ys) = (a.zeros_like(), Vec::new());
    let rows = dt.iter_dim(0).zip(x.iter_dim(0)).zip(b.iter_dim(0).zip(c.iter_dim(0)));
    for ((dt, x), (b, c)) in rows {
        let decay = (dt.clone().swap_dims(0, 1) * a.clone()).exp();
        h = decay * h + (dt * x).swap_dims(0, 1) * b;
        ys.push((h.clone() * c).sum_dim(1).flatten::<1>(0, 1));
    }
    vec![burn::tensor::Tensor::cat(ys, 0)]
}
