//! The recurrent part of EnCodec (Défossez et al. 2022), with the parameters of
//! `candle_transformers::models::encodec::EncodecLSTM`.
//!
//! `candle-transformers` runs each layer with `candle_nn::LSTM`, one step at a time, and the backward pass recurses
//! through all steps. Here, all layers are compiled into one program.

use funcify_candle::nn::{Lstm, RecurrentConfig};

use super::*;

/// A stack of LSTMs with a residual connection, which adds the input to the output. The input is a sequence of codec
/// frames, `[batch, features, steps]`.
///
/// ```
/// use candle_core::{DType, Device, Module, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify_candle_models::encodec::EncodecLstm;
///
/// let lstm = EncodecLstm::new(8, 2, VarBuilder::from_varmap(&VarMap::new(), DType::F32, &Device::Cpu))?;
/// let frames = Tensor::randn(0f32, 1.0, (1, 8, 10), &Device::Cpu)?;
/// assert_eq!(lstm.forward(&frames)?.dims(), [1, 8, 10]);
/// let (_first, states) = lstm.forward_init(&frames, &lstm.zero_state(1)?)?;
/// let (_second, _states) = lstm.forward_init(&frames, &states)?; // the audio continues
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone)]
pub struct EncodecLstm(Lstm);

impl EncodecLstm {
    /// Creates a stack of `layers` layers with `features` features each. The parameters are called `lstm.weight_ih_l0`,
    /// `lstm.weight_hh_l0`, `lstm.bias_ih_l0` and `lstm.bias_hh_l0`, then `lstm.weight_ih_l1`, and so on.
    #[track_caller]
    pub fn new(features: usize, layers: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let config = RecurrentConfig { layers, ..RecurrentConfig::default() };
        Lstm::new(features, features, config, vb.pp("lstm")).map(EncodecLstm)
    }

    /// Returns the initial states: the hidden states and the cell states, each `[layers, batch, features]`.
    pub fn zero_state(&self, batch: usize) -> Result<Vec<Tensor>> {
        self.0.zero_state(batch)
    }

    /// Processes frames, starting from the given states. Returns the output and the states after the last frame. Use
    /// this for streaming audio.
    #[track_caller]
    pub fn forward_init(&self, xs: &Tensor, states: &[Tensor]) -> Result<(Tensor, Vec<Tensor>)> {
        let frames = xs.transpose(1, 2)?;
        let (ys, states) = self.0.seq_init(&frames, states)?;
        Ok(((ys + frames)?.transpose(1, 2)?, states))
    }
}

impl Module for EncodecLstm {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        Ok(self.forward_init(xs, &self.zero_state(xs.dim(0)?)?)?.0)
    }
}
