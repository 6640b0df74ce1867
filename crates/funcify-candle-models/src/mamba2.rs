//! Mamba-2 (Dao and Gu 2024), with the options and parameters of `candle_transformers::models::mamba2`.
//!
//! The model of `candle-transformers` (the library) processes a prompt token by token, or in chunks. In the latter
//! case, it materialises every intermediate tensor of a chunk. Here, the mixer of a block ([`funcify_nn::Mamba2`]) is
//! one compiled program, used both for a whole prompt and for a single token.

use funcify_nn::Mamba2 as Mixer;

use super::*;
use crate::model;

/// The width of the convolution kernel, in steps.
const WIDTH: usize = 4;

/// The hyperparameters of a Mamba-2 model.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::mamba2::{Config, Model};
///
/// let config = Config {
///     d_model: 8,
///     n_layer: 2,
///     vocab_size: 16,
///     d_state: 4,
///     expand: 2,
///     headdim: 8,
///     ngroups: 1,
///     pad_vocab_size_multiple: 8,
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
    /// The size of the residual stream between blocks.
    pub d_model: usize,
    /// The number of blocks.
    pub n_layer: usize,
    /// The vocabulary size.
    pub vocab_size: usize,
    /// The state size per feature.
    pub d_state: usize,
    /// The ratio of the number of features inside a block to `d_model`.
    pub expand: usize,
    /// The number of features per head.
    pub headdim: usize,
    /// The number of groups of heads that share B and C. Must be 1. (With more groups, the library's norm normalises
    /// all groups together, whereas the original implementation normalises each group separately.)
    pub ngroups: usize,
    /// The padding of the vocabulary: the number of embedding rows is `vocab_size`, rounded up to a multiple of this
    /// number.
    pub pad_vocab_size_multiple: usize,
}

impl Config {
    fn inner(&self) -> usize {
        self.expand * self.d_model
    }

    /// Returns the number of features that the convolution processes.
    fn convolution_features(&self) -> usize {
        self.inner() + 2 * self.ngroups * self.d_state
    }

    fn check(&self) -> Result<()> {
        if self.ngroups != 1 {
            return Err(mismatch("mamba2", "`ngroups`", "1", self.ngroups, "use `funcify_candle::nn` for more groups"));
        }
        if self.headdim == 0 || !self.inner().is_multiple_of(self.headdim) {
            let expected = format!("a divisor of the {} features inside", self.inner());
            return Err(mismatch("mamba2", "`headdim`", &expected, self.headdim, "choose sizes that divide evenly"));
        }
        Ok(())
    }
}

/// The state of a model after the steps processed so far.
pub type State = crate::State<BlockState>;

/// The state of a block: the states of its scan, and the last inputs of its convolution.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::mamba2::{Config, Model};
///
/// # let config = Config {
/// #     d_model: 8,
/// #     n_layer: 2,
/// #     vocab_size: 16,
/// #     d_state: 4,
/// #     expand: 2,
/// #     headdim: 8,
/// #     ngroups: 1,
/// #     pad_vocab_size_multiple: 8,
/// # };
/// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
/// let model = Model::new(&config, vb)?;
/// let state = model.zero_state(1)?;
/// assert_eq!(state.blocks[0].h.dims(), [1, 2, 8, 4]);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockState {
    /// The states of the scan, `[batch, heads, headdim, d_state]`.
    pub h: Tensor,
    /// The last three inputs of the convolution, `[batch, 3, expand * d_model + 2 d_state]`.
    pub before: Tensor,
}

impl State {
    /// Returns the `hs` field of the library's state: the states of the scan in each block.
    pub fn hs(&self) -> Vec<Tensor> {
        self.blocks.iter().map(|block| block.h.clone()).collect()
    }

    /// Returns the `conv_states` field of the library's state: the last four inputs of the convolution in each block.
    /// `State { hs: state.hs(), conv_states: state.conv_states()?, pos: state.pos }` is the library's complete state.
    pub fn conv_states(&self) -> Result<Vec<Tensor>> {
        // The library discards the oldest of the four rows without reading it, so its elements may be arbitrary.
        let of = |BlockState { before, .. }: &BlockState| {
            Tensor::cat(&[&before.narrow(1, 0, 1)?, before], 1)?.transpose(1, 2)?.contiguous()
        };
        self.blocks.iter().map(of).collect()
    }

