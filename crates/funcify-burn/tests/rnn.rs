//! Tests `RnnExt::scan`, which runs Burn's recurrent modules over whole sequences. Outputs, states and gradients must
//! equal those of the modules' own `forward`, for every option.

mod common;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::activation::{
    ActivationConfig, CeluConfig, EluConfig, HardShrinkConfig, HardSigmoidConfig, LeakyReluConfig, PReluConfig,
    ShrinkConfig, SoftShrinkConfig, SoftplusConfig, SwiGluConfig, ThresholdedReluConfig,
};
use burn::nn::{
    BiGru, BiGruConfig, BiLstm, BiLstmConfig, BiRnn, BiRnnConfig, Gru, GruConfig, Lstm, LstmConfig, LstmState, Rnn,
    RnnConfig, RnnState,
};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use common::{assert_close, autodiff_devices, values};
use funcify_burn::RnnExt;
use funcify_conformance::note_difference;

const BATCH: usize = 2;
const STEPS: usize = 5;
const INPUT: usize = 3;
const HIDDEN: usize = 4;
const ROWS: usize = 4;

/// A recurrent module of Burn, whose `scan` is compared with its own `forward`.
trait Case: Module + RnnExt {
    /// Builds a state from the rows of a tensor `[ROWS, batch, hidden]`.
    fn state(rows: Tensor<3>) -> Self::State;
    /// Runs the module's own `forward` over the whole sequence.
    fn whole(&self, xs: Tensor<3>, state: Option<Self::State>) -> Self::Output;
    /// Returns all elements of an output as a vector.
    fn flat(output: Self::Output) -> Tensor<1>;
}

fn flat<const D: usize>(tensors: Vec<Tensor<D>>) -> Tensor<1> {
    Tensor::cat(tensors.into_iter().map(|tensor| tensor.reshape([-1])).collect(), 0)
}

macro_rules! case {
    ($module:ty, |$rows:ident| $state:expr, |$output:pat_param| $flat:expr) => {
        impl Case for $module {
            fn state($rows: Tensor<3>) -> Self::State {
                $state
            }

            fn whole(&self, xs: Tensor<3>, state: Option<Self::State>) -> Self::Output {
                self.forward(xs, state)
            }

            fn flat($output: Self::Output) -> Tensor<1> {
                $flat
            }
        }
    };
}

fn row(rows: &Tensor<3>, index: usize) -> Tensor<2> {
    rows.clone().narrow(0, index, 1).squeeze_dim(0)
}

fn pair(rows: &Tensor<3>, index: usize) -> Tensor<3> {
    rows.clone().narrow(0, index, 2)
}

case!(Lstm, |rows| LstmState::new(row(&rows, 0), row(&rows, 1)), |(ys, last)| {
    flat(vec![ys, flat(vec![last.cell, last.hidden]).reshape([1, 1, -1])])
});
case!(Gru, |rows| row(&rows, 0), |ys| flat(vec![ys]));
case!(Rnn, |rows| RnnState::new(row(&rows, 0)), |(ys, last)| flat(vec![ys, last.hidden.reshape([1, 1, -1])]));
case!(BiLstm, |rows| LstmState::new(pair(&rows, 0), pair(&rows, 2)), |(ys, last)| {
    flat(vec![ys, last.cell, last.hidden])
});
case!(BiGru, |rows| pair(&rows, 0), |(ys, last)| flat(vec![ys, last]));
case!(BiRnn, |rows| RnnState::new(pair(&rows, 0)), |(ys, last)| flat(vec![ys, last.hidden]));

/// Collects the gradients of a module's parameters.
struct Collect<'a>(&'a Gradients, Vec<TensorData>);

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.1.push(param.val().grad(self.0).expect("every parameter has a gradient").into_data());
    }
}

fn numbers<const D: usize>(shape: [usize; D], seed: u32, device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new::<f32, _>(values(shape.iter().product(), seed), shape), device)
}

/// Fills parameters with pseudorandom numbers that depend only on a seed.
struct Fill(u32);

impl ModuleMapper for Fill {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.0 += 1;
        param.map(|tensor| (numbers(tensor.dims(), self.0, &tensor.device()) * 0.5).detach().require_grad())
    }
}

