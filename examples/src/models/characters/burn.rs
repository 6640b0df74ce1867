//! In Burn: its own LSTM, whose loop over the steps is funcify's.
//!
//! `burn::nn::Lstm` stays as it is: a step of the loop is its `forward` on one letter.

use anyhow::Result;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, Lstm, LstmConfig, LstmState};
use burn::tensor::{Device, Int, Tensor, TensorData};
use funcify_burn::{Function, scan, trace};

use super::{Batch, Calculator, END, FEATURES, LETTERS, MOST, Sizes, Stream, answering};
use crate::burn::Adam;
use crate::training::{Loop, Training};

pub(super) struct Model {
    adam: Adam<Reader>,
    stream: Stream,
    whose: Loop,
    device: Device,
}

#[derive(Module, Debug)]
pub(super) struct Reader {
    embedding: Embedding,
    lstm: Lstm,
    head: Linear,
}

impl Reader {
    pub(super) fn new(sizes: Sizes, device: &Device) -> Self {
        let device = device.clone().autodiff();
        device.seed(1);
        let reader = Reader {
            embedding: EmbeddingConfig::new(LETTERS.len(), FEATURES).init(&device),
            lstm: LstmConfig::new(FEATURES, sizes.hidden, true).init(&device),
            head: LinearConfig::new(sizes.hidden, LETTERS.len()).init(&device),
        };
        reader.materialize()
    }

    /// The LSTM over `[batch, letters, features]`, by funcify's loop.
    fn scan(&self, xs: Tensor<3>) -> Result<Tensor<3>> {
        let start = LstmState::initial([xs.dims()[0], self.lstm.d_hidden], &xs.device());
        let (_, hs) = scan(&self.lstm, start, xs.swap_dims(0, 1), |lstm, state, x: Tensor<2>| {
            let (_, state) = lstm.forward(x.unsqueeze_dim(1), Some(state));
            (state.clone(), state.hidden)
        })?;
        Ok(hs.swap_dims(0, 1))
    }

    /// The logits after one letter, `[1]`.
    fn step(&self, token: Tensor<1, Int>, state: LstmState<2>) -> (Tensor<2>, LstmState<2>) {
        let (hs, state) = self.lstm.forward(self.embedding.forward(token.unsqueeze()), Some(state));
        (self.head.forward(hs.squeeze_dim(1)), state)
    }
}

impl Model {
    pub(super) fn new(reader: Reader, sizes: Sizes, whose: Loop, device: &Device) -> Result<Self> {
        Ok(Model { adam: Adam::new(reader), stream: Stream::new(sizes).0, whose, device: device.clone().autodiff() })
    }
}

impl Training for Model {
    fn step(&mut self, rate: f64) -> Result<f64> {
        let Batch { tokens, before, answers } = self.stream.batch();
        let Sizes { batch, letters, .. } = self.stream.sizes;
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [batch, letters]), &self.device);
        let [before, answers] = [before, answers].map(|list| Tensor::<1, Int>::from_data(&list[..], &self.device));
        let reader = &self.adam.module;
        let xs = reader.embedding.forward(tokens);
        let hs = match self.whose {
            Loop::Plugin => reader.scan(xs)?,
            Loop::Own => reader.lstm.forward(xs, None).0,
        };
        let logits = reader.head.forward(hs.flatten::<2>(0, 1).select(0, before));
        let loss = CrossEntropyLossConfig::new().init(&self.device).forward(logits, answers);
        self.adam.step(rate, loss)
    }
}

impl Calculator for Model {
    fn answering(&self) -> Result<impl Fn(&[u32]) -> Result<(Vec<i64>, i64)>> {
        let reader = self.adam.module.valid();
        let device = self.device.clone().inner();
        let start = (Tensor::<1, Int>::zeros([1], &device), LstmState::initial([1, reader.lstm.d_hidden], &device));
        let step = trace(&reader, start, |reader, (token, state)| reader.step(token, state))?;
        let (weights, function) = (step.weights(&reader)?, Function::new(&answering(step.graph())?));
        Ok(move |prompt: &[u32]| {
            let prompt = Tensor::<1, Int>::from_data(prompt, &device);
            let (tokens, count): (Tensor<1, Int>, Tensor<1, Int>) = function.call((weights.clone(), prompt))?;
            Ok((tokens.into_data().iter().collect(), count.into_scalar()))
        })
    }

    fn answer_by_hand(&self, prompt: &[u32]) -> Result<Vec<u32>> {
        let reader = self.adam.module.valid();
        let device = self.device.clone().inner();
        let (mut state, mut tokens) = (LstmState::initial([1, reader.lstm.d_hidden], &device), prompt.to_vec());
        let mut read = 0;
        loop {
            let (logits, next) = reader.step(Tensor::from_data(&tokens[read..=read], &device), state);
            state = next;
            read += 1;
            if read < tokens.len() {
                continue;
            }
            tokens.push(logits.argmax(1).into_scalar());
            let answer = &tokens[prompt.len()..];
            if answer.len() == MOST || answer.ends_with(&[END]) {
                return Ok(answer.to_vec());
            }
        }
    }
}
