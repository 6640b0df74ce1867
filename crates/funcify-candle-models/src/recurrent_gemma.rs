//! RecurrentGemma (De et al. 2024, Griffin), with the options and parameters of
//! `candle_transformers::models::recurrent_gemma`.
//!
//! The model of `candle-transformers` (the library) runs the recurrence of the RG-LRU step by step; here, the
//! recurrence is one compiled loop. After the prompt, the library's model accepts only one token per call; this model
//! accepts any number. As in the library, `attention_window_size` is ignored: attention covers all earlier positions.

use candle_core::D;
use candle_nn::{Activation, linear, linear_b};

use super::*;
use crate::model;

/// The kind of a block, which determines how the block combines information across steps.
///
/// ```
/// use funcify_candle_models::recurrent_gemma::TemporalBlockType::{Attention, Recurrent};
///
/// // `Config::block_types` of RecurrentGemma 2B, repeated for all blocks.
/// let block_types = [Recurrent, Recurrent, Attention];
/// assert_eq!(block_types.iter().filter(|kind| **kind == Recurrent).count(), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TemporalBlockType {
    /// Attention over all steps up to the current one.
    Attention,
    /// A short convolution, then the gated linear recurrence.
    Recurrent,
}

/// The hyperparameters of a model: the fields of the library's `Config` that this crate uses.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::recurrent_gemma::{Config, Model, TemporalBlockType};
///
/// let config = Config {
///     num_hidden_layers: 2,
///     vocab_size: 16,
///     hidden_size: 16,
///     intermediate_size: 24,
///     num_attention_heads: 2,
///     num_key_value_heads: 1,
///     head_dim: 8,
///     lru_width: None,
///     conv1d_width: 4,
///     logits_soft_cap: 30.0,
///     hidden_activation: candle_nn::Activation::GeluPytorchTanh,
///     partial_rotary_factor: 0.5,
///     rms_norm_eps: 1e-6,
///     rope_theta: 10_000.0,
///     block_types: vec![TemporalBlockType::Recurrent, TemporalBlockType::Attention],
///     attention_bias: false,
///     max_seq_len: 64,
/// };
/// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
/// let model = Model::new(&config, vb)?;
/// let mut state = model.zero_state(1)?;
/// let prompt = Tensor::new(&[[3u32, 1, 4]], &Device::Cpu)?;
/// assert_eq!(model.forward(&prompt, &mut state)?.dims(), [1, 3, 16]);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The number of blocks.
    pub num_hidden_layers: usize,
    /// The vocabulary size.
    pub vocab_size: usize,
    /// The size of the residual stream between blocks.
    pub hidden_size: usize,
    /// Twice the number of features inside the feed-forward layer.
    pub intermediate_size: usize,
    /// The number of query heads, which is also the number of heads in the gates of the recurrence.
    pub num_attention_heads: usize,
    /// The number of key and value heads.
    pub num_key_value_heads: usize,
    /// The number of features per attention head.
    pub head_dim: usize,
    /// The number of features of the recurrence. Defaults to `hidden_size`.
    pub lru_width: Option<usize>,
    /// The width of the convolution kernel, in steps.
    pub conv1d_width: usize,
    /// The soft cap on the absolute value of the logits.
    pub logits_soft_cap: f64,
    /// The activation function of the gates.
    pub hidden_activation: Activation,
    /// The fraction of a head's features to which rotary position embeddings are applied. Must be 0.5.
    pub partial_rotary_factor: f64,
    /// The epsilon that the norms add to the mean square.
    pub rms_norm_eps: f64,
    /// The base of the rotary position embeddings' frequencies.
    pub rope_theta: f64,
    /// The kinds of the blocks, repeated cyclically up to the number of blocks.
    pub block_types: Vec<TemporalBlockType>,
    /// `true` if the projections to queries, keys and values have biases.
    pub attention_bias: bool,
    /// The maximum length of a sequence, in tokens.
    pub max_seq_len: usize,
}

impl Config {
    fn width(&self) -> usize {
        self.lru_width.unwrap_or(self.hidden_size)
    }

