//! Measures the time and memory of a training step in three implementations: with funcify's loop, with the framework's
//! own loop, and in `transformers`.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::learner::Loop;
use crate::text::Text;
use crate::{MEMORY, Model};

/// The number of training steps to measure for each loop in Rust.
const ROUNDS: usize = 5;
/// The number of training steps to measure in Python, where a step takes longer.
const PEER_ROUNDS: usize = 2;
/// The Python program that trains the same model with `transformers`.
const PEER: &str = include_str!("transformers_peer.py");

/// Prints a table of median times and peak memory. The training steps of the two loops alternate.
pub(crate) fn print(model: &Model, python: &Path, text: &Text) -> Result<()> {
    let sizes = model.sizes();
    let weights = sizes.weights(1)?;
    let mut learners = [model.learner(&weights, Loop::Plugin)?, model.learner(&weights, Loop::Own)?];
    let batch = text.batch(sizes, 0);
    let [ours, own] = [learners[0].logits(&batch)?, learners[1].logits(&batch)?].map(|logits| logits.to_f64_vec());
    let apart = ours.iter().zip(&own).map(|(ours, own)| (ours - own).abs()).fold(0.0, f64::max);
    ensure!(apart < 1e-4, "the logits of the two loops differ by {apart:e}");
    let mut costs = [const { Vec::new() }; 2];
    let mut losses = [0.0; 2];
    for step in 0..=ROUNDS {
        let batch = text.batch(sizes, step);
        for ((learner, costs), loss) in learners.iter_mut().zip(&mut costs).zip(&mut losses) {
            let held = MEMORY.current_usage();
            MEMORY.reset_peak_usage();
            let start = Instant::now();
            *loss = learner.step(&batch, 1e-4)?;
            // The first step is not measured, because it includes compilation and warmup.
            if step > 0 {
                costs.push((start.elapsed().as_secs_f64() * 1e3, MEMORY.peak_usage().saturating_sub(held)));
            }
        }
    }
    println!("| a training step of {sizes:?} | time | peak memory |\n|---|--:|--:|");
    for (whose, costs) in ["funcify's loop", "its own loop"].iter().zip(&costs) {
        let (time, bytes) = median(costs);
        println!("| {:?}, {whose} | {time:.1} ms | {:.1} MB |", model.framework, bytes as f64 / 1e6);
    }
    match transformers(model, python) {
        Ok(row) => println!("{row}"),
        Err(why) => println!("| transformers | absent: {why} | |"),
    }
    let losses = (losses[0] - losses[1]).abs();
    println!("\nthe logits of the two loops differ by {apart:.1e} at most, the last losses by {losses:.1e}");
    Ok(())
}

fn median(costs: &[(f64, usize)]) -> (f64, usize) {
    let mut times: Vec<f64> = costs.iter().map(|cost| cost.0).collect();
    let mut bytes: Vec<usize> = costs.iter().map(|cost| cost.1).collect();
    times.sort_by(f64::total_cmp);
    bytes.sort_unstable();
    (times[times.len() / 2], bytes[bytes.len() / 2])
}

/// Returns the table row for `transformers`, or the reason why its training step could not be measured.
fn transformers(model: &Model, python: &Path) -> Result<String, String> {
    let sizes = model.sizes();
    let numbers = [sizes.layers, sizes.width, sizes.batch, sizes.bytes, PEER_ROUNDS].map(|number| number.to_string());
    let output = Command::new(python).arg("-c").arg(PEER).args(numbers).output();
    let output = output.map_err(|error| format!("{}: {error}", python.display()))?;
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().lines().last().unwrap_or_default().to_string();
    if output.status.success() { Ok(lines(&output.stdout)) } else { Err(lines(&output.stderr)) }
}
