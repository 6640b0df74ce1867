//! A character-level model that learns addition from text such as `12+7=19` and then answers sums that it has never
//! seen.
//!
//! An LSTM (Hochreiter and Schmidhuber 1997) reads windows of a stream of sums, and learns to predict the letters of
//! each answer, including the end of the line. Zaremba and Sutskever, Learning to Execute (arXiv:1410.4615), show that
//! such a network learns to add. The stream omits some pairs of numbers, and the model is asked for their sums after
//! training. A graph computes the answers: a scan reads the prompt, and a `while_loop` then generates letters until the
//! line ends.

mod burn;
mod candle;

use std::cell::OnceCell;

use anyhow::{Result, ensure};
use funcify::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::training::{Loop, Schedule, Training, train};
use crate::{Framework, Run};

/// The alphabet. A token is the index of a letter in this string.
const LETTERS: &str = "0123456789+=\n";
/// The token that ends a line.
const END: u32 = LETTERS.len() as u32 - 1;
/// The maximum number of letters in an answer.
const MAX_LETTERS: usize = 12;
/// The number of features per letter.
const FEATURES: usize = 16;

#[derive(Clone, Copy)]
struct Sizes {
    /// The exclusive upper bound of the numbers to add.
    numbers: usize,
    batch: usize,
    /// The number of letters per window.
    letters: usize,
    hidden: usize,
}

/// Two numbers to add.
#[derive(Clone, Copy)]
struct Sum(usize, usize);

impl Sum {
    fn prompt(self) -> String {
        format!("{}+{}=", self.0, self.1)
    }

    fn answer(self) -> String {
        format!("{}\n", self.0 + self.1)
    }
}

fn tokens(text: &str) -> Vec<u32> {
    text.chars().filter_map(|letter| LETTERS.find(letter)).map(|token| token as u32).collect()
}

fn text(tokens: &[u32]) -> String {
    tokens.iter().filter_map(|token| LETTERS.chars().nth(*token as usize)).collect()
}

/// A stream of sums from which windows are drawn.
struct Stream {
    sizes: Sizes,
    sums: Vec<Sum>,
    /// The sums that never occur in the stream.
    held_out: Vec<Sum>,
    random: StdRng,
}

/// A batch of windows of letters, with the letters to predict.
struct Batch {
    /// The letters of the windows, `[batch, letters]`.
    tokens: Vec<u32>,
    /// For each letter of an answer, the position of the preceding letter in the concatenated windows.
    before: Vec<u32>,
    /// The tokens to predict: the letters of the answers.
    answers: Vec<u32>,
}

impl Stream {
    fn new(sizes: Sizes) -> Self {
        let numbers = || 0..sizes.numbers;
        let mut sums: Vec<Sum> = numbers().flat_map(|left| numbers().map(move |right| Sum(left, right))).collect();
        let mut random = StdRng::seed_from_u64(7);
        sums.shuffle(&mut random);
        let held_out = sums.split_off(sums.len() - sums.len() / 10);
        Stream { sizes, sums, held_out, random }
    }

    /// Draws a batch of windows, each of which starts at the beginning of a sum. The last sum of a window may be cut
    /// off.
    fn batch(&mut self) -> Batch {
        let mut batch = Batch { tokens: Vec::new(), before: Vec::new(), answers: Vec::new() };
        for end in (1..=self.sizes.batch).map(|row| row * self.sizes.letters) {
            while batch.tokens.len() < end {
                let sum = self.sums[self.random.random_range(0..self.sums.len())];
                batch.tokens.extend(tokens(&sum.prompt()));
                for token in tokens(&sum.answer()) {
                    if batch.tokens.len() <= end {
                        batch.before.push(batch.tokens.len() as u32 - 1);
                        batch.answers.push(token);
                    }
                    batch.tokens.push(token);
                }
            }
            batch.tokens.truncate(end);
        }
        batch
    }

    /// Returns the lowest possible loss of a model that sees only the previous letter: the conditional entropy of the
    /// next letter.
    fn loss_without_state(&self) -> f64 {
        let mut counts = [[0.0; LETTERS.len()]; LETTERS.len()];
        for sum in &self.sums {
            let line = tokens(&(sum.prompt() + &sum.answer()));
            for pair in line[sum.prompt().len() - 1..].windows(2) {
                counts[pair[0] as usize][pair[1] as usize] += 1.0;
            }
        }
        let of_letter = |next: &[f64; LETTERS.len()]| {
            let total: f64 = next.iter().sum();
            next.iter().filter(|count| **count > 0.0).map(|count| count * (total / count).ln()).sum::<f64>()
        };
        counts.iter().map(of_letter).sum::<f64>() / counts.iter().flatten().sum::<f64>()
    }
}

/// Builds the graph that computes answers. `step` is the graph of one step, `(weights .., token [1], h, c) -> (logits
/// [1,V], h, c)`.
///
/// The inputs of the returned graph are the weights and a prompt `[P]`. The outputs are the tokens, `i64[MAX_LETTERS]`,
/// and `count`. The first `count` tokens are the answer.
fn answer_graph(step: &Graph) -> funcify::Result<Graph> {
    let count = step.inputs().len() - 3;
    let token = step.input_type(count);
    Graph::build("answer", |g| {
        let weights: Vec<Value> =
            (0..count).map(|index| g.input(step.input_name(index), step.input_type(index))).collect();
        let prompt = g.input("prompt", token.with_shape(["P"]));
        let next = |token: Value, [h, c]: [Value; 2]| {
            let results = step.apply(&[&weights[..], &[token, h, c]].concat());
            (results[0].argmax(1), [results[1], results[2]])
        };
        let start = [1, 2].map(|index| {
            let state = step.input_type(count + index);
            full(state.shape.clone(), state.dtype, 0.0)
        });
        // The scan omits the last letter of the prompt, because the first step of the `while_loop` reads it.
        let (states, ()) = scan(start, prompt.slice(0, ..-1), |states, token| (next(token.unsqueeze(0), states).1, ()));
        let empty = full([MAX_LETTERS], DType::I64, -1.0);
        let (tokens, count, ..) = while_loop(
            (empty, constant(0i64), prompt.slice(0, -1..), states),
            |(_, count, last, _)| count.lt(MAX_LETTERS as i32) & last.index(0, 0).ne(END as i32),
            |(tokens, count, last, states)| {
                let (next, states) = next(last, states);
                (tokens.dynamic_update(0, next, count), count + 1, next.cast(token.dtype), states)
            },
        );
        (tokens, count)
    })
}

