//! A running sum, written as a general scan. It measures the overhead of a step. With a single step and a single
//! number, it measures the overhead of a call.

use candle_core::Tensor;
use funcify::{Graph, scan};

use super::{Inputs, Numbers, Sizes, Workload, output};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[Sizes(&[("T", 1), ("W", 1)]), Sizes(&[("T", 100_000), ("W", 1)]), Sizes(&[("T", 10_000), ("W", 256)])],
    quick: &[Sizes(&[("T", 500), ("W", 16)])],
    differentiated: &["xs"],
    ..Workload::of("running_sum", "Running sum by a scan", inputs, graph, candle, burn)
};

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    vec![("xs", numbers.normal(&[sizes.get("T"), sizes.get("W")], 0.1))]
}

fn graph(sizes: &Sizes) -> funcify::Result<Graph> {
    Graph::build("running_sum", |g| {
        let xs = g.input("xs", format!("f32[T,{}]", sizes.get("W")).as_str());
        let start = funcify::full([sizes.get("W")], funcify::DType::F32, 0.0);
        let (_, ys) = scan(start, xs, |sum, x| (sum + x, sum + x));
        output("ys", ys)
    })
}

fn candle(_: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let [xs] = inputs.all(["xs"]);
    let (mut sum, mut ys) = (Tensor::zeros(xs.dim(1)?, xs.dtype(), xs.device())?, Vec::new());
    for t in 0..xs.dim(0)? {
        sum = (sum + xs.get(t)?)?;
        ys.push(sum.clone());
    }
    Ok(vec![Tensor::stack(&ys, 0)?])
}

fn burn(_: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    let xs = inputs.get::<2>("xs");
    let [_, width] = xs.dims();
    let (mut sum, mut ys) = (burn::tensor::Tensor::<2>::zeros([1, width], &xs.device()), Vec::new());
    for x in xs.iter_dim(0) {
        sum = sum + x;
        ys.push(sum.clone());
    }
    vec![burn::tensor::Tensor::cat(ys, 0).flatten(0, 1)]
}
