//! Serves the model, one step per byte, to streams that join and leave.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use anyhow::{Context, Result};
use funcify::HostTensor;
use funcify::dispatch::{Backend, Stepper};
use funcify_burn::Burn;
use funcify_candle::Candle;

use crate::graph::{features, language_model, other_inputs};
use crate::learner::{Sizes, TOKENS, Weights};
use crate::{Framework, Model};

/// The stepper of the model, and the weights, which contain the embedding of each byte.
struct ServedModel<B: Backend> {
    stepper: Stepper<B>,
    weights: Weights,
}

impl<B: Backend> ServedModel<B> {
    /// Builds the stepper of the model. At first, it has no streams.
    fn new(sizes: Sizes, weights: Weights, backend: &B) -> Result<Self> {
        let graph = language_model(sizes, &weights)?;
        let mut stepper = Stepper::with_host(&graph, backend, &other_inputs(sizes, &weights, 1))?;
        stepper.streams("B", &[])?;
        Ok(ServedModel { stepper, weights })
    }

    /// Runs a step on one byte per stream. Returns the most likely next byte of each stream.
    fn read(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        let row = features(&self.weights, bytes).context("the weights have no embedding for each byte")?;
        let logits = self.stepper.step_host(&[row])?.remove(0);
        Ok(likeliest(&logits))
    }
}

/// Returns the most likely byte for each row of logits `[rows, 256]`.
fn likeliest(logits: &HostTensor) -> Vec<u8> {
    let best = |row: &[f64]| (0..TOKENS).max_by(|a, b| row[*a].total_cmp(&row[*b])).expect("TOKENS is not 0") as u8;
    logits.to_f64_vec().chunks(TOKENS).map(best).collect()
}

pub(crate) fn generate(model: &Model, prompt: &str, bytes: usize) -> Result<()> {
    let weights = model.trained_weights()?;
    let text = match model.framework {
        Framework::Candle => continue_prompt(ServedModel::new(model.sizes(), weights, &Candle::cpu())?, prompt, bytes)?,
        Framework::Burn => continue_prompt(ServedModel::new(model.sizes(), weights, &Burn::flex())?, prompt, bytes)?,
    };
    println!("{prompt}{}", String::from_utf8_lossy(&text));
    Ok(())
}

fn continue_prompt<B: Backend>(mut served: ServedModel<B>, prompt: &str, bytes: usize) -> Result<Vec<u8>> {
    served.stepper.streams("B", &[None])?;
    let mut next = Vec::new();
    for byte in prompt.bytes() {
        next = served.read(&[byte])?;
    }
    let mut text = Vec::new();
    while text.len() < bytes && !next.is_empty() {
        text.extend(&next);
        next = served.read(&next)?;
    }
    Ok(text)
}

pub(crate) fn serve(model: &Model, bytes: usize, streams: usize) -> Result<()> {
    let weights = model.trained_weights()?;
    let (sender, lines) = channel();
    // The thread ends when the input ends or the receiver is dropped.
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let limits = Limits { bytes, streams: streams.max(1) };
    match model.framework {
        Framework::Candle => answer_all(ServedModel::new(model.sizes(), weights, &Candle::cpu())?, limits, &lines),
        Framework::Burn => answer_all(ServedModel::new(model.sizes(), weights, &Burn::flex())?, limits, &lines),
    }
}

#[derive(Clone, Copy)]
struct Limits {
    /// The maximum length of an answer in bytes.
    bytes: usize,
    /// The maximum number of concurrent streams.
    streams: usize,
}

/// A line that is being answered.
struct Stream {
    /// The number of the line, starting at 1.
    number: usize,
    /// The bytes of the line that the model has yet to read, in reverse order.
    unread: Vec<u8>,
    answer: Vec<u8>,
}

