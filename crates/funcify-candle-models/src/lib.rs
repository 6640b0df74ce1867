//! Models of `candle-transformers` (the library), reimplemented with compiled loops over the sequence: Mamba, Mamba-2,
//! RWKV 5 and 6, RecurrentGemma and the recurrent part of EnCodec.
//!
//! The library's models process a prompt token by token, or record every step for the backward pass. The models of
//! this crate process a whole prompt in one call and return the logits of all positions. Generation then continues
//! from the resulting state, token by token. Options and parameters have the library's names, so both implementations
//! can load the same weight files. States have the library's layout, so the library's model can continue from them if
//! its state has public fields. The outputs equal the library's up to rounding.
//!
//! The models can be trained: `backward()` computes the gradients of all parameters. (The library's norms and its
//! `softmax_last_dim` do not support gradients, and silently stop backpropagation to earlier layers.)
//!
//! ```
//! use candle_core::{DType, Device, Tensor};
//! use candle_nn::{VarBuilder, VarMap};
//! use funcify_candle_models::mamba::{Config, Model};
//!
//! # fn main() -> candle_core::Result<()> {
//! let config = Config { d_model: 8, n_layer: 2, vocab_size: 16, pad_vocab_size_multiple: 8 };
//! let weights = VarMap::new(); // or a file: `VarBuilder::from_mmaped_safetensors`
//! let model = Model::new(&config, VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu))?;
//!
//! let mut state = model.zero_state(1)?;
//! let prompt = Tensor::new(&[[3u32, 1, 4, 1, 5]], &Device::Cpu)?;
//! assert_eq!(model.forward(&prompt, &mut state)?.dims(), [1, 5, 16]);
//! let next = Tensor::new(&[[9u32]], &Device::Cpu)?;
//! assert_eq!(model.forward_last(&next, &mut state)?.dims(), [1, 16]);
//! assert_eq!(state.pos, 6);
//! # Ok(())
//! # }
//! ```

pub mod encodec;
pub mod mamba;
pub mod mamba2;
mod model;
pub mod recurrent_gemma;
pub mod rwkv;

use std::sync::Arc;

use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::{Embedding, Init, LayerNorm, Linear, RmsNorm, VarBuilder, ops};
use funcify_candle::{Candle, Differentiable, nn};
use funcify_core::error::{Place, Site};
use funcify_core::{Dim, Graph, TensorType, Value, scan};

use crate::model::{Architecture, Zeros, compile, convolution_parameters, padded_vocabulary, tied_logits};

pub use model::{Model, State};

/// Wraps the error in Candle's error type, preserving its message.
fn into_candle_error(error: funcify_core::Error) -> candle_core::Error {
    candle_core::Error::Wrapped(Box::new(error))
}

/// Returns the error for an invalid argument or option of a model.
#[track_caller]
fn mismatch(model: &str, component: &str, expected: &str, found: impl ToString, fix: &str) -> candle_core::Error {
    let at = Place::new(model, Site::caller());
    into_candle_error(at.mismatch(component, expected.to_string(), found.to_string(), fix))
}

/// Runs a compiled loop that has `N` results: the output sequence and the last states.
#[track_caller]
fn run_scan<const N: usize>(scan: &Differentiable, arguments: &[Tensor]) -> Result<[Tensor; N]> {
    scan.call(arguments)?.try_into().map_err(|results: Vec<Tensor>| {
        candle_core::Error::Msg(format!("`{}` returned {} results, not {N}", scan.graph().name(), results.len()))
    })
}

/// Returns the last step, `[batch, features]`, of a sequence `[batch, steps, features]`.
fn last_row(xs: &Tensor) -> Result<Tensor> {
    xs.narrow(1, xs.dim(1)? - 1, 1)?.squeeze(1)?.contiguous()
}

/// Prepends `before`, `[batch, earlier, features]`, to `xs`, `[batch, steps, features]`.
fn prepend_rows(before: &Tensor, xs: &Tensor) -> Result<Tensor> {
    Tensor::cat(&[before, xs], 1)
}

/// Computes a depthwise causal convolution of `xs`, `[batch, steps, features]`. The parameters have PyTorch's
/// layouts: `weight` is `[features, 1, width]`, and `bias` is `[features]`. `before` contains the `width - 1` rows
/// before the first step. Also returns the last `width - 1` rows, to be passed as `before` to the next call.
fn short_convolution(xs: &Tensor, before: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<(Tensor, Tensor)> {
    let (rows, steps) = (prepend_rows(before, xs)?, xs.dim(1)?);
    let taps = weight.squeeze(1)?.t()?;
    let width = taps.dim(0)?;
    let mut sum = None;
    for offset in 0..width {
        let part = rows.narrow(1, offset, steps)?.broadcast_mul(&taps.narrow(0, offset, 1)?.unsqueeze(0)?)?;
        sum = Some(match sum {
            None => part.broadcast_add(bias)?,
            Some(sum) => (sum + part)?,
        });
    }
    let Some(sum) = sum else { return Err(candle_core::Error::Msg("a convolution of width 0".into())) };
    Ok((sum, rows.narrow(1, steps, width - 1)?.contiguous()?))
}

/// Applies the RMS norm. If an operand is tracked, avoids Candle's fused kernel, which does not support gradients.
fn rms_norm(norm: &RmsNorm, xs: &Tensor) -> Result<Tensor> {
    match xs.track_op() || norm.weight().track_op() {
        true => norm.forward_diff(xs),
        false => norm.forward(xs),
    }
}

/// Applies the layer norm. If an operand is tracked, avoids Candle's fused kernel, which does not support gradients.
fn layer_norm(norm: &LayerNorm, xs: &Tensor) -> Result<Tensor> {
    match norm.bias() {
        Some(bias) if xs.track_op() || norm.weight().track_op() || bias.track_op() => {
            ops::layer_norm_slow(xs, norm.weight(), bias, norm.eps() as f32)
        }
        _ => norm.forward(xs),
    }
}
