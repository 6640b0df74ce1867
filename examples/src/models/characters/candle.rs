//! In Candle: the layer is one op of Candle's autodiff.
//!
//! `funcify_candle::nn::Lstm` has the parameters of `candle_nn::LSTM` under the same names. On 2 cores its training step is more
//! than twice as fast as that of `RnnExt::scan` around Candle's layer, which runs Candle's ops again for the gradient, in less
//! memory.

use anyhow::Result;
use candle_core::{DType, Device, Module, Tensor};
use candle_nn::rnn::LSTMState;
use candle_nn::{Embedding, LSTM, LSTMConfig, Linear, RNN};
use funcify::dispatch::Function;
use funcify::nn::{Cell, Recurrent};
use funcify::{Graph, TensorType, Value};
use funcify_candle::Candle;
use funcify_candle::nn::{Lstm, RecurrentConfig};

use super::{Batch, Calculator, FEATURES, LETTERS, Sizes, Stream, answering};
use crate::candle::{Adam, seeded};
use crate::training::{Loop, Training};

pub(super) struct Model {
    embedding: Embedding,
    lstm: Lstm,
    /// With the variables of `lstm`.
    own: LSTM,
    head: Linear,
    adam: Adam,
    stream: Stream,
    whose: Loop,
    /// The parameters of `lstm`, in the order of its graph.
    of_lstm: Vec<Tensor>,
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

        let layer = Recurrent::new(Cell::Lstm, FEATURES, sizes.hidden).layer()?;
        let of_lstm = layer.parameters.iter().map(|it| vb.pp("lstm").get(it.shape.as_slice(), &it.name));
        let of_lstm = of_lstm.collect::<candle_core::Result<Vec<Tensor>>>()?;
        let stream = Stream::new(sizes);
        Ok(Model { embedding, lstm, own, head, adam, stream, whose, of_lstm, device: device.clone() })
    }
}

/// A step of the model as a graph, of the layer's graph.
fn step(hidden: usize) -> funcify::Result<Graph> {
    let lstm = Recurrent::new(Cell::Lstm, FEATURES, hidden).layer()?;
    Graph::build("step", |g| {
        let input = |name: &str, sizes: &[usize]| g.input(name, TensorType::new(funcify::DType::F32, sizes));
        let embedding = input("embedding", &[LETTERS.len(), FEATURES]);
        let (head, bias) = (input("head", &[LETTERS.len(), hidden]), input("bias", &[LETTERS.len()]));
        let of_lstm: Vec<Value> = lstm.parameters.iter().map(|it| input(&it.input(), &it.shape)).collect();
        let token = g.input("token", "i64[1]");
        let [h, c] = ["h", "c"].map(|name| input(name, &[1, 1, hidden]));
        let xs = embedding.take(0, token).unsqueeze(0);
        let results = lstm.graph.apply(&[&[xs, h, c], &of_lstm[..]].concat());
        (results[0].index(0, 0).matmul(head.transpose(&[1, 0])) + bias, results[1], results[2])
    })
}

impl Training for Model {
    fn step(&mut self, rate: f64) -> Result<f64> {
        let Batch { tokens, before, answers } = self.stream.batch();
        let sizes = (self.stream.sizes.batch, self.stream.sizes.letters);
        let xs = self.embedding.forward(&Tensor::from_vec(tokens, sizes, &self.device)?)?;
        let hs = match self.whose {
            Loop::Plugin => self.lstm.forward(&xs)?,
            Loop::Own => self.own.states_to_tensor(&self.own.seq(&xs)?)?,
        };
        let hs = hs.flatten(0, 1)?.index_select(&Tensor::new(before, &self.device)?, 0)?;
        let answers = Tensor::new(answers, &self.device)?;
        let loss = candle_nn::loss::cross_entropy(&self.head.forward(&hs)?, &answers)?;
        self.adam.step(rate, &loss)
    }
}

impl Calculator for Model {
    type State = LSTMState;

    fn answering(&self) -> Result<impl Fn(&[u32]) -> Result<(Vec<i64>, i64)>> {
        let step = step(self.stream.sizes.hidden)?;
        let function = Function::compile(&answering(&step)?, &Candle::new(self.device.clone()))?;
        let of_head = [self.head.weight()].into_iter().chain(self.head.bias());
        let weights = [self.embedding.embeddings()].into_iter().chain(of_head).chain(&self.of_lstm);
        let weights: Vec<Tensor> = weights.map(Tensor::detach).collect();
        Ok(move |prompt: &[u32]| {
            let prompt = Tensor::new(prompt, &self.device)?.to_dtype(DType::I64)?;
            let results = function.call(&[&weights[..], &[prompt]].concat())?;
            Ok((results[0].to_vec1()?, results[1].to_scalar()?))
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
