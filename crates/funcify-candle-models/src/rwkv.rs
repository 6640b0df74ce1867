//! RWKV, versions 5 and 6 (Peng et al. 2024, Eagle and Finch), with the options and parameters of
//! `candle_transformers::models::{rwkv_v5, rwkv_v6}`.
//!
//! The models of `candle-transformers` (the library) process one token of one sequence per call. Here, one call
//! processes a whole prompt or a batch of prompts. The token shift processes all rows at once, and the recurrence of
//! each block is one compiled loop.

use candle_nn::{GroupNorm, linear_no_bias};

use super::*;
use crate::model;

/// A version of the RWKV architecture.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::rwkv::{Config, Model, Version};
///
/// # let config = Config {
/// #     vocab_size: 16,
/// #     hidden_size: 8,
/// #     num_hidden_layers: 2,
/// #     attention_hidden_size: 8,
/// #     head_size: 4,
/// #     intermediate_size: Some(16),
/// #     layer_norm_epsilon: 1e-5,
/// # };
/// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
/// let model = Model::new(Version::Five, &config, vb)?;
/// assert_eq!(model.zero_state(1)?.pos, 0);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// Eagle, `rwkv_v5`: decays and mixing weights are parameters.
    Five,
    /// Finch, `rwkv_v6`: decays and mixing weights depend on the input.
    Six,
}

/// The hyperparameters of a model: the fields of the library's `Config` that this crate uses.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::rwkv::{Config, Model, Version};
///
/// let config = Config {
///     vocab_size: 16,
///     hidden_size: 8,
///     num_hidden_layers: 2,
///     attention_hidden_size: 8,
///     head_size: 4,
///     intermediate_size: Some(16),
///     layer_norm_epsilon: 1e-5,
/// };
/// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
/// let model = Model::new(Version::Six, &config, vb)?;
/// let mut state = model.zero_state(1)?;
/// let prompt = Tensor::new(&[[3u32, 1, 4]], &Device::Cpu)?;
/// assert_eq!(model.forward(&prompt, &mut state)?.dims(), [1, 3, 16]);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The vocabulary size.
    pub vocab_size: usize,
    /// The size of the residual stream between blocks.
    pub hidden_size: usize,
    /// The number of blocks.
    pub num_hidden_layers: usize,
    /// The number of features inside the time-mixing layer. Must be equal to `hidden_size`.
    pub attention_hidden_size: usize,
    /// The number of features per head. (The library's `Config` also has the field `num_attention_heads`. The library's
    /// state uses it as the head size, so it must be equal to `head_size`.)
    pub head_size: usize,
    /// The number of features inside the channel-mixing layer. Defaults to 3.5 times `hidden_size`, rounded down to a
    /// multiple of 32.
    pub intermediate_size: Option<usize>,
    /// The epsilon that the norms of the blocks add to the variance.
    pub layer_norm_epsilon: f64,
}

impl Config {
    fn heads(&self) -> usize {
        self.hidden_size / self.head_size
    }

    fn intermediate(&self) -> usize {
        self.intermediate_size.unwrap_or((self.hidden_size as f64 * 3.5) as usize / 32 * 32)
    }

    fn check(&self) -> Result<()> {
        if self.head_size == 0 || !self.hidden_size.is_multiple_of(self.head_size) {
            let expected = format!("a divisor of `hidden_size`, {}", self.hidden_size);
            return Err(mismatch("rwkv", "`head_size`", &expected, self.head_size, "choose sizes that divide evenly"));
        }
        if self.attention_hidden_size != self.hidden_size {
            let (expected, fix) = (self.hidden_size.to_string(), "set it to `hidden_size`");
            return Err(mismatch("rwkv", "`attention_hidden_size`", &expected, self.attention_hidden_size, fix));
        }
        Ok(())
    }
}

/// The state of a model after the steps processed so far.
pub type State = crate::State<StatePerLayer>;