    fn check(&self) -> Result<()> {
        let refuse = |option: &str, expected: String, found: String, fix: &str| {
            Err(mismatch("recurrent_gemma", option, &expected, found, fix))
        };
        let heads = self.num_attention_heads;
        let divide = "choose sizes that divide evenly";
        if heads == 0 || !self.width().is_multiple_of(heads) {
            let expected = format!("a divisor of the width of the recurrence, {}", self.width());
            return refuse("`num_attention_heads`", expected, heads.to_string(), divide);
        }
        if self.block_types.is_empty() {
            return refuse("`block_types`", "at least one type".into(), "none".into(), "list the types of the blocks");
        }
        if self.conv1d_width == 0 {
            return refuse("`conv1d_width`", "1 or more".into(), "0".into(), "set it to the size of the window");
        }
        if !self.block_types.contains(&TemporalBlockType::Attention) {
            return Ok(());
        }
        if self.num_key_value_heads == 0 || !heads.is_multiple_of(self.num_key_value_heads) {
            let found = self.num_key_value_heads.to_string();
            return refuse("`num_key_value_heads`", format!("a divisor of the {heads} heads"), found, divide);
        }
        if heads * self.head_dim != self.hidden_size || !self.head_dim.is_multiple_of(4) {
            let expected = format!("a multiple of 4 equal to `hidden_size` / heads, {} / {heads}", self.hidden_size);
            return refuse("`head_dim`", expected, self.head_dim.to_string(), divide);
        }
        if self.partial_rotary_factor != 0.5 {
            let found = self.partial_rotary_factor.to_string();
            return refuse("`partial_rotary_factor`", "0.5".into(), found, "set it to 0.5");
        }
        Ok(())
    }
}

/// The state of a model after the steps processed so far.
pub type State = crate::State<BlockState>;

/// The state of a block, which depends on the kind of the block.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::recurrent_gemma::{BlockState, Config, Model, TemporalBlockType};
///
/// # let config = Config {
/// #     num_hidden_layers: 2,
/// #     vocab_size: 16,
/// #     hidden_size: 16,
/// #     intermediate_size: 24,
/// #     num_attention_heads: 2,
/// #     num_key_value_heads: 1,
/// #     head_dim: 8,
/// #     lru_width: None,
/// #     conv1d_width: 4,
/// #     logits_soft_cap: 30.0,
/// #     hidden_activation: candle_nn::Activation::GeluPytorchTanh,
/// #     partial_rotary_factor: 0.5,
/// #     rms_norm_eps: 1e-6,
/// #     rope_theta: 10_000.0,
/// #     block_types: vec![TemporalBlockType::Recurrent, TemporalBlockType::Attention],
/// #     attention_bias: false,
/// #     max_seq_len: 64,
/// # };
/// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
/// let model = Model::new(&config, vb)?;
/// let state = model.zero_state(1)?;
/// assert!(matches!(state.blocks[0], BlockState::Recurrent { .. }));
/// assert!(matches!(state.blocks[1], BlockState::Attention { .. }));
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum BlockState {
    /// The state of a recurrent block.
    Recurrent {
        /// The state of the recurrence, `[batch, width]`, in f32 or f64.
        h: Tensor,
        /// The last inputs of the convolution, `[batch, conv1d_width - 1, width]`.
        before: Tensor,
    },
    /// The state of an attention block: the keys and values of all steps so far, each `[batch, num_key_value_heads,
    /// steps, head_dim]`.
    Attention {
        /// The keys, after the rotary position embedding.
        keys: Tensor,
        /// The values, without a position embedding.
        values: Tensor,
    },
}

/// A RecurrentGemma language model. Clones share their parameters.
pub type Model = crate::Model<RecurrentGemma>;

/// The parts of a RecurrentGemma model other than the embedding and the blocks.
#[doc(hidden)]
#[derive(Clone)]
pub struct RecurrentGemma {
    final_norm: Norm,
    config: Config,
}

