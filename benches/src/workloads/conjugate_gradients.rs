//! The conjugate gradient method, written as a while loop that runs until the residual is small.

use candle_core::Tensor;
use funcify::{DType, Graph, HostTensor, Scalar, Value, constant, while_loop_bounded};

use super::{Inputs, Numbers, Sizes, Workload, output};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[Sizes(&[("N", 256)])],
    quick: &[Sizes(&[("N", 32)])],
    differentiated: &["b"],
    is_conditional: true,
    ..Workload::of("conjugate_gradients", "Conjugate gradients", inputs, graph, candle, burn)
};

/// The relative tolerance: the loop ends when the squared residual falls below this fraction of its initial value.
const TOLERANCE: f64 = 1e-10;

/// Draws a right-hand side, and a symmetric matrix with eigenvalues between 1 and about 25: `I + G Gᵀ`, where `G` is an
/// N by 2N matrix of random numbers.
fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let n = sizes.get("N");
    let factor = numbers.normal(&[n, 2 * n], 2.0 / (2.0 * n as f64).sqrt());
    let factor = factor.as_slice::<f32>().expect("random numbers are f32");
    let a = HostTensor::from_fn(DType::F32, &[n, n], |index| {
        let [left, right] = [index[0], index[1]].map(|row| &factor[row * 2 * n..(row + 1) * 2 * n]);
        let dot: f64 = left.iter().zip(right).map(|(l, r)| f64::from(*l) * f64::from(*r)).sum();
        Scalar::Float(dot + f64::from(u8::from(index[0] == index[1])))
    });
    vec![("a", a), ("b", numbers.normal(&[n], 1.0))]
}

fn graph(sizes: &Sizes) -> funcify::Result<Graph> {
    let n = sizes.get("N");
    Graph::build("conjugate_gradients", |g| {
        let (a, b) = (g.input("a", format!("f32[{n},{n}]").as_str()), g.input("b", format!("f32[{n}]").as_str()));
        let dot = |x: Value, y: Value| (x * y).sum(0);
        let square = dot(b, b);
        let start = (b.zeros_like(), b, b, square);
        let (x, _, _, _) = while_loop_bounded(
            n,
            start,
            |(_, _, _, rr)| rr.gt(square * constant(TOLERANCE as f32)),
            |(x, r, p, rr)| {
                let ap = a.matmul(p);
                let alpha = rr / dot(p, ap);
                let r = r - alpha * ap;
                let next = dot(r, r);
                (x + alpha * p, r, r + (next / rr) * p, next)
            },
        );
        output("x", x)
    })
}

fn candle(sizes: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let [a, b] = inputs.all(["a", "b"]);
    let dot = |x: &Tensor, y: &Tensor| (x * y)?.sum_all();
    let (mut x, mut r, mut p) = (b.zeros_like()?, b.clone(), b.clone());
    let mut rr = dot(b, b)?;
    let enough = f64::from(rr.to_scalar::<f32>()?) * TOLERANCE;
    for _ in 0..sizes.get("N") {
        if f64::from(rr.to_scalar::<f32>()?) <= enough {
            break;
        }
        let ap = a.matmul(&p.unsqueeze(1)?)?.squeeze(1)?;
        let alpha = (&rr / dot(&p, &ap)?)?;
        x = (x + p.broadcast_mul(&alpha)?)?;
        r = (r - ap.broadcast_mul(&alpha)?)?;
        let next = dot(&r, &r)?;
        p = (&r + p.broadcast_mul(&(&next / rr)?)?)?;
        rr = next;
    }
    Ok(vec![x])
}

fn burn(sizes: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    use burn::tensor::Tensor;
    let (a, b) = (inputs.get::<2>("a"), inputs.get::<1>("b"));
    let dot = |x: Tensor<1>, y: Tensor<1>| (x * y).sum();
    let number = |x: &Tensor<1>| f64::from(x.clone().into_scalar::<f32>());
    let (mut x, mut r, mut p) = (b.zeros_like(), b.clone(), b.clone());
    let mut rr = dot(b.clone(), b);
    let enough = number(&rr) * TOLERANCE;
    for _ in 0..sizes.get("N") {
        if number(&rr) <= enough {
            break;
        }
        let ap = a.clone().matmul(p.clone().unsqueeze_dim::<2>(1)).squeeze_dim::<1>(1);
        let alpha = rr.clone() / dot(p.clone(), ap.clone());
        x = x + p.clone() * alpha.clone();
        r = r - ap * alpha;
        let next = dot(r.clone(), r.clone());
        p = r.clone() + p * (next.clone() / rr);
        rr = next;
    }
    vec![x]
}
