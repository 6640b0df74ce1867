//! A neural ordinary differential equation, integrated by the classical Runge-Kutta method.

use candle_core::Tensor;
use funcify::{Graph, ScanOptions, Value, scan_with};

use super::{Inputs, Numbers, Sizes, Workload, output};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[Sizes(&[("T", 100), ("B", 32), ("H", 64)])],
    quick: &[Sizes(&[("T", 10), ("B", 4), ("H", 8)])],
    differentiated: &["w1", "b1", "w2", "b2"],
    ..Workload::of("neural_ode", "Neural ODE, RK4", inputs, graph, candle, burn)
};

/// The time step of the integration.
const STEP: f64 = 1.0 / 16.0;

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [b, h] = ["B", "H"].map(|letter| sizes.get(letter));
    vec![
        ("y0", numbers.normal(&[b, 2], 1.0)),
        ("w1", numbers.normal(&[2, h], 0.7)),
        ("b1", numbers.normal(&[h], 0.1)),
        ("w2", numbers.normal(&[h, 2], (h as f64).sqrt().recip())),
        ("b2", numbers.normal(&[2], 0.1)),
    ]
}

fn graph(sizes: &Sizes) -> funcify::Result<Graph> {
    Graph::build("neural_ode", |g| {
        let y0 = g.input("y0", "f32[B,2]");
        let (w1, b1) = (g.input("w1", "f32[2,H]"), g.input("b1", "f32[H]"));
        let (w2, b2) = (g.input("w2", "f32[H,2]"), g.input("b2", "f32[2]"));
        let field = |y: Value| (y.matmul(w1) + b1).tanh().matmul(w2) + b2;
        let (_, ys) = scan_with(ScanOptions::new().length(sizes.get("T")), y0, (), |y, ()| {
            let k1 = field(y);
            let k2 = field(y + k1 * (STEP / 2.0));
            let k3 = field(y + k2 * (STEP / 2.0));
            let k4 = field(y + k3 * STEP);
            let y = y + (k1 + (k2 + k3) * 2.0 + k4) * (STEP / 6.0);
            (y, y)
        });
        output("ys", ys)
    })
}

fn candle(sizes: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let [y0, w1, b1, w2, b2] = inputs.all(["y0", "w1", "b1", "w2", "b2"]);
    let field = |y: &Tensor| y.matmul(w1)?.broadcast_add(b1)?.tanh()?.matmul(w2)?.broadcast_add(b2);
    let (mut y, mut ys) = (y0.clone(), Vec::new());
    for _ in 0..sizes.get("T") {
        let k1 = field(&y)?;
        let k2 = field(&(&y + (&k1 * (STEP / 2.0))?)?)?;
        let k3 = field(&(&y + (&k2 * (STEP / 2.0))?)?)?;
        let k4 = field(&(&y + (&k3 * STEP)?)?)?;
        y = (y + (((k1 + ((k2 + k3)? * 2.0)?)? + k4)? * (STEP / 6.0))?)?;
        ys.push(y.clone());
    }
    Ok(vec![Tensor::stack(&ys, 0)?])
}

fn burn(sizes: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    use burn::tensor::Tensor;
    let [w1, w2] = inputs.all::<2, 2>(["w1", "w2"]);
    let [b1, b2] = inputs.all::<2, 1>(["b1", "b2"]).map(|bias| bias.unsqueeze::<2>());
    let field = |y: Tensor<2>| (y.matmul(w1.clone()) + b1.clone()).tanh().matmul(w2.clone()) + b2.clone();
    let (mut y, mut ys) = (inputs.get::<2>("y0"), Vec::new());
    for _ in 0..sizes.get("T") {
        let k1 = field(y.clone());
        let k2 = field(y.clone() + k1.clone() * (STEP / 2.0));
        let k3 = field(y.clone() + k2.clone() * (STEP / 2.0));
        let k4 = field(y.clone() + k3.clone() * STEP);
        y = y + (k1 + (k2 + k3) * 2.0 + k4) * (STEP / 6.0);
        ys.push(y.clone());
    }
    vec![Tensor::stack::<3>(ys, 0).flatten(0, 2)]
}