/// Returns the output of a module, and the gradients of its parameters, the sequence and the state.
fn outcome<M: Case>(
    module: &M,
    xs: [usize; 3],
    has_state: bool,
    run: impl Fn(&M, Tensor<3>, Option<M::State>) -> M::Output,
) -> Vec<TensorData> {
    let device = module.devices().remove(0);
    let xs = numbers(xs, 1, &device).require_grad();
    let rows = numbers([ROWS, BATCH, HIDDEN], 2, &device).require_grad();
    let ys = M::flat(run(module, xs.clone(), has_state.then(|| M::state(rows.clone()))));
    let weights = numbers(ys.dims(), 3, &device);
    let gradients = (ys.clone() * weights).sum().backward();
    let mut collect = Collect(&gradients, vec![ys.into_data(), xs.grad(&gradients).unwrap().into_data()]);
    if has_state {
        collect.1.push(rows.grad(&gradients).unwrap().into_data());
    }
    module.visit(&mut collect);
    collect.1
}

/// Returns the largest difference between two tensors, relative to the largest absolute value in `expected`.
fn distance(found: &TensorData, expected: &TensorData) -> f64 {
    let largest = expected.iter::<f64>().map(f64::abs).fold(f64::MIN_POSITIVE, f64::max);
    found.iter::<f64>().zip(expected.iter::<f64>()).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max) / largest
}

/// Asserts that `scan` and `forward` compute the same outputs, states and gradients.
#[track_caller]
fn check<M: Case>(module: M, batch_first: bool, what: &str) {
    let module = module.map(&mut Fill(10));
    let xs = if batch_first { [BATCH, STEPS, INPUT] } else { [STEPS, BATCH, INPUT] };
    for has_state in [false, true] {
        let expected = outcome(&module, xs, has_state, M::whole);
        let found = outcome(&module, xs, has_state, |module, xs, state| module.scan(xs, state).unwrap());
        assert_eq!(found.len(), expected.len());
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_close(found, expected, 1e-5, &format!("{what}, state {has_state}, part {index}"));
            let module = std::any::type_name::<M>().rsplit("::").next().unwrap();
            note_difference(module, if index == 0 { "outputs" } else { "gradients" }, distance(found, expected));
        }
    }
}

#[test]
fn modules_are_themselves_on_every_device() {
    for device in autodiff_devices() {
        let what = format!("{device:?}");
        check(LstmConfig::new(INPUT, HIDDEN, true).init(&device), true, &what);
        check(GruConfig::new(INPUT, HIDDEN, true).init(&device), true, &what);
        check(RnnConfig::new(INPUT, HIDDEN, true).init(&device), true, &what);
        check(BiLstmConfig::new(INPUT, HIDDEN, true).init(&device), true, &what);
        check(BiGruConfig::new(INPUT, HIDDEN, true).init(&device), true, &what);
        check(BiRnnConfig::new(INPUT, HIDDEN, true).init(&device), true, &what);
    }
}

#[test]
fn every_option_is_taken() {
    let device = Device::flex().autodiff();
    let flags = [false, true];
    for (bias, batch_first, reverse) in
        flags.iter().flat_map(|a| flags.iter().flat_map(move |b| flags.map(|c| (*a, *b, c))))
    {
        // Some states exceed 0.3, so a module with this bound clips them.
        for (clip, option) in [(None, false), (Some(0.3), true)] {
            let what = format!("bias {bias}, batch first {batch_first}, reverse {reverse}, clip {clip:?}, {option}");
            let lstm = LstmConfig::new(INPUT, HIDDEN, bias).with_batch_first(batch_first).with_reverse(reverse);
            let lstm = lstm.with_clip(clip).with_input_forget(option);
            check(lstm.init(&device), batch_first, &what);
            let rnn = RnnConfig::new(INPUT, HIDDEN, bias).with_batch_first(batch_first).with_reverse(reverse);
            check(rnn.with_clip(clip).init(&device), batch_first, &what);
            let gru = GruConfig::new(INPUT, HIDDEN, bias).with_clip(clip).with_reset_after(option);
            check(gru.init(&device), true, &what);
            if reverse {
                continue;
            }
            let both = BiLstmConfig::new(INPUT, HIDDEN, bias).with_batch_first(batch_first).with_clip(clip);
            check(both.with_input_forget(option).init(&device), batch_first, &what);
            let both = BiGruConfig::new(INPUT, HIDDEN, bias).with_batch_first(batch_first).with_clip(clip);
            check(both.with_reset_after(option).init(&device), batch_first, &what);
            let both = BiRnnConfig::new(INPUT, HIDDEN, bias).with_batch_first(batch_first).with_clip(clip);
            check(both.init(&device), batch_first, &what);
        }
    }
}

