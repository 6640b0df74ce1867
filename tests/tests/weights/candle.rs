//! The models in Candle. Their recurrent mixers are funcify's layers; everything else is built from Candle's ops and
//! candle_nn.

use std::collections::{BTreeMap, HashMap};

use candle_core::{DType, Device, Module, Result, Tensor, Var};
use candle_nn::ops::{layer_norm_slow, rms_norm_slow, sigmoid, softmax};
use candle_nn::rotary_emb::rope_slow;
use candle_nn::{Embedding, Linear, VarBuilder};
use funcify::HostTensor;
use funcify::nn::{Cell, Recurrent};
use funcify_candle::nn::{
    DeltaNet, Griffin, Gru, Lstm, Mamba, Mamba2, RecurrentConfig, ReluRnn, Rnn, Rwkv4, XlstmLarge,
};

use crate::golden::{Golden, Tensors};
use crate::{
    FEATURES, LAYERS, ROTATED, VOCABULARY, attention_mask, gated_delta_net as delta_options, mamba, mamba2,
    recurrent_gemma, rotations, rwkv, xlstm,
};

fn var(tensor: &HostTensor) -> Var {
    let numbers = tensor.as_slice::<f32>().unwrap();
    Var::from_tensor(&Tensor::from_slice(numbers, tensor.shape(), &Device::Cpu).unwrap()).unwrap()
}

fn host(tensor: &Tensor) -> HostTensor {
    HostTensor::from_vec(tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap(), tensor.dims()).unwrap()
}

fn variables(golden: &Golden) -> BTreeMap<String, Var> {
    golden.weights.iter().map(|(name, tensor)| (name.clone(), var(tensor))).collect()
}

fn builder(vars: &BTreeMap<String, Var>) -> VarBuilder<'static> {
    let tensors: HashMap<String, Tensor> =
        vars.iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect();
    VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu)
}

/// Returns the outputs, and the gradients of a loss with respect to the variables. To compute the loss, multiplies each
/// output elementwise by its cotangent `ct`, and sums all the products.
fn results(outputs: &[(&str, Tensor, &HostTensor)], vars: &BTreeMap<String, Var>) -> Result<Tensors> {
    let mut loss = Tensor::zeros((), DType::F32, &Device::Cpu)?;
    let mut found = Tensors::new();
    for (name, output, ct) in outputs {
        loss = (loss + (output * var(ct).as_tensor())?.sum_all()?)?;
        found.insert(name.to_string(), host(output));
    }
    let gradients = loss.backward()?;
    for (name, var) in vars {
        let gradient = gradients.get(var).unwrap_or_else(|| panic!("no gradient of `{name}`"));
        found.insert(format!("grad.{name}"), host(gradient));
    }
    Ok(found)
}

/// Computes the outputs and gradients of a `transformers` model, for the tokens in the golden file.
pub(crate) fn model(name: &str, golden: &Golden) -> Result<Tensors> {
    let vars: BTreeMap<String, Var> = golden.weights.iter().map(|(name, tensor)| (name.clone(), var(tensor))).collect();
    let vb = builder(&vars);
    let tokens = golden.input("tokens");
    let ids: Vec<u32> = tokens.to_f64_vec().into_iter().map(|id| id as u32).collect();
    let tokens = Tensor::from_vec(ids, tokens.shape(), &Device::Cpu)?;
    let logits = match name {
        "mamba" => mixer_model(&vb, &tokens, |vb| Mamba::new(mamba(), vb))?,
        "mamba2" => mixer_model(&vb, &tokens, |vb| Mamba2::new(mamba2(), vb))?,
        "recurrent_gemma" => griffin_model(&vb, &tokens)?,
        "xlstm" => xlstm_model(&vb, &tokens)?,
        "rwkv" => rwkv_model(&vb, &tokens)?,
        other => panic!("there is no model `{other}`"),
    };
    results(&[("logits", logits, golden.input("ct"))], &vars)
}

/// Computes the outputs and gradients of a `torch.nn` layer, for the sequence and the states in the golden file.
pub(crate) fn layer(options: &Recurrent, golden: &Golden) -> Result<Tensors> {
    let mut vars = variables(golden);
    let vb = builder(&vars);
    let Recurrent { cell, input, hidden, layers, bidirectional, bias, batch_first, .. } = *options;
    let config = RecurrentConfig { layers, bidirectional, bias, batch_first };
    let names = if cell == Cell::Lstm { ["xs", "h", "c"].as_slice() } else { &["xs", "h"] };
    vars.extend(names.iter().map(|name| (name.to_string(), var(golden.input(name)))));
    let states: Vec<Tensor> = names[1..].iter().map(|name| vars[*name].as_tensor().clone()).collect();
    let (ys, last) = match cell {
        Cell::Rnn => Rnn::new(input, hidden, config, vb)?.seq_init(&vars["xs"], &states)?,
        Cell::ReluRnn => ReluRnn::new(input, hidden, config, vb)?.seq_init(&vars["xs"], &states)?,
        Cell::Gru => Gru::new(input, hidden, config, vb)?.seq_init(&vars["xs"], &states)?,
        Cell::Lstm => Lstm::new(input, hidden, config, vb)?.seq_init(&vars["xs"], &states)?,
    };
    let outputs =
        std::iter::once(ys).chain(last).zip([("ys", "ct.ys"), ("last_h", "ct.last_h"), ("last_c", "ct.last_c")]);
    let outputs: Vec<_> = outputs.map(|(output, (name, ct))| (name, output, golden.input(ct))).collect();
    results(&outputs, &vars)
}