impl Model {
    /// Creates the model with the parameters of a `VarBuilder` under the library's names: `embed_tokens.weight`,
    /// `layers.0.temporal_block.rg_lru.recurrent_param` and so on. If the `VarBuilder` wraps a `VarMap`, missing
    /// parameters are initialised for training.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{VarBuilder, VarMap};
    /// use funcify_candle_models::recurrent_gemma::{Config, Model, TemporalBlockType};
    ///
    /// # let config = Config {
    /// #     num_hidden_layers: 2,
    /// #     vocab_size: 16,
    /// #     hidden_size: 16,
    /// #     intermediate_size: 24,
    /// #     num_attention_heads: 2,
    /// #     num_key_value_heads: 1,
    /// #     head_dim: 8,
    /// #     lru_width: None,
    /// #     conv1d_width: 4,
    /// #     logits_soft_cap: 30.0,
    /// #     hidden_activation: candle_nn::Activation::GeluPytorchTanh,
    /// #     partial_rotary_factor: 0.5,
    /// #     rms_norm_eps: 1e-6,
    /// #     rope_theta: 10_000.0,
    /// #     block_types: vec![TemporalBlockType::Recurrent, TemporalBlockType::Attention],
    /// #     attention_bias: false,
    /// #     max_seq_len: 64,
    /// # };
    /// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
    /// let model = Model::new(&config, vb)?;
    /// assert_eq!(model.zero_state(1)?.blocks.len(), 2);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    #[track_caller]
    pub fn new(config: &Config, vb: VarBuilder<'_>) -> Result<Self> {
        config.check()?;
        let shared = Shared {
            recurrence: compile(recurrence(config.width(), accumulator_dtype(nn::dtype(&vb)?)), &vb)?,
            rotation: Rotation::new(config, vb.dtype(), vb.device())?,
        };
        let block = |index: usize, vb: VarBuilder<'_>| {
            Block::new(config.block_types[index % config.block_types.len()], config, &shared, vb)
        };
        let own = RecurrentGemma { final_norm: Norm::new(config, vb.pp("final_norm"))?, config: config.clone() };
        let sizes = [config.vocab_size, config.hidden_size];
        Model::from_parts(own, sizes, vb.pp("embed_tokens"), config.num_hidden_layers, &vb.pp("layers"), block)
    }
}

impl Architecture for RecurrentGemma {
    const NAME: &'static str = "recurrent_gemma";
    type Block = Block;

    fn zero_state(&self, block: &Block, batch: usize, zeros: &Zeros<'_>) -> Result<BlockState> {
        let config = &self.config;
        Ok(match &block.temporal {
            Temporal::Recurrent(_) => {
                let h = zeros(&[batch, config.width()])?;
                let before = zeros(&[batch, config.conv1d_width - 1, config.width()])?;
                BlockState::Recurrent { h: h.to_dtype(in_f32_at_least(h.dtype()))?, before }
            }
            Temporal::Attention(_) => {
                let none = zeros(&[batch, config.num_key_value_heads, 0, config.head_dim])?;
                BlockState::Attention { keys: none.clone(), values: none }
            }
        })
    }

    #[track_caller]
    fn begin(&self, rows: Tensor, pos: usize) -> Result<Tensor> {
        if pos > self.config.max_seq_len {
            let (expected, fix) = (self.config.max_seq_len.to_string(), "increase `max_seq_len`");
            return Err(mismatch(Self::NAME, "the number of steps", &expected, pos, fix));
        }
        rows * (self.config.hidden_size as f64).sqrt()
    }

    fn logits(&self, embeddings: &Embedding, xs: &Tensor) -> Result<Tensor> {
        let logits = tied_logits(embeddings, &self.final_norm.forward(xs)?)?;
        (logits / self.config.logits_soft_cap)?.tanh()? * self.config.logits_soft_cap
    }
}

/// Returns the dtype of the recurrence's state in a model of this dtype: f64 for f64, and f32 for all others.
fn accumulator_dtype(dtype: funcify_core::DType) -> funcify_core::DType {
    if dtype == funcify_core::DType::F64 { dtype } else { funcify_core::DType::F32 }
}

fn in_f32_at_least(dtype: DType) -> DType {
    if dtype == DType::F64 { dtype } else { DType::F32 }
}

/// Builds the graph of the recurrence `h' = a h + b` over sequences of shape `[B,T,width]`, with a state `h` of shape
/// `[B,width]`.
fn recurrence(width: usize, dtype: funcify_core::DType) -> funcify_core::Result<Graph> {
    Graph::build("rg_lru", |g| {
        let rows = |name: &str| {
            g.input(name, TensorType::new(dtype, [Dim::from("B"), "T".into(), width.into()])).move_axis(1, 0)
        };
        let [a, b] = ["a", "b"].map(rows);
        let init = g.input("h", TensorType::new(dtype, [Dim::from("B"), width.into()]));
        let (last, hs) = scan(init, (a, b), |h, (a, b)| {
            let next = a * h + b;
            (next, next)
        });
        (hs.move_axis(0, 1), last)
    })
}

/// The compiled recurrence and the rotary position embeddings that all blocks share.
struct Shared {
    recurrence: Arc<Differentiable>,
    rotation: Rotation,
}

