//! The likelihood of a local level model, computed by a Kalman filter: a loop over scalars.

use std::f64::consts::PI;

use candle_core::Tensor;
use funcify::{Graph, constant, scan};

use super::{Inputs, Loss, Numbers, Sizes, Workload, output};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[Sizes(&[("T", 1000)])],
    quick: &[Sizes(&[("T", 50)])],
    loss: Loss::Output,
    differentiated: &["log_q", "log_r"],
    ..Workload::of("kalman", "Kalman filter, scalar", inputs, graph, candle, burn)
};

/// The prior variance of the level, before the first observation.
const DIFFUSE: f64 = 1e7;

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [log_q, log_r] = [-1.5f32, -0.2].map(funcify::HostTensor::scalar);
    vec![("ys", numbers.normal(&[sizes.get("T")], 1.0)), ("log_q", log_q), ("log_r", log_r)]
}

fn graph(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("kalman", |g| {
        let ys = g.input("ys", "f32[T]");
        let (q, r) = (g.input("log_q", "f32[]").exp(), g.input("log_r", "f32[]").exp());
        let start = (constant(0f32), constant(DIFFUSE as f32), constant(0f32));
        let ((_, _, nll), ()) = scan(start, ys, |(m, p, nll), y| {
            let f = p + r;
            let v = y - m;
            let k = p / f;
            let cost = ((2.0 * PI).ln() + f.log() + v * v / f) * 0.5;
            ((m + k * v, p * r / f + q, nll + cost), ())
        });
        output("nll", nll)
    })
}

fn candle(_: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let [ys, log_q, log_r] = inputs.all(["ys", "log_q", "log_r"]);
    let (q, r) = (log_q.exp()?, log_r.exp()?);
    let (mut m, mut p, mut nll) = (r.zeros_like()?, Tensor::new(DIFFUSE as f32, ys.device())?, r.zeros_like()?);
    for t in 0..ys.dim(0)? {
        let f = (&p + &r)?;
        let v = (ys.get(t)? - &m)?;
        let k = (&p / &f)?;
        nll = (nll + (((f.log()? + (v.sqr()? / &f)?)? + (2.0 * PI).ln())? * 0.5)?)?;
        m = (m + (k * v)?)?;
        p = (((p * &r)? / f)? + &q)?;
    }
    Ok(vec![nll])
}

fn burn(_: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    let ys = inputs.get::<1>("ys");
    let [q, r] = inputs.all::<2, 1>(["log_q", "log_r"]).map(|logarithm| logarithm.exp());
    let (mut m, mut p, mut nll) = (r.zeros_like(), r.ones_like() * DIFFUSE, r.zeros_like());
    for y in ys.iter_dim(0) {
        let f = p.clone() + r.clone();
        let v = y - m.clone();
        let k = p.clone() / f.clone();
        nll = nll + (f.clone().log() + v.clone() * v.clone() / f.clone() + (2.0 * PI).ln()) * 0.5;
        m = m + k * v;
        p = p * r.clone() / f + q.clone();
    }
    vec![nll]
}