/// The state of a block, with the fields of the library's `StatePerLayer`.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::rwkv::{Config, Model, Version};
///
/// # let config = Config {
/// #     vocab_size: 16,
/// #     hidden_size: 8,
/// #     num_hidden_layers: 2,
/// #     attention_hidden_size: 8,
/// #     head_size: 4,
/// #     intermediate_size: Some(16),
/// #     layer_norm_epsilon: 1e-5,
/// # };
/// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
/// let model = Model::new(Version::Six, &config, vb)?;
/// let state = model.zero_state(1)?;
/// assert_eq!(state.blocks[0].linear_attention.dims(), [1, 2, 4, 4]);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StatePerLayer {
    /// The last input of the time-mixing layer, `[batch, features]`.
    pub extract_key_value: Tensor,
    /// The memory, `[batch, heads, head_size, head_size]`: one row per key feature, and one column per value feature.
    pub linear_attention: Tensor,
    /// The last input of the channel-mixing layer, `[batch, features]`.
    pub feed_forward: Tensor,
}

/// An RWKV language model. Clones share their parameters.
pub type Model = crate::Model<Rwkv>;

/// The parts of an RWKV model other than the embedding and the blocks.
#[doc(hidden)]
#[derive(Clone)]
pub struct Rwkv {
    pre_ln: LayerNorm,
    ln_out: LayerNorm,
    head: Linear,
    config: Config,
}

impl Model {
    /// Creates the model with the parameters of a `VarBuilder` under the library's names: `rwkv.embeddings.weight`,
    /// `rwkv.blocks.0.attention.time_decay` and so on. If the `VarBuilder` wraps a `VarMap`, missing parameters are
    /// initialised for training.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{VarBuilder, VarMap};
    /// use funcify_candle_models::rwkv::{Config, Model, Version};
    ///
    /// # let config = Config {
    /// #     vocab_size: 16,
    /// #     hidden_size: 8,
    /// #     num_hidden_layers: 2,
    /// #     attention_hidden_size: 8,
    /// #     head_size: 4,
    /// #     intermediate_size: Some(16),
    /// #     layer_norm_epsilon: 1e-5,
    /// # };
    /// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
    /// let model = Model::new(Version::Six, &config, vb)?;
    /// assert_eq!(model.zero_state(1)?.blocks.len(), 2);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    #[track_caller]
    pub fn new(version: Version, config: &Config, vb: VarBuilder<'_>) -> Result<Self> {
        config.check()?;
        let memory = compile(memory_graph(config, nn::dtype(&vb)?), &vb)?;
        let (features, inside) = (config.hidden_size, vb.pp("rwkv"));
        let blocks = inside.pp("blocks");
        let own = Rwkv {
            pre_ln: candle_nn::layer_norm(features, config.layer_norm_epsilon, blocks.pp(0).pp("pre_ln"))?,
            ln_out: candle_nn::layer_norm(features, 1e-5, inside.pp("ln_out"))?,
            head: linear_no_bias(features, config.vocab_size, vb.pp("head"))?,
            config: config.clone(),
        };
        let block = |_, vb: VarBuilder<'_>| Block::new(version, config, &memory, vb);
        let sizes = [config.vocab_size, features];
        Model::from_parts(own, sizes, inside.pp("embeddings"), config.num_hidden_layers, &blocks, block)
    }
}

impl Architecture for Rwkv {
    const NAME: &'static str = "rwkv";
    type Block = Block;

    fn zero_state(&self, _: &Block, batch: usize, zeros: &Zeros<'_>) -> Result<StatePerLayer> {
        let (heads, size) = (self.config.heads(), self.config.head_size);
        let row = zeros(&[batch, self.config.hidden_size])?;
        let linear_attention = zeros(&[batch, heads, size, size])?;
        Ok(StatePerLayer { extract_key_value: row.clone(), linear_attention, feed_forward: row })
    }

    fn begin(&self, rows: Tensor, _: usize) -> Result<Tensor> {
        layer_norm(&self.pre_ln, &rows)
    }

    fn logits(&self, _: &Embedding, xs: &Tensor) -> Result<Tensor> {
        self.head.forward(&layer_norm(&self.ln_out, xs)?)
    }
}