/// An RMS norm whose scale is one plus its weight.
#[derive(Clone)]
struct Norm {
    weight: Tensor,
    epsilon: f64,
}

impl Norm {
    fn new(config: &Config, vb: VarBuilder<'_>) -> Result<Self> {
        let weight = vb.get_with_hints(config.hidden_size, "weight", Init::Const(0.0))?;
        Ok(Norm { weight, epsilon: config.rms_norm_eps })
    }
}

impl Module for Norm {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let wide = xs.to_dtype(in_f32_at_least(xs.dtype()))?;
        let size = (wide.sqr()?.mean_keepdim(D::Minus1)? + self.epsilon)?.sqrt()?;
        wide.broadcast_div(&size)?.to_dtype(xs.dtype())?.broadcast_mul(&(&self.weight + 1.0)?)
    }
}

/// A block of RecurrentGemma: a recurrence or attention, followed by a feed-forward layer.
#[doc(hidden)]
#[derive(Clone)]
pub struct Block {
    temporal_pre_norm: Norm,
    temporal: Temporal,
    channel_pre_norm: Norm,
    mlp: Mlp,
}

#[derive(Clone)]
enum Temporal {
    Recurrent(Recurrent),
    Attention(Attention),
}

impl Block {
    fn new(kind: TemporalBlockType, config: &Config, shared: &Shared, vb: VarBuilder<'_>) -> Result<Self> {
        let inside = vb.pp("temporal_block");
        Ok(Block {
            temporal_pre_norm: Norm::new(config, vb.pp("temporal_pre_norm"))?,
            temporal: match kind {
                TemporalBlockType::Recurrent => Temporal::Recurrent(Recurrent::new(config, shared, inside)?),
                TemporalBlockType::Attention => Temporal::Attention(Attention::new(config, shared, inside)?),
            },
            channel_pre_norm: Norm::new(config, vb.pp("channel_pre_norm"))?,
            mlp: Mlp::new(config, vb.pp("mlp_block"))?,
        })
    }
}

impl model::Block for Block {
    type State = BlockState;

    #[track_caller]
    fn forward(&self, xs: &Tensor, state: &BlockState, pos: usize) -> Result<(Tensor, BlockState)> {
        let normal = self.temporal_pre_norm.forward(xs)?;
        let (ys, state) = match (&self.temporal, state) {
            (Temporal::Recurrent(block), BlockState::Recurrent { h, before }) => {
                block.forward(&normal, h, before, pos)?
            }
            (Temporal::Attention(block), BlockState::Attention { keys, values }) => {
                block.forward(&normal, keys, values, pos)?
            }
            _ => {
                let (found, fix) = ("the state of another block type", "start with `zero_state`");
                let component = "the state of a block";
                return Err(mismatch("recurrent_gemma", component, "the state of this block type", found, fix));
            }
        };
        let xs = (xs + ys)?;
        let ys = self.mlp.forward(&self.channel_pre_norm.forward(&xs)?)?;
        Ok(((xs + ys)?, state))
    }
}

#[derive(Clone)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
    activation: Activation,
}

impl Mlp {
    fn new(config: &Config, vb: VarBuilder<'_>) -> Result<Self> {
        let (outer, inner) = (config.hidden_size, config.intermediate_size / 2);
        Ok(Mlp {
            gate_proj: linear(outer, inner, vb.pp("gate_proj"))?,
            up_proj: linear(outer, inner, vb.pp("up_proj"))?,
            down_proj: linear(inner, outer, vb.pp("down_proj"))?,
            activation: config.hidden_activation,
        })
    }

    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let gate = self.gate_proj.forward(xs)?.apply(&self.activation)?;
        self.down_proj.forward(&(gate * self.up_proj.forward(xs)?)?)
    }
}

/// A short convolution followed by the RG-LRU, whose output is multiplied by a gate.
#[derive(Clone)]
struct Recurrent {
    linear_y: Linear,
    linear_x: Linear,
    linear_out: Linear,
    conv_weight: Tensor,
    conv_bias: Tensor,
    recurrent_param: Tensor,
    input_gate: Gate,
    recurrent_gate: Gate,
    activation: Activation,
    recurrence: Arc<Differentiable>,
}

