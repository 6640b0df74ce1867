//! The model in Candle. Candle's autodiff sees the whole LSTM layer as a single op.
//!
//! `funcify_candle::nn::Lstm` has the parameters of `candle_nn::LSTM`, under the same names. On two cores, a training
//! step with this layer is more than twice as fast as one that calls `RnnExt::scan` on Candle's own layer, and uses
//! less memory. The reason is that `RnnExt::scan` runs Candle's ops a second time for the gradient.

use anyhow::Result;
use candle_core::{DType, Device, Module, Tensor};
use candle_nn::rnn::LSTMState;
use candle_nn::{Embedding, LSTM, LSTMConfig, Linear, RNN};
use funcify::dispatch::Function;
use funcify::{Graph, TensorType, Value};
use funcify_candle::Candle;
use funcify_candle::nn::{Lstm, RecurrentConfig};

use super::{Answer, Batch, Calculator, FEATURES, LETTERS, Sizes, Stream, answer_graph};
use crate::candle::{Adam, seeded};
use crate::training::{Loop, Training};

pub(super) struct Model {
    embedding: Embedding,
    lstm: Lstm,
    /// Candle's own layer, which shares the variables of `lstm`.
    own: LSTM,
    head: Linear,
    adam: Adam,
    stream: Stream,
    whose: Loop,
    device: Device,
}

impl Model {
    pub(super) fn new(sizes: Sizes, whose: Loop, device: &Device) -> Result<Self> {
        let (vars, vb) = seeded(1, DType::F32, device);
        let embedding = candle_nn::embedding(LETTERS.len(), FEATURES, vb.pp("embedding"))?;
        let lstm = Lstm::new(FEATURES, sizes.hidden, RecurrentConfig::default(), vb.pp("lstm"))?;
        let own = candle_nn::lstm(FEATURES, sizes.hidden, LSTMConfig::default(), vb.pp("lstm"))?;
        let head = candle_nn::linear(sizes.hidden, LETTERS.len(), vb.pp("head"))?;
        let adam = Adam::new(vars.all_vars())?;

        let stream = Stream::new(sizes);
        Ok(Model { embedding, lstm, own, head, adam, stream, whose, device: device.clone() })
    }

    /// Builds the graph of one step of the model. The step applies the graph of `lstm` to a single token.
    fn step(&self) -> funcify::Result<Graph> {
        let (lstm, hidden) = (self.lstm.graph(), self.stream.sizes.hidden);
        Graph::build("step", |g| {
            let input = |name: &str, sizes: &[usize]| g.input(name, TensorType::new(funcify::DType::F32, sizes));
            let embedding = input("embedding", &[LETTERS.len(), FEATURES]);
            let (head, bias) = (input("head", &[LETTERS.len(), hidden]), input("bias", &[LETTERS.len()]));
            let of_lstm = (3..lstm.inputs().len()).map(|index| g.input(lstm.input_name(index), lstm.input_type(index)));
            let of_lstm: Vec<Value> = of_lstm.collect();
            let token = g.input("token", "i64[1]");
            let [h, c] = ["h", "c"].map(|name| input(name, &[1, 1, hidden]));
            let xs = embedding.take(0, token).unsqueeze(0);
            let results = lstm.apply(&[&[xs, h, c], &of_lstm[..]].concat());
            (results[0].index(0, 0).matmul(head.transpose([1, 0])) + bias, results[1], results[2])
        })
    }
}

impl Training for Model {
    type Batch = Batch;

    fn batch(&mut self) -> Self::Batch {
        self.stream.batch()
    }

    fn differentiate(&mut self, batch: Self::Batch) -> Result<f64> {
        let Batch { tokens, before, answers } = batch;
        let sizes = (self.stream.sizes.batch, self.stream.sizes.letters);
        let xs = self.embedding.forward(&Tensor::from_vec(tokens, sizes, &self.device)?)?;
        let hs = match self.whose {
            Loop::Plugin => self.lstm.forward(&xs)?,
            Loop::Own => self.own.states_to_tensor(&self.own.seq(&xs)?)?,
        };
        let hs = hs.flatten(0, 1)?.index_select(&Tensor::new(before, &self.device)?, 0)?;
        let answers = Tensor::new(answers, &self.device)?;
        let loss = candle_nn::loss::cross_entropy(&self.head.forward(&hs)?, &answers)?;
        self.adam.differentiate(&loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl Calculator for Model {
    type State = LSTMState;

    fn answer_function(&self) -> Result<impl Fn(&[u32]) -> Result<Answer>> {
        let function = Function::compile(&answer_graph(&self.step()?)?, &Candle::new(self.device.clone()))?;
        let weights = [self.embedding.embeddings(), self.head.weight()].into_iter();
        let weights = weights.chain(self.head.bias()).chain(self.lstm.parameters());
        let weights: Vec<Tensor> = weights.map(Tensor::detach).collect();
        Ok(move |prompt: &[u32]| {
            let prompt = Tensor::new(prompt, &self.device)?.to_dtype(DType::I64)?;
            let results = function.call(&[&weights[..], &[prompt]].concat())?;
            Ok(Answer { tokens: results[0].to_vec1()?, count: results[1].to_scalar()? })
        })
    }

    fn read(&self, token: u32, state: Option<LSTMState>) -> Result<(u32, LSTMState)> {
        let state = state.map_or_else(|| self.own.zero_state(1), Ok)?;
        let letter = self.embedding.forward(&Tensor::new(&[token], &self.device)?)?;
        let state = self.own.step(&letter, &state)?;
        let logits = self.head.forward(state.h())?;
        Ok((logits.get(0)?.argmax(0)?.to_scalar()?, state))
    }
}