    /// Creates a state from the fields of the library's state: `hs`, `conv_states` and `pos`.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{VarBuilder, VarMap};
    /// use funcify_candle_models::mamba2::{Config, Model, State};
    ///
    /// # let config = Config {
    /// #     d_model: 8,
    /// #     n_layer: 2,
    /// #     vocab_size: 16,
    /// #     d_state: 4,
    /// #     expand: 2,
    /// #     headdim: 8,
    /// #     ngroups: 1,
    /// #     pad_vocab_size_multiple: 8,
    /// # };
    /// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
    /// let model = Model::new(&config, vb)?;
    /// let mut state = model.zero_state(1)?;
    /// let prompt = Tensor::new(&[[3u32, 1, 4]], &Device::Cpu)?;
    /// model.forward(&prompt, &mut state)?;
    /// // The fields of the library's state, and back.
    /// let (hs, conv_states, pos) = (state.hs(), state.conv_states()?, state.pos);
    /// let mut state = State::from_library(&hs, &conv_states, pos)?;
    /// model.forward_last(&Tensor::new(&[[1u32]], &Device::Cpu)?, &mut state)?;
    /// assert_eq!(state.pos, 4);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    pub fn from_library(hs: &[Tensor], conv_states: &[Tensor], pos: usize) -> Result<Self> {
        let block = |(h, rows): (&Tensor, &Tensor)| {
            let before = rows.narrow(2, 1, WIDTH - 1)?.transpose(1, 2)?.contiguous()?;
            Ok(BlockState { h: h.clone(), before })
        };
        Ok(State { blocks: hs.iter().zip(conv_states).map(block).collect::<Result<_>>()?, pos })
    }
}

/// A Mamba-2 language model. Clones share their parameters.
pub type Model = crate::Model<Mamba2>;

/// The parts of a Mamba-2 model other than the embedding and the blocks.
#[doc(hidden)]
#[derive(Clone)]
pub struct Mamba2 {
    norm_f: RmsNorm,
    config: Config,
}

/// A block of Mamba-2: a norm and a mixer, with a residual connection.
#[doc(hidden)]
#[derive(Clone)]
pub struct Block {
    norm: RmsNorm,
    /// The program of the mixer, shared by all blocks.
    mixer: Arc<Differentiable>,
    /// The parameters of the mixer, in the order of its inputs.
    parameters: Vec<Tensor>,
}

impl Model {
    /// Creates the model with the parameters of a `VarBuilder` under the library's names: `embeddings.weight`,
    /// `layers.0.norm.weight`, `layers.0.mixer.A_log` and so on. If the `VarBuilder` wraps a `VarMap`, missing
    /// parameters are initialised for training.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{VarBuilder, VarMap};
    /// use funcify_candle_models::mamba2::{Config, Model};
    ///
    /// # let config = Config {
    /// #     d_model: 8,
    /// #     n_layer: 2,
    /// #     vocab_size: 16,
    /// #     d_state: 4,
    /// #     expand: 2,
    /// #     headdim: 8,
    /// #     ngroups: 1,
    /// #     pad_vocab_size_multiple: 8,
    /// # };
    /// let vb = VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu);
    /// let model = Model::new(&config, vb)?;
    /// assert_eq!(model.zero_state(1)?.blocks.len(), 2);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    #[track_caller]
    pub fn new(config: &Config, vb: VarBuilder<'_>) -> Result<Self> {
        let vocabulary = padded_vocabulary("mamba2", config.vocab_size, config.pad_vocab_size_multiple)?;
        config.check()?;
        let mixer = Mixer {
            heads: config.inner() / config.headdim,
            head: config.headdim,
            states: config.d_state,
            width: WIDTH,
            dtype: nn::dtype(&vb)?,
            ..Mixer::new(config.d_model)
        };
        let layer = mixer.layer().map_err(into_candle_error)?;
        let mixer = compile(Ok(layer.graph), &vb)?;
        let block = |_, vb: VarBuilder<'_>| {
            let (parameters, of_mixer) = (layer.parameters.iter(), vb.pp("mixer"));
            Ok(Block {
                norm: candle_nn::rms_norm(config.d_model, 1e-5, vb.pp("norm"))?,
                mixer: mixer.clone(),
                parameters: parameters.map(|parameter| nn::parameter(parameter, &of_mixer)).collect::<Result<_>>()?,
            })
        };
        let norm_f = candle_nn::rms_norm(config.d_model, 1e-5, vb.pp("norm_f"))?;
        let (own, sizes) = (Mamba2 { norm_f, config: config.clone() }, [vocabulary, config.d_model]);
        Model::from_parts(own, sizes, vb.pp("embeddings"), config.n_layer, &vb.pp("layers"), block)
    }
}

impl Architecture for Mamba2 {
    const NAME: &'static str = "mamba2";
    type Block = Block;

    fn zero_state(&self, _: &Block, batch: usize, zeros: &Zeros<'_>) -> Result<BlockState> {
        let config = &self.config;
        let h = zeros(&[batch, config.inner() / config.headdim, config.headdim, config.d_state])?;
        Ok(BlockState { h, before: zeros(&[batch, WIDTH - 1, config.convolution_features()])? })
    }

    fn logits(&self, embeddings: &Embedding, xs: &Tensor) -> Result<Tensor> {
        tied_logits(embeddings, &rms_norm(&self.norm_f, xs)?)
    }
}

impl model::Block for Block {
    type State = BlockState;

    #[track_caller]
    fn forward(&self, xs: &Tensor, BlockState { h, before }: &BlockState, _: usize) -> Result<(Tensor, BlockState)> {
        let given = [rms_norm(&self.norm, xs)?, h.clone(), before.clone()];
        let [ys, h, before] = run_scan(&self.mixer, &[given.as_slice(), &self.parameters].concat())?;
        Ok(((xs + ys)?, BlockState { h, before }))
    }
}