impl Recurrent {
    fn new(config: &Config, shared: &Shared, vb: VarBuilder<'_>) -> Result<Self> {
        let (outer, width) = (config.hidden_size, config.width());
        let unit = vb.pp("rg_lru");
        let (conv_weight, conv_bias) = convolution_parameters(width, config.conv1d_width, &vb.pp("conv_1d"))?;
        // With these bounds, the decay factor is initially between 0.9 and 0.999 where the recurrent gate is 1.
        let slow = Init::Uniform { lo: -9.0, up: -4.3 };
        Ok(Recurrent {
            linear_y: linear(outer, width, vb.pp("linear_y"))?,
            linear_x: linear(outer, width, vb.pp("linear_x"))?,
            linear_out: linear(width, outer, vb.pp("linear_out"))?,
            conv_weight,
            conv_bias,
            recurrent_param: unit.get_with_hints(width, "recurrent_param", slow)?,
            input_gate: Gate::new("input_gate", config, &unit)?,
            recurrent_gate: Gate::new("recurrent_gate", config, &unit)?,
            activation: config.hidden_activation,
            recurrence: shared.recurrence.clone(),
        })
    }

    #[track_caller]
    fn forward(&self, xs: &Tensor, h: &Tensor, before: &Tensor, pos: usize) -> Result<(Tensor, BlockState)> {
        let gate = self.linear_y.forward(xs)?.apply(&self.activation)?;
        let us = self.linear_x.forward(xs)?;
        let (us, before) = short_convolution(&us, before, &self.conv_weight, &self.conv_bias)?;
        let rate = (self.recurrent_param.exp()? + 1.0)?.log()?;
        let log_a = (self.recurrent_gate.forward(&us)? * -8.0)?.broadcast_mul(&rate)?;
        let inputs = (&us * self.input_gate.forward(&us)?)?;
        let scaled = (&inputs * (1.0 - (&log_a * 2.0)?.exp()?)?.sqrt()?)?;
        // Do not scale the input of the first step of a sequence.
        let scaled = match (pos, us.dim(1)?) {
            (0, 1) => inputs,
            (0, steps) => Tensor::cat(&[inputs.narrow(1, 0, 1)?, scaled.narrow(1, 1, steps - 1)?], 1)?,
            _ => scaled,
        };
        let wide = |tensor: Tensor| tensor.to_dtype(h.dtype());
        let [hs, h] = run_scan(&self.recurrence, &[wide(log_a.exp()?)?, wide(scaled)?, h.clone()])?;
        let ys = self.linear_out.forward(&(hs.to_dtype(xs.dtype())? * gate)?)?;
        Ok((ys, BlockState::Recurrent { h, before }))
    }
}

/// A gate between 0 and 1 for each feature, computed from the features of its head.
#[derive(Clone)]
struct Gate {
    weight: Tensor,
    bias: Tensor,
}

impl Gate {
    fn new(name: &str, config: &Config, vb: &VarBuilder<'_>) -> Result<Self> {
        let (heads, size) = (config.num_attention_heads, config.width() / config.num_attention_heads);
        let normal = Init::Randn { mean: 0.0, stdev: (size as f64).recip().sqrt() };
        Ok(Gate {
            weight: vb.get_with_hints((heads, size, size), &format!("{name}_weight"), normal)?,
            bias: vb.get_with_hints((heads, size), &format!("{name}_bias"), Init::Const(0.0))?,
        })
    }

    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let (batch, steps, width) = xs.dims3()?;
        let (heads, size) = self.bias.dims2()?;
        let by_head = xs.reshape((batch * steps, heads, size))?.transpose(0, 1)?.contiguous()?;
        let gate = by_head.matmul(&self.weight)?.broadcast_add(&self.bias.unsqueeze(1)?)?;
        ops::sigmoid(&gate.transpose(0, 1)?.reshape((batch, steps, width))?)
    }
}

/// The cosines and sines of the rotary position embedding, which rotates the first half of each head's features.
#[derive(Clone)]
struct Rotation {
    cos: Tensor,
    sin: Tensor,
}

impl Rotation {
    fn new(config: &Config, dtype: DType, device: &Device) -> Result<Self> {
        let rotated = config.head_dim / 2;
        let speed = |index: usize| config.rope_theta.powf(index as f64 / rotated as f64).recip() as f32;
        let speeds: Vec<f32> = (0..rotated).step_by(2).map(speed).collect();
        let speeds = Tensor::new(speeds, device)?.to_dtype(dtype)?.unsqueeze(0)?;
        let positions = Tensor::arange(0u32, config.max_seq_len as u32, device)?.to_dtype(dtype)?.unsqueeze(1)?;
        let angles = positions.matmul(&speeds)?;
        let angles = Tensor::cat(&[&angles, &angles], 1)?;
        Ok(Rotation { cos: angles.cos()?, sin: angles.sin()? })
    }

