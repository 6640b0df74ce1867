//! The language model as a graph for any backend, used for serving.

use std::collections::BTreeMap;

use funcify::nn::SelectiveScan;
use funcify::prelude::*;

use crate::learner::{EPSILON, Sizes, TOKENS, WINDOW, Weights};

/// Builds the graph of the model over a sequence of bytes. Its inputs are the embeddings of the bytes, `xs
/// [T,B,width]`; the initial state of each layer, starting with `state_0 [B,inner,states]`; and the weights, in the
/// order of their names. Its output is the logits `[T,B,256]`.
pub(crate) fn language_model(sizes: Sizes, weights: &Weights) -> funcify::Result<Graph> {
    let core = SelectiveScan { batch_first: false, ..sizes.scan() }.layer()?;
    Graph::build("language_model", |g| {
        let dims = [Dim::from("T"), Dim::from("B"), Dim::from(sizes.width)];
        let mut xs = g.input("xs", TensorType::new(DType::F32, dims));
        let states: Vec<Value> =
            (0..sizes.layers).map(|layer| g.input(&format!("state_{layer}"), core.states[0].clone())).collect();
        let of_names = weights.iter().map(|(name, tensor)| {
            (name.as_str(), g.input(&name.replace('.', "_"), TensorType::new(DType::F32, tensor.shape())))
        });
        let weights: BTreeMap<&str, Value> = of_names.collect();
        for (layer, state) in states.into_iter().enumerate() {
            let of = |name: &str| weights[format!("layers.{layer}.{name}").as_str()];
            let parts = linear(rms_norm(xs, of("norm.weight")), of("in_proj.weight"));
            let (us, gate) = (parts.slice(2, ..sizes.inner() as i64), parts.slice(2, sizes.inner() as i64..));
            let us = convolve(us, of("conv.weight"), of("conv.bias")).silu();
            let parameters = core.parameters.iter().map(|parameter| of(&format!("scan.{}", parameter.name)));
            let arguments: Vec<Value> = [us, state].into_iter().chain(parameters).collect();
            let ys = core.graph.apply(&arguments)[0];
            xs = xs + linear(ys * gate.silu(), of("out_proj.weight"));
        }
        linear(rms_norm(xs, weights["norm.weight"]), weights["embedding.weight"])
    })
}

fn linear(xs: Value, weight: Value) -> Value {
    xs.dot_general(weight, &[(-1, 1)], &[])
}

fn rms_norm(xs: Value, weight: Value) -> Value {
    xs / (xs.square().mean(2).unsqueeze(2) + EPSILON).sqrt() * weight
}

fn convolve(us: Value, weight: Value, bias: Value) -> Value {
    let padded = us.pad(0, WINDOW - 1, 0, 0.0);
    let last = WINDOW as i64 - 1;
    let shifted = |back: i64| match back {
        _ if back == last => padded.slice(0, last..),
        _ => padded.slice(0, back..back - last),
    };
    (0..=last).fold(us.zeros_like() + bias, |sum, back| sum + shifted(back) * weight.index(0, back))
}

/// Returns all inputs of the graph except the sequence, for `streams` new streams, whose states are zero.
pub(crate) fn other_inputs(sizes: Sizes, weights: &Weights, streams: usize) -> Vec<HostTensor> {
    let shape = [streams, sizes.inner(), sizes.scan().states];
    let zeros = HostTensor::from_fn(DType::F32, &shape, |_| funcify::Scalar::Float(0.0));
    std::iter::repeat_n(zeros, sizes.layers).chain(weights.values().cloned()).collect()
}

/// Returns the embeddings of these bytes, of shape `[count,width]`, or `None` if the weights have no embedding matrix.
pub(crate) fn features(weights: &Weights, bytes: &[u8]) -> Option<HostTensor> {
    let table = weights.get("embedding.weight")?;
    let [TOKENS, width] = *table.shape() else { return None };
    let rows = table.as_slice::<f32>()?;
    let features = bytes.iter().flat_map(|byte| &rows[usize::from(*byte) * width..][..width]);
    HostTensor::from_vec(features.copied().collect(), [bytes.len(), width])
}
