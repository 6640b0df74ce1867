//! A diagonal linear state space model, as in S5: `x = a x + bu` with complex numbers. Two workloads compute this
//! model: `s5` by an associative scan, and `s5_scan` by an ordinary scan.

use candle_core::Tensor;
use funcify::{Graph, Tree, Value, associative_scan, scan};

use super::{Inputs, Numbers, Sizes, Workload};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const PARALLEL: Workload = Workload {
    full: &[Sizes(&[("T", 4096), ("P", 20)]), Sizes(&[("T", 65_536), ("P", 20)])],
    quick: &[Sizes(&[("T", 64), ("P", 8)])],
    growth: &[
        Sizes(&[("T", 64), ("P", 20)]),
        Sizes(&[("T", 256), ("P", 20)]),
        Sizes(&[("T", 1024), ("P", 20)]),
        Sizes(&[("T", 16_384), ("P", 20)]),
    ],
    differentiated: &["a_re", "a_im", "bu_re", "bu_im"],
    ..Workload::of("s5", "S5 by an associative scan", inputs, parallel, candle, burn)
};

pub(super) const STEPWISE: Workload =
    Workload { name: "s5_scan", title: "S5 by a scan", graph: stepwise, growth: &[], ..PARALLEL };

#[derive(Clone, Tree)]
struct Outputs {
    x_re: Value,
    x_im: Value,
}

/// The real and imaginary parts of a complex tensor.
type Complex = (Value, Value);

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, p] = ["T", "P"].map(|letter| sizes.get(letter));
    vec![
        ("a_re", numbers.uniform(&[p], 0.5, 0.9)),
        ("a_im", numbers.uniform(&[p], -0.4, 0.4)),
        ("bu_re", numbers.normal(&[t, p], 1.0)),
        ("bu_im", numbers.normal(&[t, p], 1.0)),
    ]
}

fn multiply(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

fn parallel(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("s5", |g| {
        let (a, bu) = model(g);
        let rates = (a.0.broadcast_to(bu.0.shape()), a.1.broadcast_to(bu.1.shape()));
        let (_, (x_re, x_im)) = associative_scan((rates, bu), |(a1, b1), (a2, b2)| {
            let moved = multiply(a2, b1);
            (multiply(a2, a1), (moved.0 + b2.0, moved.1 + b2.1))
        });
        Outputs { x_re, x_im }
    })
}

fn stepwise(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("s5_scan", |g| {
        let (a, bu) = model(g);
        let start = (a.0.zeros_like(), a.1.zeros_like());
        let (_, (x_re, x_im)) = scan(start, bu, |x, u| {
            let moved = multiply(a, x);
            let next = (moved.0 + u.0, moved.1 + u.1);
            (next, next)
        });
        Outputs { x_re, x_im }
    })
}

/// Declares the inputs of the graph: the decay factors `a`, and the input terms `bu`.
fn model(g: &funcify::Builder) -> (Complex, Complex) {
    let a = (g.input("a_re", "f32[P]"), g.input("a_im", "f32[P]"));
    (a, (g.input("bu_re", "f32[T,P]"), g.input("bu_im", "f32[T,P]")))
}

fn candle(_: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let [a_re, a_im, bu_re, bu_im] = inputs.all(["a_re", "a_im", "bu_re", "bu_im"]);
    let (mut re, mut im) = (a_re.zeros_like()?, a_im.zeros_like()?);
    let (mut all_re, mut all_im) = (Vec::new(), Vec::new());
    for t in 0..bu_re.dim(0)? {
        let next_re = (((a_re * &re)? - (a_im * &im)?)? + bu_re.get(t)?)?;
        im = (((a_re * &im)? + (a_im * &re)?)? + bu_im.get(t)?)?;
        re = next_re;
        all_re.push(re.clone());
        all_im.push(im.clone());
    }
    Ok(vec![Tensor::stack(&all_re, 0)?, Tensor::stack(&all_im, 0)?])
}

fn burn(_: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    let [a_re, a_im] = inputs.all::<2, 1>(["a_re", "a_im"]).map(|rates| rates.unsqueeze::<2>());
    let [bu_re, bu_im] = inputs.all::<2, 2>(["bu_re", "bu_im"]);
    let (mut re, mut im) = (a_re.zeros_like(), a_im.zeros_like());
    let (mut all_re, mut all_im) = (Vec::new(), Vec::new());
    for (u_re, u_im) in bu_re.iter_dim(0).zip(bu_im.iter_dim(0)) {
        let next_re = a_re.clone() * re.clone() - a_im.clone() * im.clone() + u_re;
        im = a_re.clone() * im + a_im.clone() * re + u_im;
        re = next_re;
        all_re.push(re.clone());
        all_im.push(im.clone());
    }
    [all_re, all_im].map(|rows| burn::tensor::Tensor::cat(rows, 0).flatten(0, 1)).into()
}
