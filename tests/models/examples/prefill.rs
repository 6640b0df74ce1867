//! Measures the time to read a prompt of 512 tokens and, for Mamba, the time to read the last quarter of the prompt
//! token by token. Compares each model of candle-transformers with the funcify model that has the same weights. Runs of
//! the two models alternate, and are timed only if both compute the same values.
//!
//! Reports the wall time and the processor time summed over all cores. Other work on the machine does not affect the
//! processor time. Run the program with `RAYON_NUM_THREADS=1 cargo run --release -p funcify-model-tests --example
//! prefill`. If the variable is not set, Candle queries the number of cores in every matrix product, which increases
//! the measured time.

use std::time::{Duration, Instant};

use candle_core::{DType, Device, IndexOp, Result, Tensor};
use candle_transformers::models::{mamba as their_mamba, mamba2 as their_mamba2, rwkv_v5, rwkv_v6};
use cpu_time::ProcessTime;
use funcify_candle_models::{mamba, mamba2, rwkv};
use funcify_model_tests::{Weights, distance, tokens};

const STEPS: usize = 512;
const ROUNDS: usize = 7;
const VOCABULARY: usize = 512;
const FEATURES: usize = 256;
const BLOCKS: usize = 4;

fn main() -> Result<()> {
    println!("{STEPS} tokens, {BLOCKS} blocks of {FEATURES} features, {VOCABULARY} tokens; low and median of {ROUNDS}");
    mamba_models()?;
    mamba2_models()?;
    rwkv_models()
}

fn mamba_models() -> Result<()> {
    let (d_model, n_layer, vocab_size, pad_vocab_size_multiple) = (FEATURES, BLOCKS, VOCABULARY, 8);
    let config = mamba::Config { d_model, n_layer, vocab_size, pad_vocab_size_multiple };
    let their_config = their_mamba::Config { d_model, n_layer, vocab_size, pad_vocab_size_multiple };
    let weights = Weights::new(DType::F32, |vb| mamba::Model::new(&config, vb));
    let ours = mamba::Model::new(&config, weights.file())?;
    let theirs = their_mamba::Model::new(&their_config, weights.file())?;
    let ids = tokens(1, STEPS, VOCABULARY as u32);
    let new = || their_mamba::State::new(1, &their_config, DType::F32, &Device::Cpu);
    let walk = |from: usize, mut state: their_mamba::State| {
        let logits = (from..STEPS).map(|step| theirs.forward(&ids.i((.., step))?, &mut state));
        Tensor::stack(&logits.collect::<Result<Vec<_>>>()?, 1)
    };
    compare("Mamba, prompt", || walk(0, new()?), || ours.forward(&ids, &mut ours.zero_state(1)?))?;

    // Read the last quarter of the prompt token by token, from the state after the first three quarters.
    let from = STEPS / 4 * 3;
    let mut start = ours.zero_state(1)?;
    ours.forward_last(&ids.narrow(1, 0, from)?, &mut start)?;
    let prev_xs = start.prev_xs()?;
    let library_state = || their_mamba::State { hs: start.hs(), prev_xs: prev_xs.clone(), pos: start.pos };
    let steps = || {
        let mut state = start.clone();
        let logits = (from..STEPS).map(|step| ours.forward(&ids.narrow(1, step, 1)?, &mut state));
        Tensor::cat(&logits.collect::<Result<Vec<_>>>()?, 1)
    };
    compare(&format!("Mamba, {} single tokens", STEPS - from), || walk(from, library_state()), steps)
}

