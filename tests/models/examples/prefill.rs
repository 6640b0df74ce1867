//! How long a prompt takes to be read by Mamba: the walk of candle-transformers over its tokens, and one scan, on the same weights, in
//! turns. Run it with `cargo run --release -p funcify-model-tests --example prefill`.
//!
//! Candle asks the system for its cores in every product of matrices unless `RAYON_NUM_THREADS` is set: set it, or this is
//! part of what is measured of the walk.

use std::time::{Duration, Instant};

use candle_core::{DType, Device, IndexOp, Result, Tensor};
use candle_transformers::models::mamba as library;
use funcify_candle::models::mamba::{Config, Model};
use funcify_model_tests::{Weights, distance, tokens};

const STEPS: usize = 512;
const ROUNDS: usize = 7;

fn main() -> Result<()> {
    let config = Config { d_model: 256, n_layer: 4, vocab_size: 512, pad_vocab_size_multiple: 8 };
    let weights = Weights::new(DType::F32, |vb| Model::new(&config, vb));
    let Config { d_model, n_layer, vocab_size, pad_vocab_size_multiple } = config;
    let their_config = library::Config { d_model, n_layer, vocab_size, pad_vocab_size_multiple };
    let theirs = library::Model::new(&their_config, weights.file())?;
    let ours = Model::new(&config, weights.file())?;
    let ids = tokens(1, STEPS, vocab_size as u32);

    let walk = || {
        let mut state = library::State::new(1, &their_config, DType::F32, &Device::Cpu)?;
        let logits = (0..STEPS).map(|step| theirs.forward(&ids.i((.., step))?, &mut state));
        Tensor::stack(&logits.collect::<Result<Vec<_>>>()?, 1)
    };
    let scan = || ours.forward(&ids, &mut ours.zero_state(1)?);
    let off = distance(&scan()?, &walk()?);
    println!("{STEPS} tokens, {n_layer} blocks of {d_model} features: logits differ by {off:.1e} of the largest");
    assert!(off < 1e-5);

    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(timed(&walk)?);
        times[1].push(timed(&scan)?);
    }
    let [[low, median], [low_of_scan, median_of_scan]] = times.map(summary);
    println!("token by token: {low:.1?}, median {median:.1?}");
    println!("one scan:       {low_of_scan:.1?}, median {median_of_scan:.1?}");
    let ratio = |slow: Duration, fast: Duration| slow.as_secs_f64() / fast.as_secs_f64();
    println!("ratio:          {:.1}, median {:.1}", ratio(low, low_of_scan), ratio(median, median_of_scan));
    Ok(())
}

fn timed(run: impl Fn() -> Result<Tensor>) -> Result<Duration> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed())
}

/// The lowest time and the median.
fn summary(mut times: Vec<Duration>) -> [Duration; 2] {
    times.sort();
    [times[0], times[times.len() / 2]]
}
