//! Tests RWKV 5 and 6. Compares whole prompts with token-by-token runs of candle-transformers (the library). Also tests
//! gradients, training, and the exchange of states with the library.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{rwkv_v5, rwkv_v6};
use funcify_candle_models::rwkv::{Config, Model, State, StatePerLayer, Version};
use funcify_model_tests::{Weights, assert_close, next_token_loss, tokens};

const VERSIONS: [Version; 2] = [Version::Five, Version::Six];

fn config() -> Config {
    Config {
        vocab_size: 13,
        hidden_size: 12,
        num_hidden_layers: 2,
        attention_hidden_size: 12,
        head_size: 4,
        intermediate_size: Some(10),
        layer_norm_epsilon: 1e-5,
    }
}

fn library_config() -> rwkv_v5::Config {
    let config = config();
    rwkv_v5::Config {
        vocab_size: config.vocab_size,
        hidden_size: config.hidden_size,
        num_hidden_layers: config.num_hidden_layers,
        attention_hidden_size: config.attention_hidden_size,
        num_attention_heads: config.head_size,
        head_size: config.head_size,
        intermediate_size: config.intermediate_size,
        layer_norm_epsilon: config.layer_norm_epsilon,
        rescale_every: 6,
    }
}

/// The library's model, either RWKV 5 or RWKV 6.
enum Library {
    Five(rwkv_v5::Model),
    Six(rwkv_v6::Model),
}

impl Library {
    fn new(version: Version, vb: VarBuilder<'_>) -> Result<Self> {
        Ok(match version {
            Version::Five => Library::Five(rwkv_v5::Model::new(&library_config(), vb)?),
            Version::Six => Library::Six(rwkv_v6::Model::new(&library_config(), vb)?),
        })
    }

    /// Returns the logits of all tokens, `[1, steps, vocabulary]`, by calling the library's model once per token.
    fn walk(&self, ids: &Tensor, state: &mut rwkv_v5::State) -> Tensor {
        let logits = (0..ids.dim(1).unwrap()).map(|step| {
            let token = ids.narrow(1, step, 1)?;
            match self {
                Library::Five(model) => model.forward(&token, state),
                Library::Six(model) => model.forward(&token, state),
            }
        });
        Tensor::cat(&logits.collect::<Result<Vec<Tensor>>>().unwrap(), 1).unwrap()
    }
}

fn weights(version: Version, dtype: DType) -> Weights {
    Weights::of(dtype, |vb| Model::new(version, &config(), vb))
}

fn library_state() -> rwkv_v5::State {
    rwkv_v5::State::new(1, &library_config(), &Device::Cpu).unwrap()
}

/// Converts a state of our model to a state of the library's model.
fn to_library_state(state: &State) -> rwkv_v5::State {
    let of = |StatePerLayer { extract_key_value, linear_attention, feed_forward }: StatePerLayer| {
        rwkv_v5::StatePerLayer { extract_key_value, linear_attention, feed_forward }
    };
    rwkv_v5::State { per_layer: state.blocks.iter().cloned().map(of).collect(), pos: state.pos }
}

/// Converts a state of the library's model to a state of our model.
fn from_library_state(state: &rwkv_v5::State) -> State {
    let of = |block: &rwkv_v5::StatePerLayer| StatePerLayer {
        extract_key_value: block.extract_key_value.clone(),
        linear_attention: block.linear_attention.clone(),
        feed_forward: block.feed_forward.clone(),
    };
    State { blocks: state.per_layer.iter().map(of).collect(), pos: state.pos }
}

#[test]
fn weights_are_the_librarys() {
    for version in VERSIONS {
        weights(version, DType::F32).assert_same(|vb| Library::new(version, vb));
    }
}

