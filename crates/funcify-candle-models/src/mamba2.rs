//! Mamba-2 (Dao and Gu 2024), with the options and parameters of `candle_transformers::models::mamba2`.
//!
//! The library reads a prompt by products of chunks, whose factors it lays out one by one in memory, or token by token. Here a block's
//! mixer ([`funcify_nn::Mamba2`]) is one compiled program, for a prompt and for a token.

use std::sync::Arc;

use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::{Embedding, Linear, RmsNorm, VarBuilder};
use funcify_candle::{Candle, Differentiable, nn};
use funcify_nn::Mamba2;

use crate::{as_candles, check_state, mismatch, reads_ids, rms_norm, scanned, sizes_of};

/// How many steps the convolution sees.
const WIDTH: usize = 4;

/// The sizes of a model.
#[derive(Clone, Debug)]
pub struct Config {
    /// The features between blocks.
    pub d_model: usize,
    /// The number of blocks.
    pub n_layer: usize,
    /// The number of tokens.
    pub vocab_size: usize,
    /// The states of a feature.
    pub d_state: usize,
    /// How many times as many features there are inside a block.
    pub expand: usize,
    /// The features of a head.
    pub headdim: usize,
    /// How many groups of heads have an input and an output map of their own: one. (The library's norm is over all of them, the
    /// authors' over each.)
    pub ngroups: usize,
    /// The embedding has rows for the next multiple of this.
    pub pad_vocab_size_multiple: usize,
}

impl Config {
    fn inner(&self) -> usize {
        self.expand * self.d_model
    }

    /// The features that the convolution sees.
    fn mixed(&self) -> usize {
        self.inner() + 2 * self.ngroups * self.d_state
    }

    fn check(&self) -> Result<()> {
        if self.pad_vocab_size_multiple == 0 {
            let fix = "set it to 1 to have no padding";
            return Err(mismatch("mamba2", "`pad_vocab_size_multiple`", "1 or more", 0, fix));
        }
        if self.ngroups != 1 {
            return Err(mismatch("mamba2", "`ngroups`", "1", self.ngroups, "use `funcify_candle::nn` for more groups"));
        }
        if self.headdim == 0 || !self.inner().is_multiple_of(self.headdim) {
            let expected = format!("a divisor of the {} features inside", self.inner());
            return Err(mismatch("mamba2", "`headdim`", &expected, self.headdim, "choose sizes that divide"));
        }
        Ok(())
    }
}

/// What a model remembers of the steps that it has read.
#[derive(Clone, Debug)]
pub struct State {
    /// The states of each block's scan, `[batch, heads, headdim, d_state]`; `hs` of the library.
    pub hs: Vec<Tensor>,
    /// The last three inputs of each block's convolution, `[batch, 3, expand * d_model + 2 d_state]`.
    pub before: Vec<Tensor>,
    /// The number of steps.
    pub pos: usize,
}

impl State {
    /// `conv_states` of the library's state: with it `State { hs: state.hs.clone(), conv_states: state.conv_states()?, pos: state.pos }` is
    /// the library's.
    pub fn conv_states(&self) -> Result<Vec<Tensor>> {
        // The oldest of the four is dropped before it is read.
        let of = |before: &Tensor| Tensor::cat(&[&before.narrow(1, 0, 1)?, before], 1)?.transpose(1, 2)?.contiguous();
        self.before.iter().map(of).collect()
    }

    /// The state that the library's has: its `hs`, `conv_states` and `pos`.
    pub fn from_library(hs: &[Tensor], conv_states: &[Tensor], pos: usize) -> Result<Self> {
        let of = |rows: &Tensor| rows.narrow(2, 1, WIDTH - 1)?.transpose(1, 2)?.contiguous();
        Ok(State { hs: hs.to_vec(), before: conv_states.iter().map(of).collect::<Result<_>>()?, pos })
    }
}

