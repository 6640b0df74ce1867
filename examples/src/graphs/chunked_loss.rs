//! Cross-entropy over a large vocabulary, computed in chunks of tokens. Only the logits of one chunk exist at a time.

use super::{check_agreement, compile, noise};
use anyhow::{Context, Result, ensure};
use funcify::dispatch::Executor;
use funcify::prelude::*;

const TOKENS: usize = 512;
const WIDTH: usize = 16;
const VOCABULARY: usize = 1000;
const CHUNK: usize = 32;

/// Compares the value and the planned memory of the chunked loss with those of the loss over all tokens at once.
pub(crate) fn show(backend: &dyn Executor) -> Result<()> {
    let whole = Graph::build("whole", |g| {
        let (x, w, target) = inputs(g);
        loss(x, target, w) / TOKENS as f64
    })?;
    let chunked = Graph::build("chunked", |g| {
        let (x, w, target) = inputs(g);
        let chunks = (x.reshape([TOKENS / CHUNK, CHUNK, WIDTH]), target.reshape([TOKENS / CHUNK, CHUNK]));
        let (sum, ()) = scan(constant(0f32), chunks, |sum, (x, target)| (sum + loss(x, target, w), ()));
        sum / TOKENS as f64
    })?;

    let target = HostTensor::from_fn(DType::I64, &[TOKENS], |index| Scalar::Int((index[0] * 37 % VOCABULARY) as i64));
    let arguments = [noise(&[TOKENS, WIDTH], 1.0, 1), noise(&[VOCABULARY, WIDTH], 1.0, 2), target];
    let mut measured = Vec::new();
    for graph in [&whole, &chunked] {
        let function = compile(backend, graph)?;
        let loss = function.call(&arguments)?.remove(0);
        let bytes = function.report().peak_bytes.context("the sizes are known after a call")?;
        let (name, backend, value, kib) = (graph.name(), backend.name(), loss.get(0).as_f64(), bytes / 1024);
        println!("{name:>8} on {backend}: loss {value:.6}, {kib:>5} KiB of tensors at once");
        measured.push((loss, bytes));
    }
    let [(whole, most), (chunked, least)] = &measured[..] else { unreachable!("two programs ran") };
    let difference = check_agreement(whole, chunked, 1e-4)?;
    let times = *most as f64 / *least as f64;
    println!("the losses differ by {difference:.1e}; chunks need {times:.1} times less memory");
    ensure!(*most > 4 * least, "the logits of all tokens should dominate the memory");
    Ok(())
}

/// Adds the inputs to the graph: the embeddings of the tokens, the embedding matrix of the vocabulary, and the target
/// tokens.
fn inputs(g: &Builder) -> (Value, Value, Value) {
    let floats = |rows: usize| TensorType::new(DType::F32, [rows, WIDTH]);
    let target = TensorType::new(DType::I64, [TOKENS]);
    (g.input("x", floats(TOKENS)), g.input("w", floats(VOCABULARY)), g.input("target", target))
}

/// Computes the sum of the cross-entropies of some tokens, from their embeddings `x`, their targets, and the embedding
/// matrix `w` of the vocabulary.
fn loss(x: Value, target: Value, w: Value) -> Value {
    let logits = x.matmul(w.t());
    let of_target = logits.gather(1, target.unsqueeze(1)).squeeze(1);
    (logits.logsumexp(1) - of_target).sum(0)
}