/// Computes the outputs and gradients of OLMo Hybrid's gated delta net, for the sequence in the golden file.
pub(crate) fn gated_delta_net(golden: &Golden) -> Result<Tensors> {
    let mut vars = variables(golden);
    let layer = DeltaNet::new(delta_options(), builder(&vars))?;
    vars.insert("xs".to_string(), var(golden.input("xs")));
    results(&[("ys", layer.forward(&vars["xs"])?, golden.input("ct.ys"))], &vars)
}

fn rms_norm(vb: &VarBuilder<'_>, name: &str, xs: &Tensor, epsilon: f32) -> Result<Tensor> {
    rms_norm_slow(xs, &vb.get(FEATURES, &format!("{name}.weight"))?, epsilon)
}

fn layer_norm(vb: &VarBuilder<'_>, name: &str, xs: &Tensor) -> Result<Tensor> {
    let [scale, bias] = ["weight", "bias"].map(|part| vb.get(FEATURES, &format!("{name}.{part}")));
    layer_norm_slow(xs, &scale?, &bias?, 1e-5)
}

fn embedding(vb: &VarBuilder<'_>, name: &str) -> Result<Embedding> {
    Ok(Embedding::new(vb.get((VOCABULARY, FEATURES), &format!("{name}.weight"))?, FEATURES))
}

/// Applies the linear map with this name, and adds a bias if the weights contain one.
fn linear(vb: &VarBuilder<'_>, name: &str, from: usize, to: usize, xs: &Tensor) -> Result<Tensor> {
    let vb = vb.pp(name);
    let bias = vb.contains_tensor("bias").then(|| vb.get(to, "bias")).transpose()?;
    Linear::new(vb.get((to, from), "weight")?, bias).forward(xs)
}

fn cap_logits(logits: &Tensor) -> Result<Tensor> {
    (logits / 30.0)?.tanh()? * 30.0
}

/// Runs a Mamba or Mamba-2 model: residual blocks, each with a norm and a mixer. If there is no separate head, the
/// embedding serves as the head.
fn mixer_model<M: Module>(
    vb: &VarBuilder<'_>,
    tokens: &Tensor,
    mixer: impl Fn(VarBuilder<'_>) -> Result<M>,
) -> Result<Tensor> {
    let backbone = vb.pp("backbone");
    let embeddings = embedding(&backbone, "embeddings")?;
    let mut h = embeddings.forward(tokens)?;
    for index in 0..LAYERS {
        let block = backbone.pp("layers").pp(index);
        let mixer = mixer(block.pp("mixer"))?;
        h = (&h + mixer.forward(&rms_norm(&block, "norm", &h, 1e-5)?)?)?;
    }
    let h = rms_norm(&backbone, "norm_f", &h, 1e-5)?;
    if vb.contains_tensor("lm_head.weight") {
        linear(vb, "lm_head", FEATURES, VOCABULARY, &h)
    } else {
        Linear::new(embeddings.embeddings().clone(), None).forward(&h)
    }
}

/// Runs RecurrentGemma with two recurrent blocks and one local attention block.
fn griffin_model(vb: &VarBuilder<'_>, tokens: &Tensor) -> Result<Tensor> {
    let model = vb.pp("model");
    // The stored weight of a norm is its scale minus 1.
    let norm = |vb: &VarBuilder<'_>, name: &str, xs: &Tensor| {
        rms_norm_slow(xs, &(vb.get(FEATURES, &format!("{name}.weight"))? + 1.0)?, 1e-6)
    };
    let embeddings = embedding(&model, "embed_tokens")?;
    let mut h = (embeddings.forward(tokens)? * (FEATURES as f64).sqrt())?;
    for index in 0..LAYERS + 1 {
        let block = model.pp("layers").pp(index);
        let (temporal, xs) = (block.pp("temporal_block"), norm(&block, "temporal_pre_norm", &h)?);
        let mixed = match index {
            LAYERS => local_attention(&temporal, &xs)?,
            _ => Griffin::new(recurrent_gemma(), temporal)?.forward(&xs)?,
        };
        h = (h + mixed)?;
        let xs = norm(&block, "channel_pre_norm", &h)?;
        let mlp = block.pp("mlp_block");
        let inside =
            (linear(&mlp, "gate_proj", FEATURES, 24, &xs)?.gelu()? * linear(&mlp, "up_proj", FEATURES, 24, &xs)?)?;
        h = (h + linear(&mlp, "down_proj", 24, FEATURES, &inside)?)?;
    }
    cap_logits(&Linear::new(embeddings.embeddings().clone(), None).forward(&norm(&model, "final_norm", &h)?)?)
}

