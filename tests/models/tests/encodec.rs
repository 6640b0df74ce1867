//! Tests EnCodec's LSTMs against those of candle-transformers (the library). Ours are compiled as one program; the
//! library runs its LSTMs step by step.

use candle_core::{DType, Module, Result, Tensor};
use candle_transformers::models::encodec;
use funcify_candle_models::encodec::EncodecLstm;
use funcify_model_tests::{Weights, assert_close, assert_gradient, tensor};

const FEATURES: usize = 6;

fn library(vb: candle_nn::VarBuilder<'_>) -> Result<encodec::EncodecLSTM> {
    encodec::EncodecLSTM::new(FEATURES, &encodec::Config { num_lstm_layers: 2, ..encodec::Config::default() }, vb)
}

fn weights() -> Weights {
    Weights::of(DType::F32, |vb| EncodecLstm::new(FEATURES, 2, vb))
}

#[test]
fn weights_are_the_librarys() {
    weights().assert_same(library);
}

#[test]
fn frames_and_gradients_are_the_librarys() {
    let weights = weights();
    let (theirs, ours) =
        (library(weights.builder()).unwrap(), EncodecLstm::new(FEATURES, 2, weights.builder()).unwrap());
    let xs = candle_core::Var::from_tensor(&tensor(3, &[2, FEATURES, 9], DType::F32)).unwrap();
    let (expected, found) = (theirs.forward(&xs).unwrap(), ours.forward(&xs).unwrap());
    assert_close(&found, &expected, "frames");

    let gradients = |ys: &Tensor| (ys * tensor(4, ys.dims(), DType::F32))?.sum_all()?.backward();
    let (expected, found) = (gradients(&expected).unwrap(), gradients(&found).unwrap());
    let every = weights.vars().into_iter().chain([("xs".to_string(), xs)]);
    for (name, var) in every {
        assert_gradient(found.get(&var).unwrap(), expected.get(&var).unwrap(), &name);
    }
}

#[test]
fn parts_are_the_whole() {
    let lstm = EncodecLstm::new(FEATURES, 2, weights().file()).unwrap();
    let xs = tensor(3, &[2, FEATURES, 9], DType::F32);
    let (first, state) = lstm.forward_init(&xs.narrow(2, 0, 4).unwrap(), &lstm.zero_state(2).unwrap()).unwrap();
    let (second, _) = lstm.forward_init(&xs.narrow(2, 4, 5).unwrap(), &state).unwrap();
    assert_close(&Tensor::cat(&[first, second], 2).unwrap(), &lstm.forward(&xs).unwrap(), "parts");
}