/// Builds the graph of the recurrence over sequences of shape `[B,T,heads,size]`: each head computes `o = r (S +
/// diag(u) kᵀ v)` and `S' = diag(w) S + kᵀ v`. `S` is the memory, `u` is the bonus, and `r`, `k`, `v` and `w` are the
/// receptance, the key, the value and the decay of a step.
fn memory_graph(config: &Config, dtype: funcify_core::DType) -> funcify_core::Result<Graph> {
    let (heads, size) = (Dim::from(config.heads()), Dim::from(config.head_size));
    Graph::build("rwkv_memory", |g| {
        let rows = |name: &str| {
            let dims = [Dim::from("B"), Dim::from("T"), heads.clone(), size.clone()];
            g.input(name, TensorType::new(dtype, dims)).move_axis(1, 0)
        };
        let [r, k, v, w] = ["r", "k", "v", "w"].map(rows);
        let bonus = g.input("u", TensorType::new(dtype, [heads.clone(), size.clone()])).unsqueeze(2);
        let dims = [Dim::from("B"), heads.clone(), size.clone(), size.clone()];
        let memory = g.input("memory", TensorType::new(dtype, dims));
        let step = |s: Value, (r, k, v, w): (Value, Value, Value, Value)| {
            let written = k.unsqueeze(3) * v.unsqueeze(2);
            (w.unsqueeze(3) * s + written, (r.unsqueeze(3) * (s + bonus * written)).sum(2))
        };
        let (last, os) = scan(memory, (r, k, v, w), step);
        (os.move_axis(0, 1), last)
    })
}

/// Shifts the rows by one step: returns `last`, followed by all rows of `xs` except the last one.
fn shift_rows(xs: &Tensor, last: &Tensor) -> Result<Tensor> {
    prepend_rows(&last.unsqueeze(1)?, &xs.narrow(1, 0, xs.dim(1)? - 1)?)
}

/// Computes `x + share * change`, where `share` has one weight per feature or per element.
fn mix_in(x: &Tensor, change: &Tensor, share: &Tensor) -> Result<Tensor> {
    x + change.broadcast_mul(share)?
}

/// Multiplies `xs`, `[batch, steps, from]`, by `weight`, `[from, to]`.
fn product(xs: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let (batch, steps, from) = xs.dims3()?;
    xs.reshape((batch * steps, from))?.matmul(weight)?.reshape((batch, steps, ()))
}

/// A block of RWKV: a time-mixing layer, followed by a channel-mixing layer.
#[doc(hidden)]
#[derive(Clone)]
pub struct Block {
    ln1: LayerNorm,
    ln2: LayerNorm,
    attention: TimeMix,
    feed_forward: ChannelMix,
}

impl Block {
    fn new(version: Version, config: &Config, memory: &Arc<Differentiable>, vb: VarBuilder<'_>) -> Result<Self> {
        let norm = |name: &str| candle_nn::layer_norm(config.hidden_size, config.layer_norm_epsilon, vb.pp(name));
        Ok(Block {
            ln1: norm("ln1")?,
            ln2: norm("ln2")?,
            attention: TimeMix::new(version, config, memory.clone(), vb.pp("attention"))?,
            feed_forward: ChannelMix::new(version, config, vb.pp("feed_forward"))?,
        })
    }
}

impl model::Block for Block {
    type State = StatePerLayer;

    #[track_caller]
    fn forward(&self, xs: &Tensor, state: &StatePerLayer, _: usize) -> Result<(Tensor, StatePerLayer)> {
        let normal = layer_norm(&self.ln1, xs)?;
        let (ys, linear_attention) =
            self.attention.forward(&normal, &state.extract_key_value, &state.linear_attention)?;
        let (xs, extract_key_value) = ((xs + ys)?, last_row(&normal)?);
        let normal = layer_norm(&self.ln2, &xs)?;
        let ys = self.feed_forward.forward(&normal, &state.feed_forward)?;
        let feed_forward = last_row(&normal)?;
        Ok(((xs + ys)?, StatePerLayer { extract_key_value, linear_attention, feed_forward }))
    }
}

