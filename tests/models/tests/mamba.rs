//! Mamba: prompts at once against the library's walk over tokens, states handed over, gradients, training.

use candle_core::{DType, Device, IndexOp, Result, Tensor};
use candle_transformers::models::mamba as library;
use funcify_candle_models::mamba::{Config, Model, State};
use funcify_model_tests::{Weights, assert_close, next_token_loss, tokens};

/// The library's model takes one sequence; ours any number.
const BATCH: usize = 2;

fn config() -> Config {
    Config { d_model: 20, n_layer: 2, vocab_size: 11, pad_vocab_size_multiple: 4 }
}

fn library_config() -> library::Config {
    let Config { d_model, n_layer, vocab_size, pad_vocab_size_multiple } = config();
    library::Config { d_model, n_layer, vocab_size, pad_vocab_size_multiple }
}

fn weights(dtype: DType) -> Weights {
    Weights::of(dtype, |vb| Model::new(&config(), vb))
}

/// The library's logits of each token, `[1, steps, vocabulary]`.
fn walk(model: &library::Model, ids: &Tensor, state: &mut library::State) -> Tensor {
    let steps = ids.dim(1).unwrap();
    let logits: Result<Vec<Tensor>> = (0..steps).map(|step| model.forward(&ids.i((.., step))?, state)).collect();
    Tensor::stack(&logits.unwrap(), 1).unwrap()
}

fn library_state() -> library::State {
    library::State::new(1, &library_config(), DType::F32, &Device::Cpu).unwrap()
}

#[test]
fn weights_are_the_librarys() {
    weights(DType::F32).assert_same(|vb| library::Model::new(&library_config(), vb));
}

#[test]
fn a_prompt_is_the_librarys_walk() {
    let weights = weights(DType::F32);
    let theirs = library::Model::new(&library_config(), weights.file()).unwrap();
    let ours = Model::new(&config(), weights.file()).unwrap();
    // Prompts shorter than the convolution is wide, and of any place in the library's ring of inputs.
    for prompt in [1, 2, 3, 4, 9, 10] {
        let ids = tokens(1, prompt + 3, 11);
        let (first, rest) = (ids.narrow(1, 0, prompt).unwrap(), ids.narrow(1, prompt, 3).unwrap());
        let mut their_state = library_state();
        let expected = walk(&theirs, &first, &mut their_state);
        let mut state = ours.zero_state(1).unwrap();
        assert_close(&ours.forward(&first, &mut state).unwrap(), &expected, "prompt");
        assert_eq!(state.pos, prompt);
        let last = ours.forward_last(&first, &mut ours.zero_state(1).unwrap()).unwrap();
        assert_close(&last, &expected.i((.., prompt - 1)).unwrap(), "the last of the prompt");

        // Both models go on from either's state.
        let mut handed = library::State { hs: state.hs(), prev_xs: state.prev_xs().unwrap(), pos: state.pos };
        let mut taken = State::from_library(&their_state.hs, &their_state.prev_xs, their_state.pos).unwrap();
        let expected = walk(&theirs, &rest, &mut their_state);
        assert_close(&walk(&theirs, &rest, &mut handed), &expected, "the library from our state");
        assert_close(&ours.forward(&rest, &mut taken).unwrap(), &expected, "ours from the library's state");
        for step in 0..3 {
            let token = rest.narrow(1, step, 1).unwrap();
            let logits = ours.forward_last(&token, &mut state).unwrap();
            assert_close(&logits, &expected.i((.., step)).unwrap(), "token by token");
        }
        let last = |state: &State| Tensor::stack(&state.hs(), 0).unwrap();
        assert_close(&last(&state), &Tensor::stack(&their_state.hs, 0).unwrap(), "states");
        assert_close(&last(&taken), &last(&state), "states");
    }
}

#[test]
fn a_batch_is_its_sequences() {
    let model = Model::new(&config(), weights(DType::F32).file()).unwrap();
    let ids = tokens(BATCH, 8, 11);
    let logits = model.forward(&ids, &mut model.zero_state(BATCH).unwrap()).unwrap();
    for sequence in 0..BATCH {
        let alone = model.forward(&ids.narrow(0, sequence, 1).unwrap(), &mut model.zero_state(1).unwrap()).unwrap();
        assert_close(&logits.narrow(0, sequence, 1).unwrap(), &alone, "sequence");
    }
}

#[test]
fn gradients_are_slopes() {
    let weights = weights(DType::F64);
    let model = Model::new(&config(), weights.builder()).unwrap();
    let ids = tokens(BATCH, 7, 11);
    let loss = || next_token_loss(&model.forward(&ids, &mut model.zero_state(BATCH)?)?, &ids);
    weights.assert_slopes(loss);
}

#[test]
fn it_learns_what_the_library_cannot() {
    let weights = weights(DType::F32);
    let ids = tokens(1, 12, 11);
    // The library's norm ends the gradients of all that is below it.
    let theirs = library::Model::new(&library_config(), weights.builder()).unwrap();
    let loss = next_token_loss(&walk(&theirs, &ids, &mut library_state()), &ids).unwrap();
    assert!(loss.backward().unwrap().get(&weights.vars()["layers.0.mixer.in_proj.weight"]).is_none());

    let ours = Model::new(&config(), weights.builder()).unwrap();
    weights.assert_learns(0.02, || next_token_loss(&ours.forward(&ids, &mut ours.zero_state(1)?)?, &ids));
}

#[test]
fn what_does_not_fit_is_refused() {
    let model = Model::new(&config(), weights(DType::F32).file()).unwrap();
    let mut state = model.zero_state(1).unwrap();
    let error = model.forward(&tokens(1, 3, 11).i(0).unwrap(), &mut state).unwrap_err().to_string();
    assert!(error.contains("[batch, steps]") && error.contains("u32[3]"), "{error}");
    assert!(model.forward(&tokens(1, 0, 11), &mut state).unwrap_err().to_string().contains("u32[1,0]"));
    // Two sequences after the state of one.
    assert!(model.forward(&tokens(2, 3, 11), &mut state).is_err());
    assert_eq!(state.pos, 0);
    state.blocks.pop();
    let error = model.forward(&tokens(1, 3, 11), &mut state).unwrap_err().to_string();
    assert!(error.contains("zero_state"), "{error}");
    let unpadded = Config { pad_vocab_size_multiple: 0, ..config() };
    let error = Model::new(&unpadded, weights(DType::F32).file()).err().unwrap().to_string();
    assert!(error.contains("pad_vocab_size_multiple"), "{error}");
}
