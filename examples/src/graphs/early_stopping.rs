//! Greedy decoding that stops at the end token: a `while_loop` over a token buffer.

use super::compile;
use anyhow::{Result, ensure};
use funcify::dispatch::Executor;
use funcify::prelude::*;

/// The text that the model has memorised. Each pair of letters in the text determines the letter that follows.
const TEXT: &str = "^control flow.";
/// The maximum number of decoded tokens.
const MAX_TOKENS: usize = 64;

/// Decodes from the first two letters. Checks that no step runs after the end token.
pub(crate) fn show(backend: &dyn Executor) -> Result<()> {
    let mut letters: Vec<char> = TEXT.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    let token = |letter: char| letters.iter().position(|other| *other == letter).expect("a letter of the text") as i64;
    let end = token('.');

    let decode = Graph::build("decode", |g| {
        // The logits of the next token, given the last two tokens.
        let logits = g.input("logits", "f32[V,V,V]");
        let (first, second) = (g.input("first", "i64[]"), g.input("second", "i64[]"));
        let empty = full([MAX_TOKENS], DType::I64, -1.0);
        let start = (empty, constant(0i64), first, second);
        let (tokens, count, _, last) = while_loop(
            start,
            |(_, count, _, last)| last.ne(constant(end)) & count.lt(MAX_TOKENS as i32),
            |(tokens, count, before, last)| {
                let next = logits.dynamic_index(0, before).dynamic_index(0, last).argmax(0);
                (tokens.dynamic_update(0, next.unsqueeze(0), count), count + 1, last, next)
            },
        );
        (tokens, count, last)
    })?;

    let [before, last] = ['^', 'c'].map(|letter| HostTensor::scalar(token(letter)));
    let results = compile(backend, &decode)?.call(&[model(&letters), before, last])?;
    let steps = results[1].get(0).as_i64();
    let decoded: String =
        results[0].scalars().take(steps as usize).map(|token| letters[token.as_i64() as usize]).collect();
    println!("decoded on {}: ^c{decoded}", backend.name());
    println!("{steps} steps of at most {MAX_TOKENS} ran; the last token is the end token");
    ensure!(format!("^c{decoded}") == TEXT, "the model must decode `{TEXT}`");
    ensure!(results[2].get(0).as_i64() == end, "the end token must end the loop");
    ensure!(results[0].scalars().skip(steps as usize).all(|token| token.as_i64() == -1), "nothing may follow it");
    Ok(())
}

/// Returns the logits for each pair of letters. For a pair in the text, the largest logit is that of the letter that
/// follows the pair.
fn model(letters: &[char]) -> HostTensor {
    let text: Vec<char> = TEXT.chars().collect();
    HostTensor::from_fn(DType::F32, &[letters.len(); 3], |index| {
        let context = index.iter().map(|token| letters[*token]);
        let is_in_text = text.windows(3).any(|window| window.iter().copied().eq(context.clone()));
        Scalar::Float(if is_in_text { 5.0 } else { (index[2] % 3) as f64 })
    })
}