/// Computes local attention with two query heads, which share one key-value head.
fn local_attention(vb: &VarBuilder<'_>, xs: &Tensor) -> Result<Tensor> {
    let (batch, steps, _) = xs.dims3()?;
    let size = FEATURES / 2;
    let by_head = |name: &str, heads: usize| {
        linear(vb, name, FEATURES, heads * size, xs)?
            .reshape((batch, steps, heads, size))?
            .transpose(1, 2)?
            .contiguous()
    };
    let [cos, sin] = rotations(steps).map(|numbers| Tensor::from_vec(numbers, (steps, ROTATED / 2), &Device::Cpu));
    let (cos, sin) = (cos?, sin?);
    let rotated = |x: Tensor| {
        let first = rope_slow(&x.narrow(3, 0, ROTATED)?.contiguous()?, &cos, &sin)?;
        Tensor::cat(&[first, x.narrow(3, ROTATED, size - ROTATED)?], 3)
    };
    let (q, k) = (rotated(by_head("q_proj", 2)?)?, rotated(by_head("k_proj", 1)?)?);
    let scores = (q.broadcast_matmul(&k.transpose(2, 3)?.contiguous()?)? / (size as f64).sqrt())?;
    let mask = Tensor::from_vec(attention_mask(steps), (steps, steps), &Device::Cpu)?;
    let shares = softmax(&scores.broadcast_add(&mask)?, 3)?;
    let ys = shares.broadcast_matmul(&by_head("v_proj", 1)?)?.transpose(1, 2)?.reshape((batch, steps, FEATURES))?;
    linear(vb, "o_proj", FEATURES, FEATURES, &ys)
}

fn xlstm_model(vb: &VarBuilder<'_>, tokens: &Tensor) -> Result<Tensor> {
    let backbone = vb.pp("backbone");
    let mut h = embedding(&backbone, "embeddings")?.forward(tokens)?;
    for index in 0..LAYERS {
        let block = backbone.pp("blocks").pp(index);
        let layer = XlstmLarge::new(xlstm(), block.pp("mlstm_layer"))?;
        h = (&h + layer.forward(&rms_norm(&block, "norm_mlstm", &h, 1e-6)?)?)?;
        let xs = rms_norm(&block, "norm_ffn", &h, 1e-6)?;
        let ffn = block.pp("ffn");
        let inside =
            (linear(&ffn, "proj_up_gate", FEATURES, 48, &xs)?.silu()? * linear(&ffn, "proj_up", FEATURES, 48, &xs)?)?;
        h = (h + linear(&ffn, "proj_down", 48, FEATURES, &inside)?)?;
    }
    cap_logits(&linear(vb, "lm_head", FEATURES, VOCABULARY, &rms_norm(&backbone, "out_norm", &h, 1e-6)?)?)
}

fn rwkv_model(vb: &VarBuilder<'_>, tokens: &Tensor) -> Result<Tensor> {
    let model = vb.pp("rwkv");
    let mut h = embedding(&model, "embeddings")?.forward(tokens)?;
    for index in 0..LAYERS {
        let block = model.pp("blocks").pp(index);
        if index == 0 {
            h = layer_norm(&block, "pre_ln", &h)?;
        }
        let attention = Rwkv4::new(rwkv(), block.pp("attention"))?;
        h = (&h + attention.forward(&layer_norm(&block, "ln1", &h)?)?)?;
        h = (&h + channel_mix(&block.pp("feed_forward"), &layer_norm(&block, "ln2", &h)?)?)?;
    }
    linear(vb, "head", FEATURES, VOCABULARY, &layer_norm(&model, "ln_out", &h)?)
}

/// Computes the channel mixing of RWKV-4, which mixes each step's input with that of the previous step.
fn channel_mix(vb: &VarBuilder<'_>, xs: &Tensor) -> Result<Tensor> {
    let before = xs.pad_with_zeros(1, 1, 0)?.narrow(1, 0, xs.dim(1)?)?;
    let mixed = |name: &str| {
        let share = vb.get((1, 1, FEATURES), name)?;
        xs.broadcast_mul(&share)? + before.broadcast_mul(&(1.0 - share)?)?
    };
    let key = linear(vb, "key", FEATURES, 40, &mixed("time_mix_key")?)?.relu()?.sqr()?;
    let gate = sigmoid(&linear(vb, "receptance", FEATURES, FEATURES, &mixed("time_mix_receptance")?)?)?;
    gate * linear(vb, "value", 40, FEATURES, &key)?
}
