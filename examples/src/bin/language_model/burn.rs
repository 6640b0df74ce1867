//! The language model in Burn.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, RmsNorm, RmsNormConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::activation::{silu, softplus};
use burn::tensor::{Device, Int, Tensor, TensorData};
use funcify::HostTensor;
use funcify_burn::nn::SelectiveScan;
use funcify_burn::{AnyTensor, Burn};

use crate::learner::{EPSILON, Learner, Loop, Sizes, TOKENS, WINDOW, Weights};
use crate::text::Batch;

pub(crate) struct Model {
    network: Network,
    adam: ModuleOptimizer,
    whose: Loop,
    device: Device,
}

#[derive(Module, Debug)]
struct Network {
    embedding: Embedding,
    layers: Vec<Block>,
    norm: RmsNorm,
}

/// A Mamba block without its residual connection.
#[derive(Module, Debug)]
struct Block {
    norm: RmsNorm,
    in_proj: Linear,
    conv: Convolution,
    scan: SelectiveScan,
    out_proj: Linear,
}

/// A causal depthwise convolution, which filters each feature over the last `WINDOW` bytes.
#[derive(Module, Debug)]
struct Convolution {
    /// The filters, of shape `[WINDOW, inner]`.
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

impl Model {
    pub(crate) fn new(sizes: Sizes, weights: &Weights, whose: Loop) -> Result<Self> {
        let device = Burn::flex().device().clone();
        let learning = device.clone().autodiff();
        let (width, inner) = (sizes.width, sizes.inner());
        let norm = || RmsNormConfig::new(width).with_epsilon(EPSILON).init(&learning);
        let linear = |from, to| LinearConfig::new(from, to).with_bias(false).init(&learning);
        let block = |_| {
            anyhow::Ok(Block {
                norm: norm(),
                in_proj: linear(width, 2 * inner),
                conv: Convolution {
                    weight: Param::from_tensor(Tensor::zeros([WINDOW, inner], &learning)),
                    bias: Param::from_tensor(Tensor::zeros([inner], &learning)),
                },
                scan: SelectiveScan::new(&sizes.scan(), &learning)?,
                out_proj: linear(inner, width),
            })
        };
        let layers = (0..sizes.layers).map(block).collect::<Result<Vec<_>>>()?;
        let network = Network { embedding: EmbeddingConfig::new(TOKENS, width).init(&learning), layers, norm: norm() };
        let mut loader = WeightLoader { weights, path: Vec::new(), device: learning, missing: None };
        let network = network.materialize().map(&mut loader);
        loader.missing.map_or(Ok(()), |name| Err(anyhow::anyhow!("the weights have no `{name}`")))?;
        let adam = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.01).init();
        Ok(Model { network, adam, whose, device })
    }

    fn ints<const D: usize>(&self, numbers: &[u32], shape: [usize; D], device: &Device) -> Tensor<D, Int> {
        Tensor::from_data(TensorData::new(numbers.to_vec(), shape), device)
    }

    fn mean_loss(&self, network: &Network, batch: &Batch, device: &Device) -> Result<Tensor<1>> {
        let logits = network.forward(self.ints(&batch.bytes, batch.shape, device), self.whose)?;
        let next = self.ints(&batch.next, [batch.next.len()], device);
        Ok(CrossEntropyLossConfig::new().init(device).forward(logits.flatten::<2>(0, 1), next))
    }
}

impl Network {
    /// Computes the logits `[batch, bytes, 256]`.
    fn forward(&self, bytes: Tensor<2, Int>, whose: Loop) -> Result<Tensor<3>> {
        let mut xs = self.embedding.forward(bytes);
        for block in &self.layers {
            xs = xs.clone() + block.forward(xs, whose)?;
        }
        Ok(self.norm.forward(xs).matmul(self.embedding.weight.val().transpose().unsqueeze()))
    }
}

impl Block {
    fn forward(&self, xs: Tensor<3>, whose: Loop) -> Result<Tensor<3>> {
        let [us, gate] =
            self.in_proj.forward(self.norm.forward(xs)).chunk(2, 2).try_into().ok().context("two parts")?;
        let us = silu(self.conv.forward(us));
        let ys = match whose {
            Loop::Plugin => self.scan.forward(us, None)?.0,
            Loop::Own => self.own_loop(us)?,
        };
        Ok(self.out_proj.forward(ys * silu(gate)))
    }

    /// Runs the selective scan step by step, with Burn's ops.
    fn own_loop(&self, us: Tensor<3>) -> Result<Tensor<3>> {
        let mut parameters = Parameters::default();
        self.scan.visit(&mut parameters);
        let parameters: Option<[AnyTensor; 5]> = parameters.0.try_into().ok();
        let [x_proj, dt_proj, bias, a_log, d] = parameters.context("another layer")?;
        let (x_proj, dt_proj): (Tensor<2>, Tensor<2>) = (x_proj.into_tensor()?, dt_proj.into_tensor()?);
        let (bias, d): (Tensor<1>, Tensor<1>) = (bias.into_tensor()?, d.into_tensor()?);
        let a: Tensor<2> = -a_log.into_tensor::<2, _>()?.exp();
        let ([features, states], rank) = (a.dims(), dt_proj.dims()[1]);
        let mut h = Tensor::<3>::zeros([us.dims()[0], features, states], &us.device());
        let mut ys = Vec::new();
        for u in us.iter_dim(1) {
            let u: Tensor<2> = u.squeeze_dim(1);
            let projected = u.clone().matmul(x_proj.clone().transpose());
            let part = |start: usize, count: usize| projected.clone().narrow(1, start, count);
            let delta = part(0, rank).matmul(dt_proj.clone().transpose()) + bias.clone().unsqueeze();
            let delta = softplus(delta, 1.0);
            let decay = (delta.clone().unsqueeze_dim::<3>(2) * a.clone().unsqueeze()).exp();
            h = decay * h + (delta * u.clone()).unsqueeze_dim::<3>(2) * part(rank, states).unsqueeze_dim(1);
            let read = h.clone() * part(rank + states, states).unsqueeze_dim(1);
            ys.push(read.sum_dim(2).squeeze_dim::<2>(2) + u * d.clone().unsqueeze());
        }
        Ok(Tensor::stack(ys, 1))
    }
}

