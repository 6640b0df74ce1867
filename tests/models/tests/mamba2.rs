//! Mamba-2: prompts at once against the library's walk over tokens and its chunks, states handed over, gradients, training.

use candle_core::{DType, Device, IndexOp, Result, Tensor};
use candle_transformers::models::mamba2 as library;
use funcify_candle_models::mamba2::{Config, Model, State};
use funcify_model_tests::{Weights, assert_close, next_token_loss, tokens};

const BATCH: usize = 2;

fn config() -> Config {
    Config {
        d_model: 6,
        n_layer: 2,
        vocab_size: 11,
        d_state: 5,
        expand: 2,
        headdim: 4,
        ngroups: 1,
        pad_vocab_size_multiple: 4,
    }
}

fn library_config() -> library::Config {
    let Config { d_model, n_layer, vocab_size, d_state, expand, headdim, ngroups, pad_vocab_size_multiple } = config();
    library::Config { d_model, n_layer, vocab_size, d_state, expand, headdim, ngroups, pad_vocab_size_multiple }
}

fn weights(dtype: DType) -> Weights {
    Weights::of(dtype, |vb| Model::new(&config(), vb))
}

/// The library's logits of each token, `[batch, steps, vocabulary]`.
fn walk(model: &library::Model, ids: &Tensor, state: &mut library::State) -> Tensor {
    let steps = ids.dim(1).unwrap();
    let logits: Result<Vec<Tensor>> = (0..steps).map(|step| model.forward(&ids.i((.., step))?, state)).collect();
    Tensor::stack(&logits.unwrap(), 1).unwrap()
}

fn library_state() -> library::State {
    library::State::new(BATCH, &library_config(), DType::F32, &Device::Cpu).unwrap()
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
    // Also prompts that are shorter than the convolution is wide.
    for prompt in [1, 2, 3, 9] {
        let ids = tokens(BATCH, prompt + 3, 11);
        let (first, rest) = (ids.narrow(1, 0, prompt).unwrap(), ids.narrow(1, prompt, 3).unwrap());
        let mut their_state = library_state();
        let expected = walk(&theirs, &first, &mut their_state);
        let mut state = ours.zero_state(BATCH).unwrap();
        assert_close(&ours.forward(&first, &mut state).unwrap(), &expected, "prompt");
        let by_chunks = theirs.forward_prefill(&first, &mut library_state(), 4).unwrap();
        assert_close(&by_chunks, &expected, "the library's chunks");
        assert_eq!(state.pos, prompt);
        let last = ours.forward_last(&first, &mut ours.zero_state(BATCH).unwrap()).unwrap();
        assert_close(&last, &expected.i((.., prompt - 1)).unwrap(), "the last of the prompt");

        // Both models go on from either's state.
        let mut handed = library::State { hs: state.hs(), conv_states: state.conv_states().unwrap(), pos: state.pos };
        let mut taken = State::from_library(&their_state.hs, &their_state.conv_states, their_state.pos).unwrap();
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
    let ids = tokens(BATCH, 12, 11);
    // The library's norm ends the gradients of all that is below it.
    let theirs = library::Model::new(&library_config(), weights.builder()).unwrap();
    let loss = next_token_loss(&walk(&theirs, &ids, &mut library_state()), &ids).unwrap();
    assert!(loss.backward().unwrap().get(&weights.vars()["layers.0.mixer.in_proj.weight"]).is_none());

    let ours = Model::new(&config(), weights.builder()).unwrap();
    weights.assert_learns(0.02, || next_token_loss(&ours.forward(&ids, &mut ours.zero_state(BATCH)?)?, &ids));
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
    for (config, option) in [
        (Config { pad_vocab_size_multiple: 0, ..config() }, "pad_vocab_size_multiple"),
        (Config { ngroups: 2, ..config() }, "ngroups"),
        (Config { headdim: 5, ..config() }, "headdim"),
    ] {
        let error = Model::new(&config, weights(DType::F32).file()).err().unwrap().to_string();
        assert!(error.contains(option), "{error}");
    }
}
