//! Imports the ops of Burn's layers.

use burn_ir::{AttentionOpIr, ModuleOperationIr, TensorIr};
use funcify_core::ops::ConvOptions;
use funcify_core::{DType, Shape, Value, full, iota, select};

use super::numeric::at_least;
use super::{Env, Imported, float_of, number, one, shape, sizes};

/// Imports a convolution without its bias. This is a macro because Burn has different op types for 1D and 2D
/// convolutions.
macro_rules! convolve {
    ($env:expr, $op:expr) => {{
        let options = ConvOptions {
            strides: $op.options.stride,
            padding: $op.options.padding.map(|(low, high)| (low as i64, high as i64)),
            dilation: $op.options.dilation,
            groups: $op.options.groups,
            ..ConvOptions::default()
        };
        $env.get(&$op.x)?.conv($env.get(&$op.weight)?, options)
    }};
}

pub(super) fn row(env: &Env, op: &ModuleOperationIr) -> Imported {
    use ModuleOperationIr as Op;
    one(match op {
        Op::Embedding(op) => env.get(&op.weights)?.take(0, env.get(&op.indices)?),
        Op::Linear(op) => {
            let x = env.get(&op.x)?.matmul(env.get(&op.weight)?);
            add_bias(x, op.bias.as_ref().map(|bias| env.get(bias)))?
        }
        Op::LayerNorm(op) => {
            let x = env.get(&op.input)?;
            let centred = x - x.mean(-1).unsqueeze(-1);
            let variance = centred.square().mean(-1).unsqueeze(-1);
            let scaled = centred / (variance + number(&op.epsilon, x)).sqrt() * env.get(&op.gamma)?;
            add_bias(scaled, op.beta.as_ref().map(|beta| env.get(beta)))?
        }
        Op::BatchNorm(op) => {
            let x = env.get(&op.x)?;
            let mut channels = vec![1; sizes(&op.x).len()];
            *channels.get_mut(1)? = *sizes(&op.x).get(1)?;
            let of = |tensor: &TensorIr| env.get(tensor).map(|value| value.reshape(channels.as_slice()));
            let deviation = (of(&op.variance)? + number(&op.epsilon, x)).sqrt();
            (x - of(&op.mean)?) / deviation * of(&op.gamma)? + of(&op.beta)?
        }
        Op::Conv1d(op) => {
            let bias = |bias: &TensorIr| env.get(bias).map(|bias| bias.unsqueeze(1));
            add_bias(convolve!(env, op), op.bias.as_ref().map(bias))?
        }
        Op::Conv2d(op) => {
            let bias = |bias: &TensorIr| env.get(bias).map(|bias| bias.unsqueeze(1).unsqueeze(2));
            add_bias(convolve!(env, op), op.bias.as_ref().map(bias))?
        }
        Op::Attention(op) => attention(env, op)?,
        _ => return None,
    })
}

/// Adds the bias of an op to `x`, if the op has one. Returns `None` if the bias was not recorded.
fn add_bias(x: Value, bias: Option<Option<Value>>) -> Option<Value> {
    match bias {
        None => Some(x),
        Some(bias) => Some(x + bias?),
    }
}

/// Computes attention as Burn's `attention_fallback` does: scores, a soft cap, masks, a bias, and a softmax that
/// supports fully masked rows.
fn attention(env: &Env, op: &AttentionOpIr) -> Option<Value> {
    let (query, key, value) = (env.get(&op.query)?, env.get(&op.key)?, env.get(&op.value)?);
    let width = *sizes(&op.query).last()? as f64;
    let scale = op.options.scale.as_ref().map_or(1.0 / width.sqrt(), float_of);
    let mut scores = query.matmul(key.t()) * scale;
    if let Some(cap) = op.options.softcap.as_ref().map(float_of) {
        scores = (scores / cap).tanh() * cap;
    }
    if let Some(mask) = &op.mask {
        scores = select(env.get(mask)?, f64::NEG_INFINITY, scores);
    }
    if op.options.is_causal {
        let (rows, columns) = (scores.dim(-2), scores.dim(-1));
        let is_later = iota(columns, DType::I64).gt(iota(rows, DType::I64).unsqueeze(1));
        scores = select(is_later, f64::NEG_INFINITY, scores);
    }
    if let Some(bias) = &op.attn_bias {
        scores = scores + env.get(bias)?;
    }
    let (lowest, least) = match scores.dtype() {
        DType::F64 => (f64::MIN, f64::MIN_POSITIVE),
        DType::F32 => (f64::from(f32::MIN), f64::from(f32::MIN_POSITIVE)),
        _ => return None,
    };
    let largest = scores.max(-1).unsqueeze(-1).stop_gradient();
    let weights = (scores - at_least(largest, full(Shape::scalar(), scores.dtype(), lowest))).exp();
    let sum = weights.sum(-1).unsqueeze(-1);
    let result = (weights / at_least(sum, full(Shape::scalar(), scores.dtype(), least))).matmul(value);
    Some(result.reshape(shape(&op.out)))
}
