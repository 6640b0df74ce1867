//! Mamba (Gu and Dao 2023), with the options and parameters of `candle_transformers::models::mamba`.
//!
//! The model of `candle-transformers` (the library) processes one token per call, so a prompt needs one call per token.
//! Here, the projections, the convolution and the norms process the whole prompt at once, and the selective scan is one
//! compiled loop.

use funcify_candle::DifferentiableOptions;
use funcify_core::concat;
use funcify_nn::{Parameter, SelectiveScan};
use funcify_runtime::{CompileOptions, LoopStrategy};

use super::*;
use crate::model;

/// The width of the convolution kernel, in steps.
const WIDTH: usize = 4;
/// The state size per feature.
const STATES: usize = 16;

/// The hyperparameters of a Mamba model.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::mamba::{Config, Model};
///
/// let config = Config { d_model: 8, n_layer: 2, vocab_size: 16, pad_vocab_size_multiple: 8 };
/// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
/// let model = Model::new(&config, vb)?;
/// let mut state = model.zero_state(1)?;
/// let prompt = Tensor::new(&[[3u32, 1, 4]], &Device::Cpu)?;
/// assert_eq!(model.forward(&prompt, &mut state)?.dims(), [1, 3, 16]);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// The size of the residual stream between blocks.
    pub d_model: usize,
    /// The number of blocks.
    pub n_layer: usize,
    /// The vocabulary size.
    pub vocab_size: usize,
    /// The padding of the vocabulary: the number of embedding rows is `vocab_size`, rounded up to a multiple of this
    /// number.
    pub pad_vocab_size_multiple: usize,
}

impl Config {
    /// Returns the number of features inside a block.
    fn inner(&self) -> usize {
        2 * self.d_model
    }

    /// Returns the rank of the projection that computes step sizes.
    fn rank(&self) -> usize {
        self.d_model.div_ceil(16)
    }
}

/// The state of a model after the steps processed so far.
pub type State = crate::State<BlockState>;

/// The state of a block: the states of its scan, and the last inputs of its convolution.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::mamba::{Config, Model};
///
/// # let config = Config { d_model: 8, n_layer: 2, vocab_size: 16, pad_vocab_size_multiple: 8 };
/// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
/// let model = Model::new(&config, vb)?;
/// let state = model.zero_state(1)?;
/// assert_eq!(state.blocks[0].h.dims(), [1, 16, 16]);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockState {
    /// The states of the scan, `[batch, 2 d_model, 16]`.
    pub h: Tensor,
    /// The last three inputs of the convolution, `[batch, 3, 2 d_model]`.
    pub before: Tensor,
}

impl State {
    /// Returns the `hs` field of the library's state: the states of the scan in each block.
    pub fn hs(&self) -> Vec<Tensor> {
        self.blocks.iter().map(|block| block.h.clone()).collect()
    }

    /// Returns the `prev_xs` field of the library's state: for each block, a ring buffer of the last four inputs of the
    /// convolution. The input of step `t` is in slot `t % 4`.
    ///
    /// `State { hs: state.hs(), prev_xs: state.prev_xs()?, pos: state.pos }` is the library's complete state.
    pub fn prev_xs(&self) -> Result<Vec<[Tensor; WIDTH]>> {
        let slots = |BlockState { before, .. }: &BlockState| {
            let slot = |number: usize| {
                let age = (self.pos + WIDTH - number) % WIDTH;
                // The library overwrites the slot of the next step before reading it, so its elements may be arbitrary.
                let row = WIDTH - 1 - if age == 0 { 1 } else { age };
                before.narrow(1, row, 1)?.squeeze(1)?.contiguous()
            };
            Ok([slot(0)?, slot(1)?, slot(2)?, slot(3)?])
        };
        self.blocks.iter().map(slots).collect()
    }

    /// Creates a state from the fields of the library's state: `hs`, `prev_xs` and `pos`.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{VarBuilder, VarMap};
    /// use funcify_candle_models::mamba::{Config, Model, State};
    ///
    /// # let config = Config { d_model: 8, n_layer: 2, vocab_size: 16, pad_vocab_size_multiple: 8 };
    /// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
    /// let model = Model::new(&config, vb)?;
    /// let mut state = model.zero_state(1)?;
    /// let prompt = Tensor::new(&[[3u32, 1, 4]], &Device::Cpu)?;
    /// model.forward(&prompt, &mut state)?;
    /// // The fields of the library's state, and back.
    /// let (hs, prev_xs, pos) = (state.hs(), state.prev_xs()?, state.pos);
    /// let mut state = State::from_library(&hs, &prev_xs, pos)?;
    /// model.forward_last(&Tensor::new(&[[1u32]], &Device::Cpu)?, &mut state)?;
    /// assert_eq!(state.pos, 4);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    pub fn from_library(hs: &[Tensor], prev_xs: &[[Tensor; WIDTH]], pos: usize) -> Result<Self> {
        let block = |(h, slots): (&Tensor, &[Tensor; WIDTH])| {
            let rows: Vec<&Tensor> = (1..WIDTH).rev().map(|age| &slots[(pos + WIDTH - age) % WIDTH]).collect();
            Ok(BlockState { h: h.clone(), before: Tensor::stack(&rows, 1)? })
        };
        Ok(State { blocks: hs.iter().zip(prev_xs).map(block).collect::<Result<_>>()?, pos })
    }
}

/// A Mamba language model. Clones share their parameters.
pub type Model = crate::Model<Mamba>;

/// The parts of a Mamba model other than the embedding and the blocks.
#[doc(hidden)]
#[derive(Clone)]
pub struct Mamba {
    norm_f: RmsNorm,
    inner: usize,
}

