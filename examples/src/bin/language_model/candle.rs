//! The language model in Candle.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, Result};
use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Module, Tensor, Var};
use candle_nn::{Embedding, Linear, RmsNorm, VarBuilder};
use funcify::HostTensor;
use funcify::dispatch::Backend;
use funcify::files::{read_safetensors, write_safetensors};
use funcify_candle::Candle;
use funcify_candle::nn::SelectiveScan;

use crate::learner::{EPSILON, Learner, Loop, Sizes, TOKENS, WINDOW, Weights};
use crate::text::Batch;

pub(crate) struct Model {
    embedding: Embedding,
    blocks: Vec<Block>,
    norm: RmsNorm,
    adam: AdamW,
    whose: Loop,
}

/// A Mamba block without its residual connection.
struct Block {
    norm: RmsNorm,
    in_proj: Linear,
    /// The filters of the convolution, of shape `[WINDOW, inner]`.
    conv: Tensor,
    bias: Tensor,
    scan: SelectiveScan,
    out_proj: Linear,
}

impl Model {
    pub(crate) fn new(sizes: Sizes, weights: &Weights, whose: Loop) -> Result<Self> {
        let vars = weights.iter().map(|(name, tensor)| Ok((name.clone(), Var::from_tensor(&to_candle(tensor)?)?)));
        let vars = vars.collect::<Result<BTreeMap<String, Var>>>()?;
        let tensors: HashMap<String, Tensor> =
            vars.iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect();
        let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        let (width, inner) = (sizes.width, sizes.inner());
        let norm = |vb: VarBuilder<'_>| anyhow::Ok(RmsNorm::new(vb.get(width, "weight")?, EPSILON));
        let block = |layer: usize| {
            let vb = vb.pp("layers").pp(layer);
            anyhow::Ok(Block {
                norm: norm(vb.pp("norm"))?,
                in_proj: candle_nn::linear_no_bias(width, 2 * inner, vb.pp("in_proj"))?,
                conv: vb.get((WINDOW, inner), "conv.weight")?,
                bias: vb.get(inner, "conv.bias")?,
                scan: SelectiveScan::new(sizes.scan(), vb.pp("scan"))?,
                out_proj: candle_nn::linear_no_bias(inner, width, vb.pp("out_proj"))?,
            })
        };
        let blocks = (0..sizes.layers).map(block).collect::<Result<Vec<_>>>()?;
        let embedding = candle_nn::embedding(TOKENS, width, vb.pp("embedding"))?;
        Ok(Model { embedding, blocks, norm: norm(vb.pp("norm"))?, adam: AdamW::new(vars)?, whose })
    }

    /// Computes the logits `[batch, bytes, 256]`.
    fn forward(&self, batch: &Batch) -> Result<Tensor> {
        let [rows, bytes] = batch.shape;
        let mut xs = self.embedding.forward(&Tensor::from_slice(&batch.bytes, (rows, bytes), &Device::Cpu)?)?;
        for block in &self.blocks {
            xs = (&xs + block.forward(&xs, self.whose)?)?;
        }
        // `forward_diff` has a gradient, unlike the fused kernel that `forward` uses.
        let xs = self.norm.forward_diff(&xs)?;
        Ok(Linear::new(self.embedding.embeddings().clone(), None).forward(&xs)?)
    }

    fn mean_loss(&self, batch: &Batch) -> Result<Tensor> {
        let next = Tensor::new(batch.next.as_slice(), &Device::Cpu)?;
        Ok(candle_nn::loss::cross_entropy(&self.forward(batch)?.flatten(0, 1)?, &next)?)
    }
}

impl Block {
    fn forward(&self, xs: &Tensor, whose: Loop) -> Result<Tensor> {
        let parts = self.in_proj.forward(&self.norm.forward_diff(xs)?)?.chunk(2, 2)?;
        let us = self.convolve(&parts[0].contiguous()?)?.silu()?;
        let ys = match whose {
            Loop::Plugin => self.scan.forward(&us)?,
            Loop::Own => self.own_loop(&us)?,
        };
        Ok(self.out_proj.forward(&(ys * parts[1].silu()?)?)?)
    }

