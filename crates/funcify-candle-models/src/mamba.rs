//! Mamba (Gu and Dao 2023), with the options and parameters of `candle_transformers::models::mamba`.
//!
//! The library's model takes one token a call, so that a prompt is as many calls as it has tokens. Here projections, convolution and
//! norms are over the whole prompt, and the selective scan is one compiled loop.

use std::sync::Arc;

use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::{Embedding, Init, Linear, RmsNorm, VarBuilder};
use funcify_candle::{Candle, Differentiable, DifferentiableOptions, nn};
use funcify_core::{Dim, Graph, TensorType, Value, concat, scan};
use funcify_nn::{Parameter, SelectiveScan};
use funcify_runtime::{CompileOptions, LoopStrategy};

use crate::{as_candles, check_state, mismatch, reads_ids, rms_norm, scanned, sizes_of};

/// How many steps the convolution sees.
const WIDTH: usize = 4;
/// The states of a feature.
const STATES: usize = 16;

/// The sizes of a model.
#[derive(Clone, Debug)]
pub struct Config {
    /// The features between blocks.
    pub d_model: usize,
    /// The number of blocks.
    pub n_layer: usize,
    /// The number of tokens.
    pub vocab_size: usize,
    /// The embedding has rows for the next multiple of this.
    pub pad_vocab_size_multiple: usize,
}

impl Config {
    fn vocabulary(&self) -> usize {
        self.vocab_size.next_multiple_of(self.pad_vocab_size_multiple)
    }

    /// The features inside a block.
    fn inner(&self) -> usize {
        2 * self.d_model
    }

    /// The features that step sizes are made of.
    fn rank(&self) -> usize {
        self.d_model.div_ceil(16)
    }
}

/// What a model remembers of the steps that it has read.
#[derive(Clone, Debug)]
pub struct State {
    /// The states of each block's scan, `[batch, 2 d_model, 16]`; `hs` of the library.
    pub hs: Vec<Tensor>,
    /// The last three inputs of each block's convolution, `[batch, 3, 2 d_model]`.
    pub before: Vec<Tensor>,
    /// The number of steps.
    pub pos: usize,
}

impl State {
    /// `prev_xs` of the library's state, whose four slots are taken in turn by the number of the step.
    ///
    /// With it `State { hs: state.hs.clone(), prev_xs: state.prev_xs()?, pos: state.pos }` is the library's.
    pub fn prev_xs(&self) -> Result<Vec<[Tensor; WIDTH]>> {
        let slots = |before: &Tensor| {
            let slot = |number: usize| {
                let age = (self.pos + WIDTH - number) % WIDTH;
                // The slot of the next step is written before it is read: any row will do.
                let row = WIDTH - 1 - if age == 0 { 1 } else { age };
                before.narrow(1, row, 1)?.squeeze(1)?.contiguous()
            };
            Ok([slot(0)?, slot(1)?, slot(2)?, slot(3)?])
        };
        self.before.iter().map(slots).collect()
    }

    /// The state that the library's has: its `hs`, `prev_xs` and `pos`.
    pub fn from_library(hs: &[Tensor], prev_xs: &[[Tensor; WIDTH]], pos: usize) -> Result<Self> {
        let before = |slots: &[Tensor; WIDTH]| {
            let rows: Vec<&Tensor> = (1..WIDTH).rev().map(|age| &slots[(pos + WIDTH - age) % WIDTH]).collect();
            Tensor::stack(&rows, 1)
        };
        Ok(State { hs: hs.to_vec(), before: prev_xs.iter().map(before).collect::<Result<_>>()?, pos })
    }
}

/// A Mamba language model. Cloning shares its parameters.
#[derive(Clone)]
pub struct Model {
    embedding: Embedding,
    blocks: Vec<Block>,
    norm_f: RmsNorm,
    config: Config,
    dtype: DType,
    device: Device,
}

#[derive(Clone)]
struct Block {
    norm: RmsNorm,
    in_proj: Linear,
    conv_weight: Tensor,
    conv_bias: Tensor,
    x_proj: Linear,
    dt_proj: Linear,
    a_log: Tensor,
    d: Tensor,
    core: Arc<Core>,
    out_proj: Linear,
}

