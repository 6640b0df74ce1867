//! Defines the sequence tagger of `before.rs`, with candle_nn's own loop replaced by `RnnExt::scan`.

use candle_core::{Module, Result, Tensor};
use candle_nn::rnn::LSTM;
use candle_nn::{LSTMConfig, Linear, VarBuilder};
use funcify_candle::RnnExt;

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
        let (hs, _last) = self.lstm.scan(xs)?;
        self.head.forward(&hs)
    }
}