/// A block of Mamba: a norm and a mixer, with a residual connection.
#[doc(hidden)]
#[derive(Clone)]
pub struct Block {
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
    /// Creates the model with the parameters of a `VarBuilder` under the library's names: `embedding.weight`,
    /// `layers.0.norm.weight`, `layers.0.mixer.A_log` and so on. If the `VarBuilder` wraps a `VarMap`, missing
    /// parameters are initialised for training.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{VarBuilder, VarMap};
    /// use funcify_candle_models::mamba::{Config, Model};
    ///
    /// # let config = Config { d_model: 8, n_layer: 2, vocab_size: 16, pad_vocab_size_multiple: 8 };
    /// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
    /// let model = Model::new(&config, vb)?;
    /// assert_eq!(model.zero_state(1)?.blocks.len(), 2);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    #[track_caller]
    pub fn new(config: &Config, vb: VarBuilder<'_>) -> Result<Self> {
        let vocabulary = padded_vocabulary("mamba", config.vocab_size, config.pad_vocab_size_multiple)?;
        let programs = Core::new(config.inner(), nn::dtype(&vb)?, vb.device()).map_err(into_candle_error)?;
        let programs = Arc::new(programs);
        // Initialise the parameters of the scan like those of funcify's equivalent layer.
        let core = SelectiveScan { rank: config.rank(), states: STATES, ..SelectiveScan::new(config.inner()) };
        let core = core.layer().map_err(into_candle_error)?;
        let block = |_, vb: VarBuilder<'_>| Block::new(config, &programs, &core.parameters, vb);
        let norm_f = candle_nn::rms_norm(config.d_model, 1e-5, vb.pp("norm_f"))?;
        let (own, sizes) = (Mamba { norm_f, inner: config.inner() }, [vocabulary, config.d_model]);
        Model::from_parts(own, sizes, vb.pp("embedding"), config.n_layer, &vb.pp("layers"), block)
    }
}

impl Architecture for Mamba {
    const NAME: &'static str = "mamba";
    type Block = Block;

    fn zero_state(&self, _: &Block, batch: usize, zeros: &Zeros<'_>) -> Result<BlockState> {
        Ok(BlockState { h: zeros(&[batch, self.inner, STATES])?, before: zeros(&[batch, WIDTH - 1, self.inner])? })
    }

    fn logits(&self, embeddings: &Embedding, xs: &Tensor) -> Result<Tensor> {
        tied_logits(embeddings, &rms_norm(&self.norm_f, xs)?)
    }
}

/// The compiled programs of a block: the convolution and the selective scan. All blocks share these programs.
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

/// Builds the graph of a depthwise causal convolution of `xs [B,T,features]`, followed by `silu`. The parameters have
/// PyTorch's layouts: `weight [features,1,WIDTH]` and `bias [features]`. `before` contains the `WIDTH - 1` rows
/// before the first step. The graph also returns the rows to be passed as `before` to the next call.
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

/// Builds the graph of the selective scan: `h' = exp(Δ A) h + Δ b u` and `y = (c·h + D u) silu(z)`, with `A =
/// -exp(a_log)` and `Δ = log(1 + exp(delta))`. `h` is the state. The inputs `u`, `delta` and `z` have shape
/// `[B,T,features]`; `b` and `c` have shape `[B,T,states]`. The graph includes the elementwise ops around the
/// recurrence, because the engine's kernels for them are faster than Candle's.
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
        let (conv_weight, conv_bias) = convolution_parameters(inner, WIDTH, &mixer.pp("conv1d"))?;
        let of_core = |name: &str| match core.iter().find(|parameter| parameter.name == name) {
            Some(parameter) => nn::parameter(parameter, &mixer),
            None => Err(candle_core::Error::Msg(format!("the selective scan has no `{name}`"))),
        };
        Ok(Block {
            norm: candle_nn::rms_norm(features, 1e-5, vb.pp("norm"))?,
            in_proj: candle_nn::linear_no_bias(features, 2 * inner, mixer.pp("in_proj"))?,
            conv_weight,
            conv_bias,
            x_proj: Linear::new(of_core("x_proj.weight")?, None),
            dt_proj: Linear::new(of_core("dt_proj.weight")?, Some(of_core("dt_proj.bias")?)),
            a_log: of_core("A_log")?,
            d: of_core("D")?,
            core: programs.clone(),
            out_proj: candle_nn::linear_no_bias(inner, features, mixer.pp("out_proj"))?,
        })
    }
}

impl model::Block for Block {
    type State = BlockState;

    #[track_caller]
    fn forward(&self, xs: &Tensor, BlockState { h, before }: &BlockState, _: usize) -> Result<(Tensor, BlockState)> {
        let projected = self.in_proj.forward(&rms_norm(&self.norm, xs)?)?.chunk(2, 2)?;
        let (weight, bias) = (self.conv_weight.clone(), self.conv_bias.clone());
        let [us, before] = run_scan(&self.core.convolution, &[projected[0].clone(), before.clone(), weight, bias])?;
        let read = self.x_proj.forward(&us)?;
        let rank = read.dim(2)? - 2 * STATES;
        let part = |start: usize, count: usize| read.narrow(2, start, count)?.contiguous();
        let delta = self.dt_proj.forward(&part(0, rank)?)?;
        let (b, c, z) = (part(rank, STATES)?, part(rank + STATES, STATES)?, projected[1].clone());
        let arguments = [us, delta, z, b, c, self.a_log.clone(), self.d.clone(), h.clone()];
        let [ys, h] = run_scan(&self.core.scan, &arguments)?;
        Ok(((xs + self.out_proj.forward(&ys)?)?, BlockState { h, before }))
    }
}