impl Model {
    /// The model with the parameters of a `VarBuilder` under the library's names: `embedding.weight`, `layers.0.norm.weight`,
    /// `layers.0.mixer.A_log` ... Those that a `VarMap` does not have yet are made, ready to be trained.
    #[track_caller]
    pub fn new(config: &Config, vb: VarBuilder<'_>) -> Result<Self> {
        if config.pad_vocab_size_multiple == 0 {
            let fix = "set it to 1 to have no padding";
            return Err(mismatch("mamba", "`pad_vocab_size_multiple`", "1 or more", 0, fix));
        }
        let programs = Core::new(config.inner(), nn::dtype(&vb)?, vb.device()).map_err(as_candles)?;
        let programs = Arc::new(programs);
        // The core that has these parameters, for their values before training.
        let core = SelectiveScan { rank: config.rank(), states: STATES, ..SelectiveScan::new(config.inner()) };
        let core = core.layer().map_err(as_candles)?;
        let embedding = candle_nn::embedding(config.vocabulary(), config.d_model, vb.pp("embedding"))?;
        let block = |index| Block::new(config, &programs, &core.parameters, vb.pp("layers").pp(index));
        let blocks = (0..config.n_layer).map(block).collect::<Result<_>>()?;
        let norm_f = candle_nn::rms_norm(config.d_model, 1e-5, vb.pp("norm_f"))?;
        let (config, dtype, device) = (config.clone(), vb.dtype(), vb.device().clone());
        Ok(Model { embedding, blocks, norm_f, config, dtype, device })
    }

    /// The state before the first step of so many sequences.
    pub fn zero_state(&self, batch: usize) -> Result<State> {
        let (blocks, inner) = (self.blocks.len(), self.config.inner());
        let h = Tensor::zeros((batch, inner, STATES), self.dtype, &self.device)?;
        let before = Tensor::zeros((batch, WIDTH - 1, inner), self.dtype, &self.device)?;
        Ok(State { hs: vec![h; blocks], before: vec![before; blocks], pos: 0 })
    }

    reads_ids!();

    #[track_caller]
    fn features(&self, ids: &Tensor, state: &mut State) -> Result<Tensor> {
        let (_, steps) = sizes_of("mamba", ids)?;
        check_state("mamba", self.blocks.len(), state.hs.len().min(state.before.len()))?;
        let mut next = State { hs: Vec::new(), before: Vec::new(), pos: state.pos + steps };
        let mut xs = self.embedding.forward(ids)?;
        for (block, (h, before)) in self.blocks.iter().zip(state.hs.iter().zip(&state.before)) {
            let (ys, h, before) = block.forward(&xs, h, before)?;
            xs = (xs + ys)?;
            next.hs.push(h);
            next.before.push(before);
        }
        *state = next;
        Ok(xs)
    }

    /// The rows of the embedding are the weights of the head.
    fn logits(&self, xs: &Tensor) -> Result<Tensor> {
        Linear::new(self.embedding.embeddings().clone(), None).forward(&rms_norm(&self.norm_f, xs)?)
    }
}

/// What all blocks compute between their products of matrices: one program each.
struct Core {
    convolution: Differentiable,
    scan: Differentiable,
}

impl Core {
    fn new(features: usize, dtype: funcify_core::DType, device: &Device) -> funcify_core::Result<Self> {
        let candle = Candle::new(device.clone());
        let whole = CompileOptions { strategy: LoopStrategy::Compiled, whole: true, ..CompileOptions::default() };
        let options = DifferentiableOptions::new().compile(whole);
        let compile = |graph: Graph| Differentiable::compile_with(&graph, &candle, options.clone());
        Ok(Core {
            convolution: compile(convolution(features, dtype)?)?,
            scan: compile(selective_scan(features, dtype)?)?,
        })
    }
}

/// A depthwise causal convolution and `silu`: over `xs` of `[B,T,features]`, with the `WIDTH - 1` rows `before`, which it gives for what
/// follows, and PyTorch's parameters, `weight [features,1,WIDTH]` and `bias [features]`.
fn convolution(features: usize, dtype: funcify_core::DType) -> funcify_core::Result<Graph> {
    Graph::build("short_convolution", |g| {
        let rows =
            |name: &str, steps: Dim| g.input(name, TensorType::new(dtype, [Dim::from("B"), steps, features.into()]));
        let (xs, before) = (rows("xs", "T".into()), rows("before", (WIDTH - 1).into()));
        let taps = g.input("weight", TensorType::new(dtype, [features, 1, WIDTH])).reshape([features, WIDTH]).t();
        let bias = g.input("bias", TensorType::new(dtype, [features]));
        let rows = concat(&[before, xs], 1);
        let steps = Dim::from("T");
        let part = |offset: usize| {
            rows.slice(1, Dim::from(offset)..steps.clone() + offset as i64) * taps.index(0, offset as i64)
        };
        let sum = (1..WIDTH).map(part).fold(part(0) + bias, |sum, part| sum + part);
        (sum.silu(), rows.slice(1, steps.clone()..steps.clone() + (WIDTH - 1) as i64))
    })
}

