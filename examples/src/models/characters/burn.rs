//! The model in Burn: an LSTM with two linear maps. In training, funcify runs the LSTM's loop over the letters. The
//! graph that computes answers uses the same LSTM step.
//!
//! The body of the loop could also use `burn::nn::Lstm`, which has two linear maps for each gate. A single matrix
//! product for all four gates is faster, both with funcify's loop and with the framework's own.

use anyhow::Result;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, LstmState};
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Int, Tensor, TensorData};
use funcify_burn::{Differentiable, scan, trace};

use super::{Answer, Batch, Calculator, FEATURES, LETTERS, Sizes, Stream, answer_graph};
use crate::burn::Adam;
use crate::training::{Loop, Training};

#[derive(Module, Debug)]
pub(super) struct Reader {
    embedding: Embedding,
    /// The linear map from the embedding of a letter to the four gates.
    input: Linear,
    /// The linear map from the hidden state to the four gates.
    hidden: Linear,
    head: Linear,
}

/// Computes the state after reading a letter. `x` is the letter's contribution to the gates.
fn cell(hidden: &Linear, state: LstmState<2>, x: Tensor<2>) -> LstmState<2> {
    let size = state.cell.dims()[1];
    let gates = x + hidden.forward(state.hidden);
    let gate = |index: usize| gates.clone().narrow(1, index * size, size);
    let cell = sigmoid(gate(1)) * state.cell + sigmoid(gate(0)) * gate(2).tanh();
    LstmState::new(cell.clone(), sigmoid(gate(3)) * cell.tanh())
}

impl Reader {
    pub(super) fn new(sizes: Sizes, device: &Device) -> Self {
        let device = device.clone().autodiff();
        device.seed(1);
        let reader = Reader {
            embedding: EmbeddingConfig::new(LETTERS.len(), FEATURES).init(&device),
            input: LinearConfig::new(FEATURES, 4 * sizes.hidden).init(&device),
            hidden: LinearConfig::new(sizes.hidden, 4 * sizes.hidden).init(&device),
            head: LinearConfig::new(sizes.hidden, LETTERS.len()).init(&device),
        };
        reader.materialize()
    }

    fn start(&self, batch: usize, device: &Device) -> LstmState<2> {
        LstmState::initial([batch, self.hidden.weight.dims()[0]], device)
    }

    /// Returns the hidden state after each letter, `[batch, letters, hidden]`. `tokens` has the shape `[batch,
    /// letters]`.
    fn states(&self, tokens: Tensor<2, Int>, whose: Loop) -> Result<Tensor<3>> {
        let mut state = self.start(tokens.dims()[0], &tokens.device());
        let xs = self.input.forward(self.embedding.forward(tokens));
        match whose {
            Loop::Plugin => {
                let (_, hs) = scan(&self.hidden, state, xs.swap_dims(0, 1), |hidden, state, x| {
                    let state = cell(&hidden, state, x);
                    (state.clone(), state.hidden)
                })?;
                Ok(hs.swap_dims(0, 1))
            }
            Loop::Own => {
                let mut hs = Vec::new();
                for x in xs.iter_dim(1) {
                    state = cell(&self.hidden, state, x.squeeze_dim(1));
                    hs.push(state.hidden.clone());
                }
                Ok(Tensor::stack(hs, 1))
            }
        }
    }

    /// Runs one step of the model on a token, `[1]`. Returns the logits of the next letter, and the new state.
    fn step(&self, token: Tensor<1, Int>, state: LstmState<2>) -> (Tensor<2>, LstmState<2>) {
        let x = self.input.forward(self.embedding.forward(token.unsqueeze()));
        let state = cell(&self.hidden, state, x.squeeze_dim(1));
        (self.head.forward(state.hidden.clone()), state)
    }
}

pub(super) struct Model {
    adam: Adam<Reader>,
    stream: Stream,
    whose: Loop,
    device: Device,
}

impl Model {
    pub(super) fn new(reader: Reader, sizes: Sizes, whose: Loop, device: &Device) -> Self {
        Model { adam: Adam::new(reader), stream: Stream::new(sizes), whose, device: device.clone() }
    }
}

impl Training for Model {
    type Batch = Batch;

    fn batch(&mut self) -> Self::Batch {
        self.stream.batch()
    }

    fn differentiate(&mut self, batch: Self::Batch) -> Result<f64> {
        let Batch { tokens, before, answers } = batch;
        let Sizes { batch, letters, .. } = self.stream.sizes;
        let device = self.device.clone().autodiff();
        let tokens = Tensor::from_data(TensorData::new(tokens, [batch, letters]), &device);
        let [before, answers] = [before, answers].map(|list| Tensor::<1, Int>::from_data(&list[..], &device));
        let reader = &self.adam.module;
        let states = reader.states(tokens, self.whose)?.flatten::<2>(0, 1);
        let logits = reader.head.forward(states.select(0, before));
        let loss = CrossEntropyLossConfig::new().init(&device).forward(logits, answers);
        self.adam.differentiate(loss)
    }

    fn update(&mut self, rate: f64) -> Result<()> {
        self.adam.update(rate)
    }
}

impl Calculator for Model {
    type State = LstmState<2>;

    fn answer_function(&self) -> Result<impl Fn(&[u32]) -> Result<Answer>> {
        let reader = self.adam.module.valid();
        let arguments = (Tensor::<1, Int>::zeros([1], &self.device), reader.start(1, &self.device));
        let step = trace(&reader, arguments, |reader, (token, state)| reader.step(token, state))?;
        let (weights, function) = (step.weights(&reader)?, Differentiable::new(&answer_graph(step.graph())?));
        Ok(move |prompt: &[u32]| {
            let prompt = Tensor::<1, Int>::from_data(prompt, &self.device);
            let (tokens, count): (Tensor<1, Int>, Tensor<1, Int>) = function.call((weights.clone(), prompt))?;
            Ok(Answer { tokens: tokens.into_data().iter().collect(), count: count.into_scalar() })
        })
    }

    fn read(&self, token: u32, state: Option<LstmState<2>>) -> Result<(u32, LstmState<2>)> {
        let reader = self.adam.module.valid();
        let state = state.unwrap_or_else(|| reader.start(1, &self.device));
        let (logits, state) = reader.step(Tensor::from_data([token], &self.device), state);
        Ok((logits.argmax(1).into_scalar(), state))
    }
}