fn mamba2_models() -> Result<()> {
    let (d_model, n_layer, vocab_size, pad_vocab_size_multiple) = (FEATURES, BLOCKS, VOCABULARY, 8);
    let (d_state, expand, headdim, ngroups) = (64, 2, 64, 1);
    let config =
        mamba2::Config { d_model, n_layer, vocab_size, d_state, expand, headdim, ngroups, pad_vocab_size_multiple };
    let their_config = their_mamba2::Config {
        d_model,
        n_layer,
        vocab_size,
        d_state,
        expand,
        headdim,
        ngroups,
        pad_vocab_size_multiple,
    };
    let weights = Weights::new(DType::F32, |vb| mamba2::Model::new(&config, vb));
    let ours = mamba2::Model::new(&config, weights.file())?;
    let theirs = their_mamba2::Model::new(&their_config, weights.file())?;
    let ids = tokens(1, STEPS, VOCABULARY as u32);
    let new = || their_mamba2::State::new(1, &their_config, DType::F32, &Device::Cpu);
    let scan = || ours.forward(&ids, &mut ours.zero_state(1)?);
    let walk = || {
        let mut state = new()?;
        let logits = (0..STEPS).map(|step| theirs.forward(&ids.i((.., step))?, &mut state));
        Tensor::stack(&logits.collect::<Result<Vec<_>>>()?, 1)
    };
    compare("Mamba-2, prompt", walk, scan)?;
    compare("Mamba-2, prompt by chunks of 16", || theirs.forward_prefill(&ids, &mut new()?, 16), scan)
}

fn rwkv_models() -> Result<()> {
    let (vocab_size, hidden_size, head_size, layer_norm_epsilon) = (VOCABULARY, FEATURES, 64, 1e-5);
    let config = rwkv::Config {
        vocab_size,
        hidden_size,
        num_hidden_layers: BLOCKS,
        attention_hidden_size: hidden_size,
        head_size,
        intermediate_size: None,
        layer_norm_epsilon,
    };
    let their_config = rwkv_v5::Config {
        vocab_size,
        hidden_size,
        num_hidden_layers: BLOCKS,
        attention_hidden_size: hidden_size,
        num_attention_heads: head_size,
        head_size,
        intermediate_size: None,
        layer_norm_epsilon,
        rescale_every: 6,
    };
    let weights = Weights::new(DType::F32, |vb| rwkv::Model::new(rwkv::Version::Six, &config, vb));
    let ours = rwkv::Model::new(rwkv::Version::Six, &config, weights.file())?;
    let theirs = rwkv_v6::Model::new(&their_config, weights.file())?;
    let ids = tokens(1, STEPS, VOCABULARY as u32);
    let walk = || {
        let mut state = rwkv_v5::State::new(1, &their_config, &Device::Cpu)?;
        let logits = (0..STEPS).map(|step| theirs.forward(&ids.narrow(1, step, 1)?, &mut state));
        Tensor::cat(&logits.collect::<Result<Vec<_>>>()?, 1)
    };
    compare("RWKV 6, prompt", walk, || ours.forward(&ids, &mut ours.zero_state(1)?))
}

/// Times both models, alternating between them, and prints the results. Panics if their logits differ.
fn compare(name: &str, theirs: impl Fn() -> Result<Tensor>, ours: impl Fn() -> Result<Tensor>) -> Result<()> {
    let off = distance(&ours()?, &theirs()?);
    assert!(off < 1e-5, "{name}: logits differ by {off:e}");
    let (mut walls, mut processor) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        for (subject, run) in [&theirs as &dyn Fn() -> Result<Tensor>, &ours].into_iter().enumerate() {
            let (start, start_of_processor) = (Instant::now(), ProcessTime::now());
            run()?;
            walls[subject].push(start.elapsed());
            processor[subject].push(start_of_processor.elapsed());
        }
    }
    println!("{name}; logits differ by {off:.0e} of the largest");
    for (what, times) in [("time", walls), ("of processors", processor)] {
        let [[low, median], [our_low, our_median]] = times.map(summary);
        let ratio = |slow: Duration, fast: Duration| slow.as_secs_f64() / fast.as_secs_f64();
        let (by_low, by_median) = (ratio(low, our_low), ratio(median, our_median));
        print!("  {what}: {low:.1?} ({median:.1?}), by funcify {our_low:.1?} ({our_median:.1?}): ");
        println!("{by_low:.1} × ({by_median:.1} ×)");
    }
    Ok(())
}

/// Returns the minimum and the median of the times.
fn summary(mut times: Vec<Duration>) -> [Duration; 2] {
    times.sort();
    [times[0], times[times.len() / 2]]
}
