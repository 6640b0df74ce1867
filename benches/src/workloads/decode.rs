//! Greedy decoding up to the end token: a while loop whose state contains a buffer and an index.

use candle_core::Tensor;
use funcify::{DType, Graph, HostTensor, Tree, Value, constant, full, while_loop_bounded};

use super::{Inputs, Loss, Numbers, Sizes, Workload};
use crate::inputs::{BurnInputs, CandleInputs};

pub(super) const WORKLOAD: Workload = Workload {
    full: &[Sizes(&[("T", 256), ("V", 1024), ("H", 128)])],
    quick: &[Sizes(&[("T", 32), ("V", 64), ("H", 16)])],
    loss: Loss::None,
    is_conditional: true,
    ..Workload::of("decode", "Early-stopping decode", inputs, graph, candle, burn)
};

#[derive(Clone, Tree)]
struct Outputs {
    count: Value,
    tokens: Value,
}

/// Draws the weights of an untrained network. The end token is the last one of the vocabulary. The network rarely emits
/// it, so usually all steps run.
fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [v, h] = ["V", "H"].map(|letter| sizes.get(letter));
    let scale = (h as f64).sqrt().recip();
    vec![
        ("embed", numbers.normal(&[v, h], 1.0)),
        ("u", numbers.normal(&[h, h], 1.2 * scale)),
        ("out", numbers.normal(&[h, v], scale)),
        ("h0", numbers.normal(&[h], 0.1)),
        ("first", HostTensor::scalar(1i64)),
        ("end", HostTensor::scalar(v as i64 - 1)),
    ]
}

fn graph(sizes: &Sizes) -> funcify::Result<Graph> {
    let most = sizes.get("T");
    Graph::build("decode", |g| {
        let (embed, u) = (g.input("embed", "f32[V,H]"), g.input("u", "f32[H,H]"));
        let (out, h0) = (g.input("out", "f32[H,V]"), g.input("h0", "f32[H]"));
        let (first, end) = (g.input("first", "i64[]"), g.input("end", "i64[]"));
        let start = (full([most], DType::I64, -1.0), constant(0i64), first, h0);
        let (tokens, count, _, _) = while_loop_bounded(
            most,
            start,
            |(_, _, token, _)| token.ne(end),
            |(tokens, count, token, h)| {
                let h = (embed.dynamic_index(0, token) + h.matmul(u)).tanh();
                let token = h.matmul(out).argmax(0);
                (tokens.dynamic_update(0, token.unsqueeze(0), count), count + 1, token, h)
            },
        );
        Outputs { count, tokens }
    })
}

fn candle(sizes: &Sizes, inputs: &CandleInputs) -> candle_core::Result<Vec<Tensor>> {
    let most = sizes.get("T");
    let [embed, u, out, h0, first, end] = inputs.all(["embed", "u", "out", "h0", "first", "end"]);
    let end = end.to_scalar::<i64>()?;
    let (mut token, mut h) = (first.to_scalar::<i64>()?, h0.unsqueeze(0)?);
    let (mut tokens, mut count) = (vec![-1i64; most], 0);
    while token != end && count < most {
        h = (embed.get(token as usize)?.unsqueeze(0)? + h.matmul(u)?)?.tanh()?;
        token = i64::from(h.matmul(out)?.argmax(1)?.get(0)?.to_scalar::<u32>()?);
        tokens[count] = token;
        count += 1;
    }
    Ok(vec![Tensor::new(count as i64, embed.device())?, Tensor::new(tokens, embed.device())?])
}

fn burn(sizes: &Sizes, inputs: &BurnInputs) -> Vec<burn::tensor::Tensor<1>> {
    use burn::tensor::Tensor;
    let most = sizes.get("T");
    let [embed, u, out] = inputs.all::<3, 2>(["embed", "u", "out"]);
    let integer = |name: &str| inputs.integers::<1>(name).into_scalar::<i64>();
    let (mut token, end) = (integer("first"), integer("end"));
    let mut h = inputs.get::<1>("h0").unsqueeze::<2>();
    let (mut tokens, mut count) = (vec![-1f32; most], 0);
    while token != end && count < most {
        let row = token as usize;
        h = (embed.clone().narrow(0, row, 1) + h.matmul(u.clone())).tanh();
        token = h.clone().matmul(out.clone()).argmax(1).into_scalar::<i64>();
        tokens[count] = token as f32;
        count += 1;
    }
    let device = embed.device();
    vec![Tensor::from_floats([count as f32], &device), Tensor::from_floats(tokens.as_slice(), &device)]
}