impl Convolution {
    fn forward(&self, us: Tensor<3>) -> Tensor<3> {
        let [batch, steps, features] = us.dims();
        let before = Tensor::zeros([batch, WINDOW - 1, features], &us.device());
        let padded = Tensor::cat(vec![before, us], 1);
        let weight = |back: usize| self.weight.val().narrow(0, back, 1).unsqueeze::<3>();
        let bias = self.bias.val().unsqueeze::<3>();
        (0..WINDOW).fold(bias, |sum, back| sum + padded.clone().narrow(1, back, steps) * weight(back))
    }
}

impl Learner for Model {
    fn step(&mut self, batch: &Batch, rate: f64) -> Result<f64> {
        let loss = self.mean_loss(&self.network, batch, &self.device.clone().autodiff())?;
        let gradients = GradientsParams::from_grads(loss.backward(), &self.network);
        self.network = self.adam.step(rate, self.network.clone(), gradients);
        Ok(loss.into_scalar::<f64>())
    }

    fn loss(&self, batch: &Batch) -> Result<f64> {
        Ok(self.mean_loss(&self.network.valid(), batch, &self.device)?.into_scalar::<f64>())
    }

    fn logits(&self, batch: &Batch) -> Result<HostTensor> {
        let bytes = self.ints(&batch.bytes, batch.shape, &self.device);
        host(self.network.valid().forward(bytes, self.whose)?)
    }

    fn weights(&self) -> Result<Weights> {
        let mut collector = WeightCollector::default();
        self.network.valid().visit(&mut collector);
        collector.weights
    }

    fn save_optimizer(&self, path: &Path) -> Result<()> {
        Ok(self.adam.save(path)?)
    }

    fn load_optimizer(&mut self, path: &Path) -> Result<()> {
        let adam = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.01).init();
        self.adam = adam.load(path)?;
        Ok(())
    }
}

/// A visitor that collects the parameters of a module, in the order of its fields.
#[derive(Default)]
struct Parameters(Vec<AnyTensor>);

impl ModuleVisitor for Parameters {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(param.val().into());
    }
}

/// Returns the name of a parameter in weight files, and `true` if these files store the parameter transposed.
fn name(path: &[String]) -> (String, bool) {
    let name = path.join(".").replace("gamma", "weight");
    let is_turned = !name.contains(".scan.") && name.ends_with("_proj.weight");
    (name, is_turned)
}

fn host<const D: usize>(tensor: Tensor<D>) -> Result<HostTensor> {
    let shape = tensor.dims();
    HostTensor::from_vec(tensor.into_data().iter::<f32>().collect(), shape).context("its elements")
}

/// A visitor that collects the weights of a module, keyed by name.
struct WeightCollector {
    path: Vec<String>,
    weights: Result<Weights>,
}

impl Default for WeightCollector {
    fn default() -> Self {
        WeightCollector { path: Vec::new(), weights: Ok(BTreeMap::new()) }
    }
}

impl ModuleVisitor for WeightCollector {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (name, is_turned) = name(&self.path);
        let tensor = if is_turned { param.val().transpose() } else { param.val() };
        match (host(tensor), &mut self.weights) {
            (Ok(tensor), Ok(weights)) => _ = weights.insert(name, tensor),
            (Err(error), Ok(_)) => self.weights = Err(error),
            (_, Err(_)) => {}
        }
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}

/// A mapper that loads weights into a module by name. It numbers the parameters in the order of their names, so the
/// optimizer's saved state refers to the same parameters in every process.
struct WeightLoader<'a> {
    weights: &'a Weights,
    path: Vec<String>,
    device: Device,
    /// The name of a parameter that is missing from the weights, if any.
    missing: Option<String>,
}

impl ModuleMapper for WeightLoader<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (name, is_turned) = name(&self.path);
        let Some((index, (_, tensor))) = self.weights.iter().enumerate().find(|(_, (other, _))| **other == name) else {
            self.missing = Some(name);
            return param;
        };
        let numbers = tensor.to_f64_vec().into_iter().map(|number| number as f32).collect::<Vec<f32>>();
        let tensor = Tensor::<D>::from_data(TensorData::new(numbers, tensor.shape().to_vec()), &self.device);
        let tensor = if is_turned { tensor.transpose() } else { tensor };
        // Rebuild the tensor to make its elements contiguous, like those of Burn's own initial weights.
        let tensor = Tensor::from_data(tensor.into_data(), &self.device).require_grad();
        Param::initialized(ParamId::from(index as u64 + 1), tensor)
    }

    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
}
