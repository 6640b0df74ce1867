//! Tests Mamba. Compares whole prompts with token-by-token runs of candle-transformers (the library). Also tests
//! gradients, training, and the exchange of states with the library.

mod walk;

use candle_core::DType;
use candle_transformers::models::mamba as library;
use funcify_candle_models::mamba::{Config, Model, State};
use funcify_model_tests::{assert_close, tokens};

/// The batch size of the library's model, which accepts only a single sequence. Our model accepts any batch size.
const LIBRARY_BATCH: usize = 1;
const BATCH: usize = 2;

fn config() -> Config {
    Config { d_model: 20, n_layer: 2, vocab_size: 11, pad_vocab_size_multiple: 4 }
}

fn library_config() -> library::Config {
    let Config { d_model, n_layer, vocab_size, pad_vocab_size_multiple } = config();
    library::Config { d_model, n_layer, vocab_size, pad_vocab_size_multiple }
}

/// Converts a state of our model to a state of the library's model.
fn to_library_state(state: &State) -> library::State {
    library::State { hs: state.hs(), prev_xs: state.prev_xs().unwrap(), pos: state.pos }
}

/// Converts a state of the library's model to a state of our model.
fn from_library_state(state: &library::State) -> State {
    State::from_library(&state.hs, &state.prev_xs, state.pos).unwrap()
}

#[test]
fn a_prompt_is_the_librarys_walk() {
    // Test prompts shorter than the window of the convolution and, for each slot of the library's ring buffer of inputs,
    // a prompt that ends there.
    walk::check_prompts(&[1, 2, 3, 4, 9, 10], |_, _, _| ());
}

#[test]
fn a_batch_is_its_sequences() {
    let model = Model::new(&config(), walk::weights(DType::F32).file()).unwrap();
    let ids = tokens(BATCH, 8, 11);
    let logits = model.forward(&ids, &mut model.zero_state(BATCH).unwrap()).unwrap();
    for sequence in 0..BATCH {
        let alone = model.forward(&ids.narrow(0, sequence, 1).unwrap(), &mut model.zero_state(1).unwrap()).unwrap();
        assert_close(&logits.narrow(0, sequence, 1).unwrap(), &alone, "sequence");
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    walk::assert_rejected(Config { pad_vocab_size_multiple: 0, ..config() }, "pad_vocab_size_multiple");
}