    /// Applies the rotary embedding to `xs`, `[batch, heads, steps, head_dim]`, whose first step is at position `pos`.
    fn forward(&self, xs: &Tensor, pos: usize) -> Result<Tensor> {
        let (steps, half) = (xs.dim(2)?, xs.dim(3)? / 2);
        let (turned, kept) = (xs.narrow(3, 0, half)?, xs.narrow(3, half, half)?);
        let (cos, sin) = (self.cos.narrow(0, pos, steps)?, self.sin.narrow(0, pos, steps)?);
        let (left, right) = (turned.narrow(3, 0, half / 2)?, turned.narrow(3, half / 2, half / 2)?);
        let across = Tensor::cat(&[&right.neg()?, &left], 3)?;
        let turned = (turned.broadcast_mul(&cos)? + across.broadcast_mul(&sin)?)?;
        Tensor::cat(&[&turned, &kept], 3)
    }
}

/// Grouped-query attention over all steps up to the current one.
#[derive(Clone)]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    heads: usize,
    key_heads: usize,
    size: usize,
    rotation: Rotation,
}

impl Attention {
    fn new(config: &Config, shared: &Shared, vb: VarBuilder<'_>) -> Result<Self> {
        let (outer, size, bias) = (config.hidden_size, config.head_dim, config.attention_bias);
        let (heads, key_heads) = (config.num_attention_heads, config.num_key_value_heads);
        Ok(Attention {
            q_proj: linear_b(outer, heads * size, bias, vb.pp("q_proj"))?,
            k_proj: linear_b(outer, key_heads * size, bias, vb.pp("k_proj"))?,
            v_proj: linear_b(outer, key_heads * size, bias, vb.pp("v_proj"))?,
            o_proj: linear(heads * size, outer, vb.pp("o_proj"))?,
            heads,
            key_heads,
            size,
            rotation: shared.rotation.clone(),
        })
    }

    fn forward(&self, xs: &Tensor, keys: &Tensor, values: &Tensor, pos: usize) -> Result<(Tensor, BlockState)> {
        let (batch, steps, features) = xs.dims3()?;
        let by_head = |linear: &Linear, heads: usize| {
            linear.forward(xs)?.reshape((batch, steps, heads, self.size))?.transpose(1, 2)?.contiguous()
        };
        let queries = self.rotation.forward(&by_head(&self.q_proj, self.heads)?, pos)?;
        let new = self.rotation.forward(&by_head(&self.k_proj, self.key_heads)?, pos)?;
        let keys = Tensor::cat(&[keys, &new], 2)?;
        let values = Tensor::cat(&[values, &by_head(&self.v_proj, self.key_heads)?], 2)?;
        // The heads of a group share keys and values, so their queries are stacked along the step axis.
        let group = self.heads / self.key_heads;
        let queries = queries.reshape((batch, self.key_heads, group * steps, self.size))?;
        let scores = (queries.matmul(&keys.t()?)? / (self.size as f64).sqrt())?;
        let scores = scores.reshape((batch, self.heads, steps, pos + steps))?.broadcast_add(&mask(pos, steps, xs)?)?;
        let shares = ops::softmax(&scores, D::Minus1)?.reshape((batch, self.key_heads, group * steps, pos + steps))?;
        let ys = shares.matmul(&values)?.reshape((batch, self.heads, steps, self.size))?;
        let ys = self.o_proj.forward(&ys.transpose(1, 2)?.reshape((batch, steps, features))?)?;
        Ok((ys, BlockState::Attention { keys, values }))
    }
}

/// Returns a mask for attention scores: minus infinity where a step would attend to a later step, and 0 elsewhere.
fn mask(pos: usize, steps: usize, like: &Tensor) -> Result<Tensor> {
    let row = |step: usize| (0..pos + steps).map(move |seen| if seen > pos + step { f32::NEG_INFINITY } else { 0.0 });
    let mask: Vec<f32> = (0..steps).flat_map(row).collect();
    Tensor::from_vec(mask, (steps, pos + steps), like.device())?.to_dtype(like.dtype())
}
