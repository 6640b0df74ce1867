//! Tests RecurrentGemma. Compares whole and partial prompts with token-by-token runs of candle-transformers (the
//! library). Also tests gradients and training.

use candle_core::{DType, IndexOp, Tensor};
use candle_transformers::models::recurrent_gemma as library;
use funcify_candle_models::recurrent_gemma::{Config, Model, TemporalBlockType};
use funcify_model_tests::{Weights, assert_close, assert_gradient, next_token_loss, tokens};

use TemporalBlockType::{Attention, Recurrent};

const VOCABULARY: u32 = 17;

fn config(block_types: &[TemporalBlockType]) -> Config {
    Config {
        num_hidden_layers: 3,
        vocab_size: VOCABULARY as usize,
        hidden_size: 16,
        intermediate_size: 24,
        num_attention_heads: 2,
        num_key_value_heads: 1,
        head_dim: 8,
        lru_width: Some(12),
        conv1d_width: 4,
        logits_soft_cap: 30.0,
        hidden_activation: candle_nn::Activation::GeluPytorchTanh,
        partial_rotary_factor: 0.5,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        block_types: block_types.to_vec(),
        attention_bias: true,
        max_seq_len: 32,
    }
}

fn library_config(config: &Config) -> library::Config {
    let kind = |kind: &TemporalBlockType| match kind {
        Attention => library::TemporalBlockType::Attention,
        Recurrent => library::TemporalBlockType::Recurrent,
    };
    library::Config {
        num_hidden_layers: config.num_hidden_layers,
        vocab_size: config.vocab_size,
        hidden_size: config.hidden_size,
        intermediate_size: config.intermediate_size,
        num_attention_heads: config.num_attention_heads,
        num_key_value_heads: config.num_key_value_heads,
        head_dim: config.head_dim,
        lru_width: config.lru_width,
        attention_window_size: 2048,
        conv1d_width: config.conv1d_width,
        logits_soft_cap: config.logits_soft_cap,
        hidden_activation: config.hidden_activation,
        partial_rotary_factor: config.partial_rotary_factor,
        rms_norm_eps: config.rms_norm_eps,
        rope_theta: config.rope_theta,
        block_types: config.block_types.iter().map(kind).collect(),
        attention_bias: config.attention_bias,
        max_seq_len: config.max_seq_len,
    }
}

fn griffin() -> Config {
    config(&[Recurrent, Attention])
}

fn weights(config: &Config, dtype: DType) -> Weights {
    Weights::of(dtype, |vb| Model::new(config, vb))
}

#[test]
fn weights_are_the_librarys() {
    weights(&griffin(), DType::F32).assert_same(|vb| library::Model::new(&library_config(&griffin()), vb));
}

#[test]
fn prompts_and_parts_are_the_librarys_steps() {
    for config in [griffin(), config(&[Recurrent])] {
        let weights = weights(&config, DType::F32);
        let ours = Model::new(&config, weights.file()).unwrap();
        let library = || library::Model::new(&library_config(&config), weights.file()).unwrap();
        for prompt in [1, 2, 9] {
            let ids = tokens(2, prompt + 3, VOCABULARY);
            // The library returns logits only for the last position, so run it token by token.
            let mut theirs = library();
            let steps: Vec<Tensor> =
                (0..prompt + 3).map(|step| theirs.forward(&ids.narrow(1, step, 1).unwrap(), step).unwrap()).collect();
            let expected = Tensor::cat(&steps, 1).unwrap();

            let mut state = ours.zero_state(2).unwrap();
            let whole = ours.forward(&ids, &mut state).unwrap();
            assert_close(&whole, &expected, "all positions at once");
            assert_eq!(state.pos, prompt + 3);

            let mut state = ours.zero_state(2).unwrap();
            let first = ours.forward_last(&ids.narrow(1, 0, prompt).unwrap(), &mut state).unwrap();
            let by_prompt = library().forward(&ids.narrow(1, 0, prompt).unwrap(), 0).unwrap();
            assert_close(&first, &by_prompt.squeeze(1).unwrap(), "prompt");
            // After the prompt, run two steps in one call, which the library does not support, and then a single step.
            let part = ours.forward(&ids.narrow(1, prompt, 2).unwrap(), &mut state).unwrap();
            assert_close(&part, &expected.narrow(1, prompt, 2).unwrap(), "part");
            let last = ours.forward_last(&ids.narrow(1, prompt + 2, 1).unwrap(), &mut state).unwrap();
            assert_close(&last, &expected.i((.., prompt + 2)).unwrap(), "token by token");
        }
    }
}

#[test]
fn gradients_are_the_librarys() {
    // This model has no attention block, because the library's attention uses a softmax without a gradient.
    let config = config(&[Recurrent]);
    let weights = weights(&config, DType::F32);
    let ids = tokens(2, 7, VOCABULARY);
    let mut theirs = library::Model::new(&library_config(&config), weights.builder()).unwrap();
    let ours = Model::new(&config, weights.builder()).unwrap();
    let expected = theirs.forward(&ids, 0).unwrap().sqr().unwrap().sum_all().unwrap().backward().unwrap();
    let found = ours.forward_last(&ids, &mut ours.zero_state(2).unwrap()).unwrap();
    let found = found.sqr().unwrap().sum_all().unwrap().backward().unwrap();
    for (name, var) in weights.vars() {
        assert_gradient(found.get(&var).unwrap(), expected.get(&var).unwrap(), &name);
    }
}

#[test]
fn gradients_are_slopes() {
    let weights = weights(&griffin(), DType::F64);
    let model = Model::new(&griffin(), weights.builder()).unwrap();
    let ids = tokens(2, 7, VOCABULARY);
    weights.assert_slopes(|| next_token_loss(&model.forward(&ids, &mut model.zero_state(2)?)?, &ids));
}

#[test]
fn it_learns() {
    let weights = weights(&griffin(), DType::F32);
    let model = Model::new(&griffin(), weights.builder()).unwrap();
    let ids = tokens(2, 12, VOCABULARY);
    weights.assert_learns(0.02, || next_token_loss(&model.forward(&ids, &mut model.zero_state(2)?)?, &ids));
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let assert_rejected = |config: Config, option: &str| {
        let vb = weights(&griffin(), DType::F32).file();
        let error = Model::new(&config, vb).err().unwrap().to_string();
        assert!(error.contains(option), "{error}");
    };
    assert_rejected(Config { num_attention_heads: 5, ..griffin() }, "num_attention_heads");
    assert_rejected(Config { num_key_value_heads: 0, ..griffin() }, "num_key_value_heads");
    assert_rejected(Config { head_dim: 4, ..griffin() }, "head_dim");
    assert_rejected(Config { partial_rotary_factor: 1.0, ..griffin() }, "partial_rotary_factor");
    assert_rejected(Config { conv1d_width: 0, ..griffin() }, "conv1d_width");
    assert_rejected(config(&[]), "block_types");

    let model = Model::new(&griffin(), weights(&griffin(), DType::F32).file()).unwrap();
    let mut state = model.zero_state(1).unwrap();
    let error = model.forward(&tokens(1, 33, VOCABULARY), &mut state).unwrap_err().to_string();
    assert!(error.contains("max_seq_len"), "{error}");
    state.blocks.swap(0, 1);
    let error = model.forward(&tokens(1, 3, VOCABULARY), &mut state).unwrap_err().to_string();
    assert!(error.contains("zero_state"), "{error}");
}