/// A Mamba-2 language model. Cloning shares its parameters.
#[derive(Clone)]
pub struct Model {
    embeddings: Embedding,
    blocks: Vec<Block>,
    /// A block's mixer, one program for all.
    mixer: Arc<Differentiable>,
    norm_f: RmsNorm,
    config: Config,
    dtype: DType,
    device: Device,
}

#[derive(Clone)]
struct Block {
    norm: RmsNorm,
    /// The parameters of the mixer, in the order of its inputs.
    parameters: Vec<Tensor>,
}

impl Model {
    /// The model with the parameters of a `VarBuilder` under the library's names: `embeddings.weight`, `layers.0.norm.weight`,
    /// `layers.0.mixer.A_log` ... Those that a `VarMap` does not have yet are made, ready to be trained.
    #[track_caller]
    pub fn new(config: &Config, vb: VarBuilder<'_>) -> Result<Self> {
        config.check()?;
        let mixer = Mamba2 {
            heads: config.inner() / config.headdim,
            head: config.headdim,
            states: config.d_state,
            width: WIDTH,
            dtype: nn::dtype(&vb)?,
            ..Mamba2::new(config.d_model)
        };
        let layer = mixer.layer().map_err(as_candles)?;
        let mixer = Differentiable::compile(&layer.graph, &Candle::new(vb.device().clone())).map_err(as_candles)?;
        let block = |index: usize| {
            let (vb, parameters) = (vb.pp("layers").pp(index), layer.parameters.iter());
            let of_mixer = vb.pp("mixer");
            Ok(Block {
                norm: candle_nn::rms_norm(config.d_model, 1e-5, vb.pp("norm"))?,
                parameters: parameters.map(|parameter| nn::parameter(parameter, &of_mixer)).collect::<Result<_>>()?,
            })
        };
        let vocabulary = config.vocab_size.next_multiple_of(config.pad_vocab_size_multiple);
        Ok(Model {
            embeddings: candle_nn::embedding(vocabulary, config.d_model, vb.pp("embeddings"))?,
            blocks: (0..config.n_layer).map(block).collect::<Result<_>>()?,
            mixer: Arc::new(mixer),
            norm_f: candle_nn::rms_norm(config.d_model, 1e-5, vb.pp("norm_f"))?,
            config: config.clone(),
            dtype: vb.dtype(),
            device: vb.device().clone(),
        })
    }

    /// The state before the first step of so many sequences.
    pub fn zero_state(&self, batch: usize) -> Result<State> {
        let (blocks, config) = (self.blocks.len(), &self.config);
        let zeros = |dims: &[usize]| Tensor::zeros(dims, self.dtype, &self.device);
        let h = zeros(&[batch, config.inner() / config.headdim, config.headdim, config.d_state])?;
        let before = zeros(&[batch, WIDTH - 1, config.mixed()])?;
        Ok(State { hs: vec![h; blocks], before: vec![before; blocks], pos: 0 })
    }

    reads_ids!();

    #[track_caller]
    fn features(&self, ids: &Tensor, state: &mut State) -> Result<Tensor> {
        let (_, steps) = sizes_of("mamba2", ids)?;
        check_state("mamba2", self.blocks.len(), state.hs.len().min(state.before.len()))?;
        let mut next = State { hs: Vec::new(), before: Vec::new(), pos: state.pos + steps };
        let mut xs = self.embeddings.forward(ids)?;
        for (block, (h, before)) in self.blocks.iter().zip(state.hs.iter().zip(&state.before)) {
            let given = [rms_norm(&block.norm, &xs)?, h.clone(), before.clone()];
            let [ys, h, before] = scanned(&self.mixer, &[given.as_slice(), &block.parameters].concat())?;
            xs = (xs + ys)?;
            next.hs.push(h);
            next.before.push(before);
        }
        *state = next;
        Ok(xs)
    }

    /// The rows of the embedding are the weights of the head.
    fn logits(&self, xs: &Tensor) -> Result<Tensor> {
        Linear::new(self.embeddings.embeddings().clone(), None).forward(&rms_norm(&self.norm_f, xs)?)
    }
}