/// The time-mixing layer: linear attention, in which the input of each step is interpolated with that of the previous
/// step.
#[derive(Clone)]
struct TimeMix {
    receptance: Linear,
    key: Linear,
    value: Linear,
    gate: Linear,
    output: Linear,
    ln_x: GroupNorm,
    time_faaaa: Tensor,
    mixing: Mixing,
    memory: Arc<Differentiable>,
    heads: usize,
    size: usize,
}

/// The decays, and the weights that interpolate between the input of a step and the input of the previous step.
#[derive(Clone)]
enum Mixing {
    /// Weights and decays are parameters. `mix` holds the weights of the current input for receptance, key, value and
    /// gate, each `[1, 1, features]`. `decay` is `[heads, size]`.
    Parameters { mix: [Tensor; 4], decay: Tensor },
    /// Weights and decays depend on the input. `mix` holds the weights of the previous input for decay, key, value,
    /// receptance and gate. Low-rank projections of the input are added to the weights and to the decays.
    Input { mix_x: Tensor, mix: [Tensor; 5], narrow: Tensor, wide: Tensor, decay: Tensor, decay_maps: [Tensor; 2] },
}

/// The inputs of the projections, `[batch, steps, features]`, and the decays, which may have a single row for all
/// steps.
struct MixedInputs {
    receptance: Tensor,
    key: Tensor,
    value: Tensor,
    gate: Tensor,
    decay: Tensor,
}

impl Mixing {
    fn new(version: Version, config: &Config, vb: &VarBuilder<'_>) -> Result<Self> {
        let (features, heads, size) = (config.hidden_size, config.heads(), config.head_size);
        let half = Init::Const(0.5);
        let share = |name: &str| vb.get_with_hints((1, 1, features), &format!("time_mix_{name}"), half);
        let small = Init::Uniform { lo: -1e-2, up: 1e-2 };
        let slow = Init::Uniform { lo: -6.0, up: -1.0 };
        Ok(match version {
            Version::Five => Mixing::Parameters {
                mix: [share("receptance")?, share("key")?, share("value")?, share("gate")?],
                decay: vb.get_with_hints((heads, size), "time_decay", slow)?,
            },
            Version::Six => Mixing::Input {
                mix_x: share("x")?,
                mix: [share("w")?, share("key")?, share("value")?, share("receptance")?, share("gate")?],
                narrow: vb.get_with_hints((features, 5 * heads), "time_mix_w1", small)?,
                wide: vb.get_with_hints((5, heads, features), "time_mix_w2", small)?,
                decay: vb.get_with_hints((1, 1, features), "time_decay", slow)?,
                decay_maps: [
                    vb.get_with_hints((features, 2 * heads), "time_decay_w1", small)?,
                    vb.get_with_hints((2 * heads, features), "time_decay_w2", small)?,
                ],
            },
        })
    }

    /// Interpolates each row of `xs` with the row of the previous step, which `before` holds at the same index.
    fn mix(&self, xs: &Tensor, before: &Tensor) -> Result<MixedInputs> {
        match self {
            Mixing::Parameters { mix, decay } => {
                let change = (xs - before)?;
                let of = |share: &Tensor| mix_in(before, &change, share);
                let [receptance, key, value, gate] = mix;
                Ok(MixedInputs {
                    receptance: of(receptance)?,
                    key: of(key)?,
                    value: of(value)?,
                    gate: of(gate)?,
                    decay: decay.flatten_all()?.reshape((1, 1, ()))?,
                })
            }
            Mixing::Input { mix_x, mix, narrow, wide, decay, decay_maps } => {
                let change = (before - xs)?;
                let (batch, steps, _) = xs.dims3()?;
                let narrow = product(&mix_in(xs, &change, mix_x)?, narrow)?.tanh()?;
                let parts = narrow.reshape((batch * steps, 5, ()))?.transpose(0, 1)?.contiguous()?;
                let more = parts.matmul(wide)?.reshape((5, batch, steps, ()))?;
                let of = |index: usize| mix_in(xs, &change, &mix[index].broadcast_add(&more.get(index)?)?);
                let [first, second] = decay_maps;
                Ok(MixedInputs {
                    decay: product(&product(&of(0)?, first)?.tanh()?, second)?.broadcast_add(decay)?,
                    key: of(1)?,
                    value: of(2)?,
                    receptance: of(3)?,
                    gate: of(4)?,
                })
            }
        }
    }
}