/// The results of the graph that computes answers.
struct Answer {
    /// The tokens, `[MAX_LETTERS]`, which are -1 after the end of the answer.
    tokens: Vec<i64>,
    count: i64,
}

/// The interface of the model, which is implemented once for each framework.
trait Calculator: Training {
    type State;

    /// Returns a function that answers a prompt by running the graph with the current weights.
    fn answer_function(&self) -> Result<impl Fn(&[u32]) -> Result<Answer>>;

    /// Runs one step with the framework's own ops, from a state of zeros if `state` is `None`. Returns the most likely
    /// next token, and the new state.
    fn read(&self, token: u32, state: Option<Self::State>) -> Result<(u32, Self::State)>;
}

/// Answers a prompt with a Rust loop that calls [`Calculator::read`] for each token.
fn answer_by_hand<M: Calculator>(model: &M, prompt: &[u32]) -> Result<Vec<u32>> {
    let (mut state, mut next) = (None, END);
    for token in prompt {
        let (likeliest, after) = model.read(*token, state)?;
        (next, state) = (likeliest, Some(after));
    }
    let mut answer = vec![next];
    while next != END && answer.len() < MAX_LETTERS {
        let (likeliest, after) = model.read(next, state)?;
        (next, state) = (likeliest, Some(after));
        answer.push(next);
    }
    Ok(answer)
}

pub(crate) fn run(run: &Run) -> Result<()> {
    match &run.framework {
        Framework::Candle(device) => learn(run, |sizes, whose| candle::Model::new(sizes, whose, device)),
        Framework::Burn(device) => {
            let reader = OnceCell::new();
            learn(run, |sizes, whose| {
                let reader = reader.get_or_init(|| burn::Reader::new(sizes, device));
                Ok(burn::Model::new(reader.clone(), sizes, whose, device))
            })
        }
    }
}

fn learn<M: Calculator>(run: &Run, model: impl Fn(Sizes, Loop) -> Result<M>) -> Result<()> {
    let quick = Sizes { numbers: 10, batch: 32, letters: 12, hidden: 64 };
    let sizes = run.quick_or_full(quick, Sizes { numbers: 100, batch: 16, letters: 256, hidden: 128 });
    let schedule = Schedule { steps: run.quick_or_full(60, 1000), rate: run.quick_or_full(4e-2, 2e-2) };
    let Some((model, losses)) = train(run, schedule, |whose| model(sizes, whose))? else { return Ok(()) };

    let stream = Stream::new(sizes);
    let (last, without_state) = (losses[losses.len() - 10..].iter().sum::<f64>() / 10.0, stream.loss_without_state());
    println!("  the loss of the last steps is {last:.3}; without a memory it is {without_state:.3} at best");
    ensure!(last < 0.7 * without_state, "the model hardly uses its memory");

    let asked = &stream.held_out[..stream.held_out.len().min(200)];
    let right = count_right_answers(&model, asked)?;
    ensure!(run.quick || right * 10 >= asked.len() * 9, "fewer than nine of ten answers are right");
    Ok(())
}

/// Asks the model for the answers to these sums, checks that [`answer_by_hand`] gives the same answers, and returns the
/// number of correct ones.
fn count_right_answers<M: Calculator>(model: &M, sums: &[Sum]) -> Result<usize> {
    println!("  held-out sums:");
    let answer_prompt = model.answer_function()?;
    let (mut right, mut steps) = (0, 0);
    for (index, sum) in sums.iter().enumerate() {
        let (prompt, expected) = (sum.prompt(), sum.answer());
        let generated = answer_prompt(&tokens(&prompt))?;
        let (answer, rest) = generated.tokens.split_at(generated.count as usize);
        let answer: Vec<u32> = answer.iter().map(|token| *token as u32).collect();
        ensure!(answer == answer_by_hand(model, &tokens(&prompt))?, "the framework's own steps differ");
        let end = answer.iter().position(|token| *token == END).map_or(MAX_LETTERS, |end| end + 1);
        ensure!(answer.len() == end, "the loop must stop at the end of the line: {answer:?}");
        ensure!(rest.iter().all(|token| *token == -1), "nothing may follow it: {rest:?}");
        let answer = text(&answer);
        if index < 8 {
            let mark = if answer == expected { "right".into() } else { format!("wrong, expected {expected}") };
            println!("    {:<10} {}", format!("{prompt}{}", answer.trim_end()), mark.trim_end());
        }
        right += usize::from(answer == expected);
        steps += answer.len();
    }
    println!("  right: {right} of {}; the loop ran {steps} steps of at most {}", sums.len(), sums.len() * MAX_LETTERS);
    ensure!(steps < sums.len() * MAX_LETTERS / 2, "answers should end early");
    Ok(right)
}
