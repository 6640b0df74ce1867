//! The likelihood of many series under one linear model with several states, computed by batched Kalman filters.

use std::f64::consts::PI;

use candle_core::{D, DType as CandleDType, Tensor};
use funcify::{DType, Graph, constant, eye, full, scan};

use super::{Inputs, Loss, Numbers, Sizes, Workload, output};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[Sizes(&[("T", 200), ("S", 64), ("N", 4)])],
    quick: &[Sizes(&[("T", 20), ("S", 4), ("N", 3)])],
    loss: Loss::Output,
    differentiated: &["a", "c", "log_q", "log_r"],
    ..Workload::of("kalman_series", "Kalman filters, 64 series", inputs, graph, candle, burn)
};

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, s, n] = ["T", "S", "N"].map(|letter| sizes.get(letter));
    vec![
        ("ys", numbers.normal(&[t, s], 1.0)),
        ("a", numbers.normal(&[n, n], 0.4 / (n as f64).sqrt())),
        ("c", numbers.normal(&[n], 1.0)),
        ("log_q", funcify::HostTensor::scalar(-1.5f32)),
        ("log_r", funcify::HostTensor::scalar(-0.2f32)),
    ]
}

fn graph(sizes: &Sizes) -> funcify::Result<Graph> {
    let [s, n] = ["S", "N"].map(|letter| sizes.get(letter));
    Graph::build("kalman_series", |g| {
        let ys = g.input("ys", format!("f32[T,{s}]").as_str());
        let (a, c) = (g.input("a", format!("f32[{n},{n}]").as_str()), g.input("c", format!("f32[{n}]").as_str()));
        let (q, r) = (g.input("log_q", "f32[]").exp(), g.input("log_r", "f32[]").exp());
        let unit = eye(n, DType::F32);
        let start = (full([s, n], DType::F32, 0.0), unit.broadcast_to([s, n, n]), constant(0f32));
        let ((_, _, nll), ()) = scan(start, ys, |(m, p, nll), y| {
            let pc = (p * c).sum(2);
            let f = (pc * c).sum(1) + r;
            let v = y - (m * c).sum(1);
            let k = pc / f.unsqueeze(1);
            let cost = (((2.0 * PI).ln() + f.log() + v * v / f) * 0.5).sum(0);
            let m = (m + k * v.unsqueeze(1)).matmul(a.t());
            let shrunk = p - k.unsqueeze(2) * pc.unsqueeze(1);
            let p = a.broadcast_to([s, n, n]).matmul(shrunk).matmul(a.t().broadcast_to([s, n, n])) + unit * q;
            ((m, p, nll + cost), ())
        });
        let count = funcify::size(ys.dim(0), DType::F32) * s as f64;
        output("nll", nll / count)
    })
}

fn candle(sizes: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let [t, s, n] = ["T", "S", "N"].map(|letter| sizes.get(letter));
    let [ys, a, c, log_q, log_r] = inputs.all(["ys", "a", "c", "log_q", "log_r"]);
    let (r, unit) = (log_r.exp()?, Tensor::eye(n, CandleDType::F32, ys.device())?);
    let noise = unit.broadcast_mul(&log_q.exp()?)?;
    let every = a.broadcast_as((s, n, n))?.contiguous()?;
    let (transposed, of_states) = (a.t()?.broadcast_as((s, n, n))?.contiguous()?, a.t()?.contiguous()?);
    let mut m = Tensor::zeros((s, n), CandleDType::F32, ys.device())?;
    let mut p = unit.broadcast_as((s, n, n))?.contiguous()?;
    let mut nll = Tensor::new(0f32, ys.device())?;
    for step in 0..t {
        let pc = p.broadcast_mul(c)?.sum(D::Minus1)?;
        let f = pc.broadcast_mul(c)?.sum(D::Minus1)?.broadcast_add(&r)?;
        let v = (ys.get(step)? - m.broadcast_mul(c)?.sum(D::Minus1)?)?;
        let k = pc.broadcast_div(&f.unsqueeze(1)?)?;
        nll = (nll + (((f.log()? + (v.sqr()? / &f)?)? + (2.0 * PI).ln())? * 0.5)?.sum_all()?)?;
        m = (m + k.broadcast_mul(&v.unsqueeze(1)?)?)?.matmul(&of_states)?;
        let shrunk = (p - k.unsqueeze(2)?.broadcast_mul(&pc.unsqueeze(1)?)?)?;
        p = every.matmul(&shrunk)?.matmul(&transposed)?.broadcast_add(&noise)?;
    }
    Ok(vec![(nll / (t * s) as f64)?])
}

fn burn(sizes: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    let [t, s, n] = ["T", "S", "N"].map(|letter| sizes.get(letter));
    let (ys, a) = (inputs.get::<2>("ys"), inputs.get::<2>("a"));
    let c = inputs.get::<1>("c");
    let [q, r] = inputs.all::<2, 1>(["log_q", "log_r"]).map(|logarithm| logarithm.exp());
    let unit = burn::tensor::Tensor::<2>::eye(n, &ys.device());
    let noise = (unit.clone() * q.unsqueeze::<2>()).unsqueeze::<3>();
    let (row, cube) = (c.clone().unsqueeze::<2>(), c.unsqueeze::<3>());
    let every = a.clone().unsqueeze::<3>();
    let transposed = a.transpose();
    let mut m = burn::tensor::Tensor::<2>::zeros([s, n], &ys.device());
    let mut p = unit.unsqueeze::<3>().expand([s, n, n]);
    let mut nll = burn::tensor::Tensor::<1>::zeros([1], &ys.device());
    for y in ys.iter_dim(0) {
        let pc = (p.clone() * cube.clone()).sum_dim(2).squeeze_dim::<2>(2);
        let f = (pc.clone() * row.clone()).sum_dim(1) + r.clone().unsqueeze::<2>();
        let v = y.transpose() - (m.clone() * row.clone()).sum_dim(1);
        let k = pc.clone() / f.clone();
        nll = nll + ((f.clone().log() + v.clone() * v.clone() / f + (2.0 * PI).ln()) * 0.5).sum();
        m = (m + k.clone() * v).matmul(transposed.clone());
        let shrunk = p - k.unsqueeze_dim::<3>(2) * pc.unsqueeze_dim::<3>(1);
        p = every.clone().matmul(shrunk).matmul(transposed.clone().unsqueeze::<3>()) + noise.clone();
    }
    vec![nll / (t * s) as f64]
}