#[test]
fn every_activation_is_taken() {
    let device = Device::flex().autodiff();
    let activations = [
        ActivationConfig::Identity,
        ActivationConfig::Relu,
        ActivationConfig::LeakyRelu(LeakyReluConfig::new()),
        ActivationConfig::Gelu,
        ActivationConfig::GeluApproximate,
        ActivationConfig::PRelu(PReluConfig::new()),
        ActivationConfig::PRelu(PReluConfig::new().with_num_parameters(HIDDEN)),
        ActivationConfig::SwiGlu(SwiGluConfig::new(HIDDEN, HIDDEN)),
        ActivationConfig::Selu,
        ActivationConfig::Sigmoid,
        ActivationConfig::Tanh,
        ActivationConfig::HardSigmoid(HardSigmoidConfig::new()),
        ActivationConfig::HardSwish,
        ActivationConfig::Softplus(SoftplusConfig::new()),
        ActivationConfig::Softsign,
        ActivationConfig::Elu(EluConfig::new()),
        ActivationConfig::Celu(CeluConfig::new().with_alpha(0.5)),
        ActivationConfig::ThresholdedRelu(ThresholdedReluConfig::new().with_alpha(0.1)),
        ActivationConfig::HardShrink(HardShrinkConfig::new().with_lambda(0.1)),
        ActivationConfig::SoftShrink(SoftShrinkConfig::new().with_lambda(0.1)),
        ActivationConfig::Shrink(ShrinkConfig::new().with_lambda(0.1)),
    ];
    for activation in activations {
        let what = format!("{activation:?}");
        let gru = GruConfig::new(INPUT, HIDDEN, true).with_gate_activation(activation.clone());
        check(gru.with_hidden_activation(activation.clone()).init(&device), true, &what);
        let lstm = LstmConfig::new(INPUT, HIDDEN, true).with_gate_activation(activation.clone());
        let lstm = lstm.with_cell_activation(activation.clone()).with_hidden_activation(activation);
        check(lstm.init(&device), true, &what);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::flex();
    let lstm = LstmConfig::new(INPUT, HIDDEN, true).init(&device);
    let xs = numbers([BATCH, STEPS, INPUT], 1, &device);
    let refused = |error: funcify::Error, words: &[&str]| {
        let text = error.to_string();
        assert!(error.kind() == "Type" && words.iter().all(|word| text.contains(word)), "{text}");
        assert!(text.contains("tests/rnn.rs"), "{text}");
    };
    let wide = numbers([BATCH, STEPS, INPUT + 1], 1, &device);
    refused(lstm.scan(wide, None).unwrap_err(), &["the sequence", "[5, 2, 3]", "[5, 2, 4]"]);
    let state = LstmState::new(numbers([BATCH, 7], 1, &device), numbers([BATCH, 7], 1, &device));
    refused(lstm.scan(xs.clone(), Some(state)).unwrap_err(), &["the state", "[2, 4]", "[2, 7]"]);
    let (two, one) = (numbers([2, BATCH, HIDDEN], 1, &device), numbers([1, BATCH, HIDDEN], 1, &device));
    let both = BiGruConfig::new(INPUT, HIDDEN, true).init(&device);
    refused(both.scan(xs.clone(), Some(one.clone())).unwrap_err(), &["the state", "[2, 2, 4]", "[1, 2, 4]"]);
    let both = BiLstmConfig::new(INPUT, HIDDEN, true).init(&device);
    let state = LstmState { cell: two, hidden: one };
    refused(both.scan(xs, Some(state)).unwrap_err(), &["the state", "[2, 2, 4]", "[1, 2, 4]"]);
}