/// Answers lines until the input ends. Before each step, waiting lines join the batch and answered lines leave it.
fn answer_all<B: Backend>(mut served: ServedModel<B>, limits: Limits, lines: &Receiver<String>) -> Result<()> {
    let (mut streams, mut count, mut ended) = (Vec::<Stream>::new(), 0, false);
    let mut out = std::io::stdout().lock();
    while !(ended && streams.is_empty()) {
        // For each stream, its batch index in the previous step, or `None` if the stream joins now.
        let mut places: Vec<Option<usize>> = (0..streams.len()).map(Some).collect();
        while streams.len() < limits.streams && !ended {
            // Wait for a line only if there are no streams.
            let line = match streams.is_empty() {
                true => lines.recv().map_err(|_| TryRecvError::Disconnected),
                false => lines.try_recv(),
            };
            match line {
                Ok(line) => {
                    count += 1;
                    // A newline precedes the line, so that even an empty line has a byte to read.
                    let unread = line.bytes().rev().chain([b'\n']).collect();
                    streams.push(Stream { number: count, unread, answer: Vec::new() });
                    places.push(None);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => ended = true,
            }
        }
        if places.contains(&None) {
            served.stepper.streams("B", &places)?;
        }
        if streams.is_empty() {
            continue;
        }
        let given: Vec<u8> = streams.iter_mut().filter_map(|stream| stream.unread.pop()).collect();
        for (stream, next) in streams.iter_mut().zip(served.read(&given)?) {
            if stream.unread.is_empty() {
                stream.answer.push(next);
                stream.unread.push(next);
            }
        }
        let is_done = |stream: &Stream| stream.answer.len() >= limits.bytes || stream.answer.last() == Some(&b'\n');
        let stay: Vec<Option<usize>> =
            (0..streams.len()).filter(|place| !is_done(&streams[*place])).map(Some).collect();
        if stay.len() < streams.len() {
            served.stepper.streams("B", &stay)?;
            for stream in streams.iter().filter(|stream| is_done(stream)) {
                let answer = stream.answer.strip_suffix(b"\n").unwrap_or(&stream.answer);
                writeln!(out, "{}: {}", stream.number, answer.escape_ascii())?;
            }
            out.flush()?;
            streams.retain(|stream| !is_done(stream));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use funcify::DType;
    use funcify::dispatch::Function;

    use super::*;
    use crate::learner::{Learner, Loop};
    use crate::text::Text;

    /// Checks that both frameworks, with either loop, and the graph compute the same logits for a batch. Also checks
    /// that the stepper predicts the same bytes as the graph.
    #[test]
    fn what_is_served_is_what_was_trained() {
        let sizes = Sizes::TINY;
        let weights = sizes.weights(3).unwrap();
        let batch = Text::of_this_repository().batch(sizes, 0);
        let [rows, steps] = batch.shape;
        let expected = crate::candle::Model::new(sizes, &weights, Loop::Own).unwrap().logits(&batch).unwrap();
        let near = |what: &str, found: &HostTensor| {
            assert_eq!(found.shape(), expected.shape(), "{what}");
            let pairs = found.to_f64_vec().into_iter().zip(expected.to_f64_vec());
            let apart = pairs.map(|(found, expected)| (found - expected).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-5, "{what}: {apart:e}");
        };
        near("candle", &crate::candle::Model::new(sizes, &weights, Loop::Plugin).unwrap().logits(&batch).unwrap());
        near("burn", &crate::burn::Model::new(sizes, &weights, Loop::Plugin).unwrap().logits(&batch).unwrap());
        near("burn's loop", &crate::burn::Model::new(sizes, &weights, Loop::Own).unwrap().logits(&batch).unwrap());

        let graph = language_model(sizes, &weights).unwrap();
        let turned = |step: usize| (0..rows).map(|row| batch.bytes[row * steps + step] as u8).collect::<Vec<u8>>();
        let bytes: Vec<u8> = (0..steps).flat_map(turned).collect();
        let flat = features(&weights, &bytes).unwrap().as_slice::<f32>().unwrap().to_vec();
        let xs = HostTensor::from_vec(flat, [steps, rows, sizes.width]).unwrap();
        let inputs: Vec<HostTensor> = [xs].into_iter().chain(other_inputs(sizes, &weights, rows)).collect();
        let whole = Function::compile(&graph, &Candle::cpu()).unwrap().call_host(&inputs).unwrap().remove(0);
        let of = |at: &[usize]| whole.at(&[at[1], at[0], at[2]]);
        near("the graph", &HostTensor::from_fn(DType::F32, &[rows, steps, TOKENS], of));

        let mut served = ServedModel::new(sizes, weights.clone(), &Burn::flex()).unwrap();
        served.stepper.streams("B", &vec![None; rows]).unwrap();
        for step in 0..steps {
            let next = served.read(&turned(step)).unwrap();
            assert_eq!(next, likeliest(&whole.row(step)), "step {step}");
        }
    }
}
