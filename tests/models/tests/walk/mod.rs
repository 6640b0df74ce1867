//! Checks shared by the tests of Mamba and Mamba-2. The models of candle-transformers (the library) run token by token.

use candle_core::{DType, Device, IndexOp, Result, Tensor};
use funcify_model_tests::{Weights, assert_close, next_token_loss, tokens};

use super::{
    BATCH, LIBRARY_BATCH, Model, State, config, from_library_state, library, library_config, to_library_state,
};

pub(crate) fn weights(dtype: DType) -> Weights {
    Weights::of(dtype, |vb| Model::new(&config(), vb))
}

/// Returns the library's logits for all tokens, `[batch, steps, vocabulary]`, by running its model token by token.
fn walk(model: &library::Model, ids: &Tensor, state: &mut library::State) -> Tensor {
    let steps = ids.dim(1).unwrap();
    let logits: Result<Vec<Tensor>> = (0..steps).map(|step| model.forward(&ids.i((.., step))?, state)).collect();
    Tensor::stack(&logits.unwrap(), 1).unwrap()
}

pub(crate) fn library_state() -> library::State {
    library::State::new(LIBRARY_BATCH, &library_config(), DType::F32, &Device::Cpu).unwrap()
}

/// Compares our model with the library's on prompts of these lengths, each followed by three more tokens. Calls `check`
/// with the library's model, the prompt and the library's logits for the prompt.
pub(crate) fn check_prompts(lengths: &[usize], check: impl Fn(&library::Model, &Tensor, &Tensor)) {
    let weights = weights(DType::F32);
    let theirs = library::Model::new(&library_config(), weights.file()).unwrap();
    let ours = Model::new(&config(), weights.file()).unwrap();
    let zero_state = || ours.zero_state(LIBRARY_BATCH).unwrap();
    for prompt in lengths.iter().copied() {
        let ids = tokens(LIBRARY_BATCH, prompt + 3, 11);
        let (first, rest) = (ids.narrow(1, 0, prompt).unwrap(), ids.narrow(1, prompt, 3).unwrap());
        let (mut their_state, mut state) = (library_state(), zero_state());
        let expected = walk(&theirs, &first, &mut their_state);
        assert_close(&ours.forward(&first, &mut state).unwrap(), &expected, "prompt");
        check(&theirs, &first, &expected);
        assert_eq!(state.pos, prompt);
        let last = ours.forward_last(&first, &mut zero_state()).unwrap();
        assert_close(&last, &expected.i((.., prompt - 1)).unwrap(), "the last of the prompt");

        // Each model continues from the other's state.
        let (mut from_ours, mut from_theirs) = (to_library_state(&state), from_library_state(&their_state));
        let expected = walk(&theirs, &rest, &mut their_state);
        assert_close(&walk(&theirs, &rest, &mut from_ours), &expected, "the library from our state");
        assert_close(&ours.forward(&rest, &mut from_theirs).unwrap(), &expected, "ours from the library's state");
        for step in 0..3 {
            let token = rest.narrow(1, step, 1).unwrap();
            let logits = ours.forward_last(&token, &mut state).unwrap();
            assert_close(&logits, &expected.i((.., step)).unwrap(), "token by token");
        }
        let last = |state: &State| Tensor::stack(&state.hs(), 0).unwrap();
        assert_close(&last(&state), &Tensor::stack(&their_state.hs, 0).unwrap(), "states");
        assert_close(&last(&from_theirs), &last(&state), "states");
    }
}

#[test]
fn weights_are_the_librarys() {
    weights(DType::F32).assert_same(|vb| library::Model::new(&library_config(), vb));
}

#[test]
fn gradients_are_slopes() {
    let weights = weights(DType::F64);
    let model = Model::new(&config(), weights.builder()).unwrap();
    let ids = tokens(BATCH, 7, 11);
    weights.assert_slopes(|| next_token_loss(&model.forward(&ids, &mut model.zero_state(BATCH)?)?, &ids));
}

#[test]
fn it_learns_what_the_library_cannot() {
    let weights = weights(DType::F32);
    let ids = tokens(LIBRARY_BATCH, 12, 11);
    // The library's norm has no gradient, so no gradient reaches the layers before it.
    let theirs = library::Model::new(&library_config(), weights.builder()).unwrap();
    let loss = next_token_loss(&walk(&theirs, &ids, &mut library_state()), &ids).unwrap();
    assert!(loss.backward().unwrap().get(&weights.vars()["layers.0.mixer.in_proj.weight"]).is_none());

    let ours = Model::new(&config(), weights.builder()).unwrap();
    weights.assert_learns(0.02, || next_token_loss(&ours.forward(&ids, &mut ours.zero_state(LIBRARY_BATCH)?)?, &ids));
}

#[test]
fn ids_and_states_that_do_not_fit_are_refused() {
    let model = Model::new(&config(), weights(DType::F32).file()).unwrap();
    let mut state = model.zero_state(1).unwrap();
    let error = model.forward(&tokens(1, 3, 11).i(0).unwrap(), &mut state).unwrap_err().to_string();
    assert!(error.contains("[batch, steps]") && error.contains("u32[3]"), "{error}");
    assert!(model.forward(&tokens(1, 0, 11), &mut state).unwrap_err().to_string().contains("u32[1,0]"));
    // A batch of two sequences is rejected, because the state belongs to a single sequence.
    assert!(model.forward(&tokens(2, 3, 11), &mut state).is_err());
    assert_eq!(state.pos, 0);
    state.blocks.pop();
    let error = model.forward(&tokens(1, 3, 11), &mut state).unwrap_err().to_string();
    assert!(error.contains("zero_state"), "{error}");
}

/// Asserts that a model with this configuration is rejected, with an error that names `option`.
pub(crate) fn assert_rejected(config: super::Config, option: &str) {
    let error = Model::new(&config, weights(DType::F32).file()).err().unwrap().to_string();
    assert!(error.contains(option), "{error}");
}