    /// Filters each feature over the last `WINDOW` bytes by adding shifted sequences. Candle's own convolution is
    /// slower, because it runs each group separately.
    fn convolve(&self, us: &Tensor) -> Result<Tensor> {
        let steps = us.dim(1)?;
        let padded = us.pad_with_zeros(1, WINDOW - 1, 0)?;
        let mut sum = us.zeros_like()?.broadcast_add(&self.bias)?;
        for back in 0..WINDOW {
            sum = (sum + padded.narrow(1, back, steps)?.broadcast_mul(&self.conv.get(back)?)?)?;
        }
        Ok(sum)
    }

    /// Runs the selective scan step by step, with Candle's ops.
    fn own_loop(&self, us: &Tensor) -> Result<Tensor> {
        let [x_proj, dt_proj, bias, a_log, d] = self.scan.parameters() else { anyhow::bail!("another layer") };
        let (a, states, rank) = (a_log.exp()?.neg()?, a_log.dim(1)?, dt_proj.dim(1)?);
        let mut h = Tensor::zeros((us.dim(0)?, a.dim(0)?, states), DType::F32, &Device::Cpu)?;
        let mut ys = Vec::new();
        for step in 0..us.dim(1)? {
            let u = us.narrow(1, step, 1)?.squeeze(1)?;
            let projected = u.matmul(&x_proj.t()?)?;
            let delta = projected.narrow(1, 0, rank)?.matmul(&dt_proj.t()?)?.broadcast_add(bias)?;
            let delta = (delta.exp()? + 1.0)?.log()?;
            let (b, c) = (projected.narrow(1, rank, states)?, projected.narrow(1, rank + states, states)?);
            let decay = delta.unsqueeze(2)?.broadcast_mul(&a)?.exp()?;
            h = ((decay * h)? + (&delta * &u)?.unsqueeze(2)?.broadcast_mul(&b.unsqueeze(1)?)?)?;
            ys.push((h.broadcast_mul(&c.unsqueeze(1)?)?.sum(2)? + u.broadcast_mul(d)?)?);
        }
        Ok(Tensor::stack(&ys, 1)?)
    }
}

impl Learner for Model {
    fn step(&mut self, batch: &Batch, rate: f64) -> Result<f64> {
        let loss = self.mean_loss(batch)?;
        self.adam.step(&loss.backward()?, rate)?;
        Ok(loss.to_dtype(DType::F64)?.to_scalar()?)
    }

    fn loss(&self, batch: &Batch) -> Result<f64> {
        Ok(self.mean_loss(batch)?.to_dtype(DType::F64)?.to_scalar()?)
    }

    fn logits(&self, batch: &Batch) -> Result<HostTensor> {
        to_host(&self.forward(batch)?)
    }

    fn weights(&self) -> Result<Weights> {
        self.adam.vars.iter().map(|(name, of)| Ok((name.clone(), to_host(&of.var)?))).collect()
    }

    fn save_optimizer(&self, path: &Path) -> Result<()> {
        Ok(write_safetensors(path, &self.adam.state()?)?)
    }

    fn load_optimizer(&mut self, path: &Path) -> Result<()> {
        self.adam.restore(&read_safetensors(path)?)
    }
}

fn to_candle(tensor: &HostTensor) -> Result<Tensor> {
    Candle::cpu().upload(tensor).map_err(anyhow::Error::from_boxed)
}

fn to_host(tensor: &Tensor) -> Result<HostTensor> {
    Candle::cpu().download(&tensor.detach(), funcify::DType::F32).map_err(anyhow::Error::from_boxed)
}