impl TimeMix {
    fn new(version: Version, config: &Config, memory: Arc<Differentiable>, vb: VarBuilder<'_>) -> Result<Self> {
        let (features, heads, size) = (config.hidden_size, config.heads(), config.head_size);
        let linear = |name: &str| linear_no_bias(features, features, vb.pp(name));
        Ok(TimeMix {
            receptance: linear("receptance")?,
            key: linear("key")?,
            value: linear("value")?,
            gate: linear("gate")?,
            output: linear("output")?,
            ln_x: candle_nn::group_norm(heads, features, 1e-5, vb.pp("ln_x"))?,
            time_faaaa: vb.get_with_hints((heads, size), "time_faaaa", Init::Uniform { lo: -1.0, up: 1.0 })?,
            mixing: Mixing::new(version, config, &vb)?,
            memory,
            heads,
            size,
        })
    }

    /// Runs the layer on `xs`, `[batch, steps, features]`, continuing from the last row and the memory of the
    /// previous call. Returns the output and the new memory.
    #[track_caller]
    fn forward(&self, xs: &Tensor, last: &Tensor, memory: &Tensor) -> Result<(Tensor, Tensor)> {
        let (batch, steps, features) = xs.dims3()?;
        let MixedInputs { receptance, key, value, gate, decay } = self.mixing.mix(xs, &shift_rows(xs, last)?)?;
        let by_head = |xs: Tensor| xs.reshape((batch, steps, self.heads, self.size));
        let decay = decay.exp()?.neg()?.exp()?.broadcast_as((batch, steps, features))?.contiguous()?;
        let arguments = [
            by_head(self.receptance.forward(&receptance)?)?,
            by_head(self.key.forward(&key)?)?,
            by_head(self.value.forward(&value)?)?,
            by_head(decay)?,
            self.time_faaaa.clone(),
            memory.clone(),
        ];
        let [os, memory] = run_scan(&self.memory, &arguments)?;
        let os = self.ln_x.forward(&os.reshape((batch * steps, features, 1))?)?.reshape((batch, steps, features))?;
        let ys = self.output.forward(&(os * self.gate.forward(&gate)?.silu()?)?)?;
        Ok((ys, memory))
    }
}

/// The channel-mixing layer, which follows the time-mixing layer. It applies a squared ReLU and a gate.
#[derive(Clone)]
struct ChannelMix {
    version: Version,
    time_mix_key: Tensor,
    time_mix_receptance: Tensor,
    key: Linear,
    receptance: Linear,
    value: Linear,
}

impl ChannelMix {
    fn new(version: Version, config: &Config, vb: VarBuilder<'_>) -> Result<Self> {
        let (features, inner) = (config.hidden_size, config.intermediate());
        let share = |name: &str| vb.get_with_hints((1, 1, features), name, Init::Const(0.5));
        Ok(ChannelMix {
            version,
            time_mix_key: share("time_mix_key")?,
            time_mix_receptance: share("time_mix_receptance")?,
            key: linear_no_bias(features, inner, vb.pp("key"))?,
            receptance: linear_no_bias(features, features, vb.pp("receptance"))?,
            value: linear_no_bias(inner, features, vb.pp("value"))?,
        })
    }

    fn forward(&self, xs: &Tensor, last: &Tensor) -> Result<Tensor> {
        let before = shift_rows(xs, last)?;
        // In version 5, each mixing parameter is the weight of the current row; in version 6, it is the weight of the
        // previous row.
        let (from, change) = match self.version {
            Version::Five => (&before, (xs - &before)?),
            Version::Six => (xs, (&before - xs)?),
        };
        let key = self.key.forward(&mix_in(from, &change, &self.time_mix_key)?)?.relu()?.sqr()?;
        let receptance = self.receptance.forward(&mix_in(from, &change, &self.time_mix_receptance)?)?;
        ops::sigmoid(&receptance)? * self.value.forward(&key)?
    }
}
