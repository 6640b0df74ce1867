//! Tests Mamba-2. Compares whole prompts with token-by-token and chunked runs of candle-transformers (the library).
//! Also tests gradients, training, and the exchange of states with the library.

mod walk;

use candle_transformers::models::mamba2 as library;
use funcify_candle_models::mamba2::{Config, Model, State};
use funcify_model_tests::assert_close;

const LIBRARY_BATCH: usize = 2;
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

/// Converts a state of our model to a state of the library's model.
fn to_library_state(state: &State) -> library::State {
    library::State { hs: state.hs(), conv_states: state.conv_states().unwrap(), pos: state.pos }
}

/// Converts a state of the library's model to a state of our model.
fn from_library_state(state: &library::State) -> State {
    State::from_library(&state.hs, &state.conv_states, state.pos).unwrap()
}

#[test]
fn a_prompt_is_the_librarys_walk() {
    // Some of the prompts are shorter than the window of the convolution.
    walk::check_prompts(&[1, 2, 3, 9], |theirs, first, expected| {
        let by_chunks = theirs.forward_prefill(first, &mut walk::library_state(), 4).unwrap();
        assert_close(&by_chunks, expected, "the library's chunks");
    });
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    walk::assert_rejected(Config { pad_vocab_size_multiple: 0, ..config() }, "pad_vocab_size_multiple");
    walk::assert_rejected(Config { ngroups: 2, ..config() }, "ngroups");
    walk::assert_rejected(Config { headdim: 5, ..config() }, "headdim");
}
