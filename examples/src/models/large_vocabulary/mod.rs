//! A language model over a large vocabulary, with the cross-entropy computed in chunks of tokens.
//!
//! This is a bigram model: the logits of the next token are `output [V, W]` times the embedding `[W]` of the current
//! token, in f32. The logits of a whole batch, `[tokens, V]`, need far more memory than all the weights together. With
//! a chunked loss, only one chunk of logits exists at a time, and the backward pass recomputes it. Wijmans et al., Cut
//! Your Losses in Large-Vocabulary Language Models (2024), do the same for blocks inside a kernel.
//!
//! The current token is drawn from a Zipf distribution, and a random permutation of the vocabulary maps it to the next
//! token.

mod burn;
mod candle;

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_distr::Zipf;

use crate::training::{Cost, Loop, Schedule, Training, train};
use crate::{Framework, Run};

/// The exponent of the Zipf distribution.
const EXPONENT: f64 = 1.0;

/// The sizes of the model and of its batches.
#[derive(Clone, Copy)]
struct Sizes {
    vocabulary: usize,
    width: usize,
    /// The number of tokens per batch.
    tokens: usize,
    /// The number of tokens per chunk.
    chunk: usize,
}

/// A generator of random tokens and their successors. Token 0 is the most frequent.
struct Text {
    sizes: Sizes,
    random: StdRng,
    zipf: Zipf<f64>,
    /// The successor of each token.
    next: Vec<u32>,
}

impl Text {
    fn new(sizes: Sizes) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(1);
        let mut next: Vec<u32> = (0..sizes.vocabulary as u32).collect();
        next.shuffle(&mut random);
        Ok(Text { sizes, random, zipf: Zipf::new(sizes.vocabulary as f64, EXPONENT)?, next })
    }

    /// Draws a batch of tokens and their successors.
    fn batch(&mut self) -> (Vec<u32>, Vec<u32>) {
        let ranks = (&mut self.random).sample_iter(self.zipf).take(self.sizes.tokens);
        let tokens: Vec<u32> = ranks.map(|rank| rank as u32 - 1).collect();
        let next = tokens.iter().map(|token| self.next[*token as usize]).collect();
        (tokens, next)
    }

    /// Returns the probability of each token.
    fn frequencies(&self) -> Vec<f64> {
        let weights: Vec<f64> = (1..=self.sizes.vocabulary).map(|rank| (rank as f64).powf(-EXPONENT)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }
}

/// The interface of the model, which is implemented once for each framework.
trait Bigrams: Training {
    /// Returns the most likely successor of each token.
    fn predict(&self, tokens: &[u32]) -> Result<Vec<u32>>;
}

pub(crate) fn run(run: &Run) -> Result<()> {
    let quick = Sizes { vocabulary: 1024, width: 16, tokens: 512, chunk: 64 };
    let sizes = run.quick_or_full(quick, Sizes { vocabulary: 16_384, width: 64, tokens: 2048, chunk: 64 });
    match &run.framework {
        Framework::Candle(device) => learn(run, sizes, |whose| candle::Model::new(whose, sizes, device)),
        Framework::Burn(device) => {
            let network = burn::Network::new(sizes, device);
            learn(run, sizes, |whose| burn::Model::new(network.clone(), whose, sizes, device))
        }
    }
}

fn learn<M: Bigrams>(run: &Run, sizes: Sizes, start: impl Fn(Loop) -> Result<M>) -> Result<()> {
    if !run.compare {
        compare_memory(run, sizes, &start)?;
    }
    let schedule = Schedule { steps: run.quick_or_full(30, 60), rate: 0.1 };
    let Some((model, losses)) = train(run, schedule, start)? else { return Ok(()) };

    let text = Text::new(sizes)?;
    let frequencies = text.frequencies();
    let entropy: f64 = frequencies.iter().map(|share| -share * share.ln()).sum();
    let loss = losses.iter().rev().take(10).sum::<f64>() / 10.0;
    println!("  the last 10 losses are {loss:.2} nats on average; guessing by frequency has {entropy:.2}");
    ensure!(loss < 0.5 * entropy, "the model did not learn which token follows which");

    let frequent: Vec<u32> = (0..run.quick_or_full(50, 200)).collect();
    let predicted = model.predict(&frequent)?;
    let right = predicted.iter().zip(&text.next).filter(|(predicted, next)| predicted == next).count();
    let share: f64 = frequencies[..frequent.len()].iter().sum();
    let (count, percent) = (predicted.len(), 100.0 * share);
    println!("  right after {right} of the {count} most frequent tokens, {percent:.0}% of the text");
    ensure!(right * 100 >= count * 95, "the model should know the successors of frequent tokens");
    Ok(())
}

/// Checks that a training step needs far less memory with the chunked loss than with the framework's own cross-entropy
/// of all tokens at once.
fn compare_memory<M: Bigrams>(run: &Run, sizes: Sizes, start: impl Fn(Loop) -> Result<M>) -> Result<()> {
    if !run.is_on_host() {
        println!("  the memory of this device is not counted, so it is not compared");
        return Ok(());
    }
    let peak = |whose| {
        let mut model = start(whose)?;
        // Run a training step before the measurement, because the first step allocates memory that stays allocated,
        // such as the compiled programs and Adam's moments.
        model.step(1e-6)?;
        Ok::<f64, anyhow::Error>(Cost::measure(&mut model)?.bytes as f64)
    };
    let (chunks, whole) = (peak(Loop::Plugin)?, peak(Loop::Own)?);
    let logits = (4 * sizes.tokens * sizes.vocabulary) as f64;
    let [chunks_mb, whole_mb, logits_mb] = [chunks, whole, logits].map(|bytes| bytes / 1e6);
    let times = whole / chunks;
    println!("  peak memory of a step: {chunks_mb:.1} MB in chunks, {whole_mb:.1} MB at once: {times:.1} times");
    println!("  the logits of all {} tokens are {logits_mb:.1} MB", sizes.tokens);
    let least = run.quick_or_full(4.0, 10.0);
    ensure!(whole > least * chunks, "chunks should need less than a {least}th of the memory");
    // Skip this check in a quick run, because Adam's moments need more memory than the logits in a small model.
    ensure!(run.quick || chunks < logits, "the logits of all tokens should never exist at once");
    Ok(())
}