/// The recurrence of each feature's states, `h' = exp(Δ A) h + Δ b u`, `y = (c·h + D u) silu(z)`, with `Δ = log(1 + exp(delta))`, over `u`,
/// `delta` and `z` of `[B,T,features]` and `b` and `c` of `[B,T,states]`. What is elementwise is in it, as the engine's functions cost less
/// than Candle's.
fn selective_scan(features: usize, dtype: funcify_core::DType) -> funcify_core::Result<Graph> {
    Graph::build("selective_scan", |g| {
        let rows = |name: &str, size: usize| {
            g.input(name, TensorType::new(dtype, [Dim::from("B"), "T".into(), size.into()])).move_axis(1, 0)
        };
        let [us, deltas, zs] = ["u", "delta", "z"].map(|name| rows(name, features));
        let [bs, cs] = ["b", "c"].map(|name| rows(name, STATES));
        let rates = -g.input("a_log", TensorType::new(dtype, [features, STATES])).exp();
        let d = g.input("d", TensorType::new(dtype, [features]));
        let init = g.input("h", TensorType::new(dtype, [Dim::from("B"), features.into(), STATES.into()]));
        let deltas = (deltas.exp() + 1.0).log();
        let (last, ys) =
            scan(init, (us, deltas, bs, cs), |h: Value, (u, delta, b, c): (Value, Value, Value, Value)| {
                let decay = (delta.unsqueeze(2) * rates).exp();
                let h = decay * h + (delta * u).unsqueeze(2) * b.unsqueeze(1);
                (h, (h * c.unsqueeze(1)).sum(2))
            });
        (((ys + us * d) * zs.silu()).move_axis(0, 1), last)
    })
}

impl Block {
    fn new(config: &Config, programs: &Arc<Core>, core: &[Parameter], vb: VarBuilder<'_>) -> Result<Self> {
        let (features, inner) = (config.d_model, config.inner());
        let mixer = vb.pp("mixer");
        let bound = (WIDTH as f64).recip().sqrt();
        let uniform = Init::Uniform { lo: -bound, up: bound };
        let of_core = |name: &str| match core.iter().find(|parameter| parameter.name == name) {
            Some(parameter) => nn::parameter(parameter, &mixer),
            None => Err(candle_core::Error::Msg(format!("the selective scan has no `{name}`"))),
        };
        Ok(Block {
            norm: candle_nn::rms_norm(features, 1e-5, vb.pp("norm"))?,
            in_proj: candle_nn::linear_no_bias(features, 2 * inner, mixer.pp("in_proj"))?,
            conv_weight: mixer.get_with_hints((inner, 1, WIDTH), "conv1d.weight", uniform)?,
            conv_bias: mixer.get_with_hints(inner, "conv1d.bias", uniform)?,
            x_proj: Linear::new(of_core("x_proj.weight")?, None),
            dt_proj: Linear::new(of_core("dt_proj.weight")?, Some(of_core("dt_proj.bias")?)),
            a_log: of_core("A_log")?,
            d: of_core("D")?,
            core: programs.clone(),
            out_proj: candle_nn::linear_no_bias(inner, features, mixer.pp("out_proj"))?,
        })
    }

    /// What the block adds to `xs`, `[batch, steps, d_model]`, and its states after the last step.
    #[track_caller]
    fn forward(&self, xs: &Tensor, h: &Tensor, before: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        let projected = self.in_proj.forward(&rms_norm(&self.norm, xs)?)?.chunk(2, 2)?;
        let (weight, bias) = (self.conv_weight.clone(), self.conv_bias.clone());
        let [us, before] = scanned(&self.core.convolution, &[projected[0].clone(), before.clone(), weight, bias])?;
        let read = self.x_proj.forward(&us)?;
        let rank = read.dim(2)? - 2 * STATES;
        let part = |start: usize, count: usize| read.narrow(2, start, count)?.contiguous();
        let delta = self.dt_proj.forward(&part(0, rank)?)?;
        let (b, c, z) = (part(rank, STATES)?, part(rank + STATES, STATES)?, projected[1].clone());
        let arguments = [us, delta, z, b, c, self.a_log.clone(), self.d.clone(), h.clone()];
        let [ys, h] = scanned(&self.core.scan, &arguments)?;
        Ok((self.out_proj.forward(&ys)?, h, before))
    }
}