#[test]
fn a_prompt_is_the_librarys_walk() {
    for version in VERSIONS {
        let weights = weights(version, DType::F32);
        let theirs = Library::new(version, weights.file()).unwrap();
        let ours = Model::new(version, &config(), weights.file()).unwrap();
        for prompt in [1, 2, 9] {
            let ids = tokens(1, prompt + 3, 13);
            let (first, rest) = (ids.narrow(1, 0, prompt).unwrap(), ids.narrow(1, prompt, 3).unwrap());
            let (mut their_state, mut state) = (library_state(), ours.zero_state(1).unwrap());
            let expected = theirs.walk(&first, &mut their_state);
            assert_close(&ours.forward(&first, &mut state).unwrap(), &expected, "prompt");
            assert_eq!(state.pos, prompt);
            let last = ours.forward_last(&first, &mut ours.zero_state(1).unwrap()).unwrap();
            let of_last = expected.narrow(1, prompt - 1, 1).unwrap().squeeze(1).unwrap();
            assert_close(&last, &of_last, "the last of the prompt");

            // Each model continues from the other's state.
            let (mut from_ours, mut from_theirs) = (to_library_state(&state), from_library_state(&their_state));
            let expected = theirs.walk(&rest, &mut their_state);
            assert_close(&theirs.walk(&rest, &mut from_ours), &expected, "the library from our state");
            assert_close(&ours.forward(&rest, &mut from_theirs).unwrap(), &expected, "ours from the library's state");
            for step in 0..3 {
                let logits = ours.forward_last(&rest.narrow(1, step, 1).unwrap(), &mut state).unwrap();
                assert_close(&logits, &expected.narrow(1, step, 1).unwrap().squeeze(1).unwrap(), "token by token");
            }
            for (found, expected) in state.blocks.iter().zip(&their_state.per_layer) {
                assert_close(&found.linear_attention, &expected.linear_attention, "memory");
                assert_close(&found.extract_key_value, &expected.extract_key_value, "last row of the time mix");
                assert_close(&found.feed_forward, &expected.feed_forward, "last row of the channel mix");
            }
        }
    }
}

#[test]
fn a_batch_is_its_sequences() {
    for version in VERSIONS {
        let model = Model::new(version, &config(), weights(version, DType::F32).file()).unwrap();
        let ids = tokens(2, 8, 13);
        let logits = model.forward(&ids, &mut model.zero_state(2).unwrap()).unwrap();
        for sequence in 0..2 {
            let ids = ids.narrow(0, sequence, 1).unwrap();
            let alone = model.forward(&ids, &mut model.zero_state(1).unwrap()).unwrap();
            assert_close(&logits.narrow(0, sequence, 1).unwrap(), &alone, "sequence");
        }
    }
}

#[test]
fn gradients_are_slopes() {
    for version in VERSIONS {
        let weights = weights(version, DType::F64);
        let model = Model::new(version, &config(), weights.builder()).unwrap();
        let ids = tokens(2, 7, 13);
        weights.assert_slopes(|| next_token_loss(&model.forward(&ids, &mut model.zero_state(2)?)?, &ids));
    }
}

#[test]
fn it_learns_what_the_library_cannot() {
    for version in VERSIONS {
        let weights = weights(version, DType::F32);
        let ids = tokens(1, 12, 13);
        // The library's norm has no gradient, so no gradient reaches the layers before it.
        let theirs = Library::new(version, weights.builder()).unwrap();
        let loss = next_token_loss(&theirs.walk(&ids, &mut library_state()), &ids).unwrap();
        let gradients = loss.backward().unwrap();
        assert!(gradients.get(&weights.vars()["rwkv.blocks.0.attention.key.weight"]).is_none());

        let ours = Model::new(version, &config(), weights.builder()).unwrap();
        weights.assert_learns(0.02, || next_token_loss(&ours.forward(&ids, &mut ours.zero_state(1)?)?, &ids));
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let assert_rejected = |config: Config, option: &str| {
        let vb = weights(Version::Six, DType::F32).file();
        let error = Model::new(Version::Six, &config, vb).err().unwrap().to_string();
        assert!(error.contains(option), "{error}");
    };
    assert_rejected(Config { head_size: 5, ..config() }, "head_size");
    assert_rejected(Config { head_size: 0, ..config() }, "head_size");
    assert_rejected(Config { attention_hidden_size: 24, ..config() }, "attention_hidden_size");
}