/// AdamW (Loshchilov and Hutter, arXiv:1711.05101), with the same updates as `candle_nn::AdamW`. The moments can be
/// saved so that training can resume. In `candle_nn::AdamW`, they are private.
struct AdamW {
    steps: i32,
    vars: BTreeMap<String, Moments>,
}

struct Moments {
    var: Var,
    first: Tensor,
    second: Tensor,
}

impl AdamW {
    const DECAY: f64 = 0.01;
    const BETAS: [f64; 2] = [0.9, 0.999];
    const EPSILON: f64 = 1e-8;

    fn new(vars: BTreeMap<String, Var>) -> Result<Self> {
        let moments = |(name, var): (String, Var)| {
            let zeros = var.zeros_like()?.detach();
            Ok((name, Moments { first: zeros.clone(), second: zeros, var }))
        };
        Ok(AdamW { steps: 0, vars: vars.into_iter().map(moments).collect::<Result<_>>()? })
    }

    fn step(&mut self, gradients: &GradStore, rate: f64) -> Result<()> {
        self.steps += 1;
        let [beta1, beta2] = AdamW::BETAS;
        let [scale1, scale2] = [beta1, beta2].map(|beta| 1.0 / (1.0 - beta.powi(self.steps)));
        for Moments { var, first, second } in self.vars.values_mut() {
            let Some(gradient) = gradients.get(var).map(Tensor::detach) else { continue };
            *first = ((&*first * beta1)? + (&gradient * (1.0 - beta1))?)?;
            *second = ((&*second * beta2)? + (gradient.sqr()? * (1.0 - beta2))?)?;
            let update = ((&*first * scale1)? / ((&*second * scale2)?.sqrt()? + AdamW::EPSILON)?)?;
            let decayed = (var.as_tensor().detach() * (1.0 - rate * AdamW::DECAY))?;
            var.set(&(decayed - (update * rate)?)?)?;
        }
        Ok(())
    }

    fn state(&self) -> Result<BTreeMap<String, HostTensor>> {
        let mut state = BTreeMap::from([("steps".to_string(), HostTensor::scalar(i64::from(self.steps)))]);
        for (name, of) in &self.vars {
            state.insert(format!("first.{name}"), to_host(&of.first)?);
            state.insert(format!("second.{name}"), to_host(&of.second)?);
        }
        Ok(state)
    }

    fn restore(&mut self, state: &BTreeMap<String, HostTensor>) -> Result<()> {
        let of = |name: &str| state.get(name).with_context(|| format!("the file has no `{name}`"));
        for (name, moments) in &mut self.vars {
            moments.first = to_candle(of(&format!("first.{name}"))?)?;
            moments.second = to_candle(of(&format!("second.{name}"))?)?;
        }
        self.steps = of("steps")?.get(0).as_i64() as i32;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_nn::{Optimizer, ParamsAdamW};

    /// Checks that the updates equal those of `candle_nn::AdamW` bit for bit.
    #[test]
    fn updates_are_those_of_candle() {
        let numbers = [0.3f32, -1.5, 2.0, 0.01];
        let [ours, theirs] = [(); 2].map(|()| Var::new(&numbers, &Device::Cpu).unwrap());
        let mut adam = AdamW::new(BTreeMap::from([("x".to_string(), ours.clone())])).unwrap();
        let params = ParamsAdamW { lr: 0.05, ..ParamsAdamW::default() };
        let mut candle = candle_nn::AdamW::new(vec![theirs.clone()], params).unwrap();
        let loss = |x: &Var| x.sin().unwrap().sqr().unwrap().sum_all().unwrap();
        for _ in 0..20 {
            adam.step(&loss(&ours).backward().unwrap(), 0.05).unwrap();
            candle.backward_step(&loss(&theirs)).unwrap();
            assert_eq!(ours.to_vec1::<f32>().unwrap(), theirs.to_vec1::<f32>().unwrap());
        }
        assert_ne!(ours.to_vec1::<f32>().unwrap(), numbers);
    }
}
