//! Metropolis chains that sample a mixture of two normal distributions. The random numbers are drawn in advance.

use candle_core::Tensor;
use funcify::{Graph, Value, scan, select};

use super::{Inputs, Loss, Numbers, Sizes, Workload, output};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[Sizes(&[("T", 10_000), ("C", 1)]), Sizes(&[("T", 1000), ("C", 1024)])],
    quick: &[Sizes(&[("T", 50), ("C", 8)])],
    loss: Loss::None,
    ..Workload::of("metropolis", "Metropolis chains", inputs, graph, candle, burn)
};

/// The standard deviation of the proposal distribution.
const WIDTH: f64 = 0.8;

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, c] = ["T", "C"].map(|letter| sizes.get(letter));
    let accept = numbers.uniform(&[t, c], 0.0, 1.0);
    let log_u = accept.as_slice::<f32>().expect("random numbers are f32").iter().map(|u| (u + 1e-7).ln()).collect();
    vec![
        ("x0", numbers.normal(&[c], 1.0)),
        ("noise", numbers.normal(&[t, c], 1.0)),
        ("log_u", funcify::HostTensor::from_vec::<f32>(log_u, [t, c]).expect("one number for each step and chain")),
    ]
}

fn graph(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("metropolis", |g| {
        let (x0, noise, log_u) = (g.input("x0", "f32[C]"), g.input("noise", "f32[T,C]"), g.input("log_u", "f32[T,C]"));
        let density = |x: Value| (((x - 2.0).square() * -0.5).exp() + ((x + 2.0).square() * -0.5).exp()).log();
        let (_, xs) = scan(x0, (noise, log_u), |x, (noise, log_u)| {
            let proposal = x + noise * WIDTH;
            let x = select(log_u.lt(density(proposal) - density(x)), proposal, x);
            (x, x)
        });
        output("xs", xs)
    })
}

fn candle(_: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let bump = |x: &Tensor, center: f64| ((x - center)?.sqr()? * -0.5)?.exp();
    let density = |x: &Tensor| (bump(x, 2.0)? + bump(x, -2.0)?)?.log();
    let [x0, noise, log_u] = inputs.all(["x0", "noise", "log_u"]);
    let (mut x, mut xs) = (x0.clone(), Vec::new());
    for t in 0..noise.dim(0)? {
        let proposal = (&x + (noise.get(t)? * WIDTH)?)?;
        let accepted = log_u.get(t)?.lt(&(density(&proposal)? - density(&x)?)?)?;
        x = accepted.where_cond(&proposal, &x)?;
        xs.push(x.clone());
    }
    Ok(vec![Tensor::stack(&xs, 0)?])
}

fn burn(_: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    use burn::tensor::Tensor;
    let bump = |x: Tensor<2>, center: f64| ((x - center).square() * -0.5).exp();
    let density = |x: Tensor<2>| (bump(x.clone(), 2.0) + bump(x, -2.0)).log();
    let [noise, log_u] = inputs.all::<2, 2>(["noise", "log_u"]);
    let (mut x, mut xs) = (inputs.get::<1>("x0").unsqueeze::<2>(), Vec::new());
    for (noise, log_u) in noise.iter_dim(0).zip(log_u.iter_dim(0)) {
        let proposal = x.clone() + noise * WIDTH;
        let accepted = log_u.lower(density(proposal.clone()) - density(x.clone()));
        x = x.mask_where(accepted, proposal);
        xs.push(x.clone());
    }
    vec![Tensor::cat(xs, 0).flatten(0, 1)]
}
