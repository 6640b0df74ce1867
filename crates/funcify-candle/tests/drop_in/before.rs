//! Defines a sequence tagger that uses candle_nn's own loop.

use candle_core::{Module, Result, Tensor};
use candle_nn::rnn::{LSTM, RNN};
use candle_nn::{LSTMConfig, Linear, VarBuilder};

pub(super) struct Tagger {
    lstm: LSTM,
    head: Linear,
}

impl Tagger {
    pub(super) fn new(features: usize, hidden: usize, tags: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let lstm = candle_nn::lstm(features, hidden, LSTMConfig::default(), vb.pp("lstm"))?;
        Ok(Tagger { lstm, head: candle_nn::linear(hidden, tags, vb.pp("head"))? })
    }

    /// Maps `[batch, steps, features]` to `[batch, steps, tags]`.
    pub(super) fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let states = self.lstm.seq(xs)?;
        let hs = self.lstm.states_to_tensor(&states)?;
        self.head.forward(&hs)
    }
}
