//! The second program of the serving page: replaces the loop of a candle-transformers model, then trains and serves the
//! model.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{AdamW, Optimizer, VarBuilder, VarMap};
use candle_transformers::models::mamba as library;
use funcify_candle_models::mamba;

fn main() -> Result<()> {
    // The same options and the same weights; to load a file, use `VarBuilder::from_mmaped_safetensors`.
    let vars = VarMap::new();
    let vb = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    let config = mamba::Config { d_model: 16, n_layer: 2, vocab_size: 8, pad_vocab_size_multiple: 8 };
    let model = mamba::Model::new(&config, vb.clone())?;

    // Train it over whole sequences, `[batch, steps]`, to continue 0 1 2 3 0 1 2 3 ...
    let ids: Vec<u32> = (0..=64).map(|t| t % 4).collect();
    let (xs, next) = (Tensor::new(&ids[..64], &Device::Cpu)?.unsqueeze(0)?, Tensor::new(&ids[1..], &Device::Cpu)?);
    let mut adam = AdamW::new_lr(vars.all_vars(), 0.01)?;
    for _ in 0..60 {
        let logits = model.forward(&xs, &mut model.zero_state(1)?)?;
        adam.backward_step(&candle_nn::loss::cross_entropy(&logits.squeeze(0)?, &next)?)?;
    }

    // Read a prompt at once, then serve one token per call.
    let mut state = model.zero_state(1)?;
    let mut logits = model.forward_last(&xs, &mut state)?;
    for expected in [0, 1, 2, 3, 0] {
        let token = logits.argmax(1)?;
        assert_eq!(token.to_vec1::<u32>()?, [expected]);
        logits = model.forward_last(&token.unsqueeze(0)?, &mut state)?;
    }

    // The library's own model loads the same weights and continues from this state.
    let config = library::Config { d_model: 16, n_layer: 2, vocab_size: 8, pad_vocab_size_multiple: 8 };
    let own = library::Model::new(&config, vb)?;
    let mut its = library::State { hs: state.hs(), prev_xs: state.prev_xs()?, pos: state.pos };
    let token = logits.argmax(1)?;
    assert_eq!(token.to_vec1::<u32>()?, [1]);
    assert_eq!(own.forward(&token, &mut its)?.argmax(1)?.to_vec1::<u32>()?, [2]);
    Ok(())
}
