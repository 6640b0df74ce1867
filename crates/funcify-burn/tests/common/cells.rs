//! Defines recurrent cells and state space models as Burn modules, as a user would write them for a handwritten loop.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig, LstmState};
use burn::tensor::activation::softplus;
use burn::tensor::{Device, Tensor, TensorData};

use super::values;

/// Returns a parameter whose elements are between `-scale` and `scale`.
fn param<const D: usize>(shape: [usize; D], seed: u32, scale: f32, device: &Device) -> Param<Tensor<D>> {
    let numbers = values(shape.iter().product(), seed).iter().map(|number| number * scale).collect();
    Param::from_tensor(Tensor::from_data(TensorData::new::<f32, _>(numbers, shape), device))
}

fn linear(inputs: usize, outputs: usize, device: &Device) -> Linear {
    LinearConfig::new(inputs, outputs).init(device)
}

/// Computes a sigmoid in the input's dtype. Burn's own sigmoid always computes in f32 on its ndarray device.
fn sigmoid(x: Tensor<2>) -> Tensor<2> {
    ((-x).exp() + 1.0).recip()
}

/// A cell that computes h' = tanh(W x + U h + b).
#[derive(Module, Debug)]
pub(crate) struct Rnn {
    input: Linear,
    hidden: Linear,
}

impl Rnn {
    pub(crate) fn new(inputs: usize, width: usize, device: &Device) -> Self {
        Rnn { input: linear(inputs, width, device), hidden: linear(width, width, device) }
    }

    pub(crate) fn step(&self, h: Tensor<2>, x: Tensor<2>) -> Tensor<2> {
        (self.input.forward(x) + self.hidden.forward(h)).tanh()
    }
}

/// A gated recurrent unit (Cho et al. 2014).
#[derive(Module, Debug)]
pub(crate) struct Gru {
    gates: Linear,
    update: Linear,
}

impl Gru {
    pub(crate) fn new(inputs: usize, width: usize, device: &Device) -> Self {
        let gates = linear(inputs + width, 2 * width, device);
        Gru { gates, update: linear(inputs + width, width, device) }
    }

    pub(crate) fn step(&self, h: Tensor<2>, x: Tensor<2>) -> Tensor<2> {
        let gates = sigmoid(self.gates.forward(Tensor::cat(vec![x.clone(), h.clone()], 1)));
        let [z, r]: [Tensor<2>; 2] = gates.chunk(2, 1).try_into().unwrap();
        let new = self.update.forward(Tensor::cat(vec![x, r * h.clone()], 1)).tanh();
        z.clone() * h + (-z + 1.0) * new
    }
}

/// A long short-term memory (Hochreiter and Schmidhuber 1997).
#[derive(Module, Debug)]
pub(crate) struct Lstm {
    gates: Linear,
}

impl Lstm {
    pub(crate) fn new(inputs: usize, width: usize, device: &Device) -> Self {
        Lstm { gates: linear(inputs + width, 4 * width, device) }
    }

    pub(crate) fn step(&self, state: LstmState<2>, x: Tensor<2>) -> LstmState<2> {
        let gates = self.gates.forward(Tensor::cat(vec![x, state.hidden], 1));
        let [i, f, g, o]: [Tensor<2>; 4] = gates.chunk(4, 1).try_into().unwrap();
        let cell = sigmoid(f) * state.cell + sigmoid(i) * g.tanh();
        LstmState::new(cell.clone(), sigmoid(o) * cell.tanh())
    }
}

/// A diagonal state space layer (S5, Smith et al. 2023). Its complex states are pairs of real tensors.
#[derive(Module, Debug)]
pub(crate) struct S5 {
    lambda: [Param<Tensor<1>>; 2],
    b: [Param<Tensor<2>>; 2],
    c: [Param<Tensor<2>>; 2],
    d: Param<Tensor<1>>,
    log_step: Param<Tensor<1>>,
}

impl S5 {
    pub(crate) fn new(inputs: usize, width: usize, device: &Device) -> Self {
        let lambda = [param([width], 1, 0.5, device), param([width], 2, 2.0, device)];
        let b = [param([inputs, width], 3, 1.0, device), param([inputs, width], 4, 1.0, device)];
        let c = [param([width, inputs], 5, 0.5, device), param([width, inputs], 6, 0.5, device)];
        S5 { lambda, b, c, d: param([inputs], 7, 1.0, device), log_step: param([width], 8, 1.0, device) }
    }

    pub(crate) fn step(&self, [re, im]: [Tensor<2>; 2], x: Tensor<2>) -> ([Tensor<2>; 2], Tensor<2>) {
        let step = (self.log_step.val() - 2.0).exp();
        // The real parts of the eigenvalues are negative, so the states decay.
        let decay = (-self.lambda[0].val().exp() * step.clone()).exp();
        let angle = self.lambda[1].val() * step.clone();
        let (a, b) = ((decay.clone() * angle.clone().cos()).unsqueeze(), (decay * angle.sin()).unsqueeze());
        let scaled = |part: &Param<Tensor<2>>| x.clone().matmul(part.val()) * step.clone().unsqueeze();
        let next_re = re.clone() * a.clone() - im.clone() * b.clone() + scaled(&self.b[0]);
        let next_im = re * b + im * a + scaled(&self.b[1]);
        let y = next_re.clone().matmul(self.c[0].val()) - next_im.clone().matmul(self.c[1].val());
        ([next_re, next_im], y + x * self.d.val().unsqueeze())
    }
}

/// A selective state space layer (the core of Mamba, Gu and Dao 2023).
#[derive(Module, Debug)]
pub(crate) struct Selective {
    step: Linear,
    b: Linear,
    c: Linear,
    log_a: Param<Tensor<2>>,
    d: Param<Tensor<1>>,
}

impl Selective {
    pub(crate) fn new(inputs: usize, states: usize, device: &Device) -> Self {
        Selective {
            step: linear(inputs, inputs, device),
            b: linear(inputs, states, device),
            c: linear(inputs, states, device),
            log_a: param([inputs, states], 9, 1.0, device),
            d: param([inputs], 10, 1.0, device),
        }
    }

    pub(crate) fn step(&self, h: Tensor<3>, x: Tensor<2>) -> (Tensor<3>, Tensor<2>) {
        let step = softplus(self.step.forward(x.clone()), 1.0);
        let decay = (-self.log_a.val().exp().unsqueeze::<3>() * step.clone().unsqueeze_dim(2)).exp();
        let input = (step * x.clone()).unsqueeze_dim::<3>(2) * self.b.forward(x.clone()).unsqueeze_dim::<3>(1);
        let h = decay * h + input;
        let y: Tensor<2> = (h.clone() * self.c.forward(x.clone()).unsqueeze_dim::<3>(1)).sum_dim(2).squeeze_dim(2);
        (h, y + x * self.d.val().unsqueeze())
    }
}
