//! A branch on a shape: attention needs a causal mask when it reads a prompt, but not for a single new token.

use super::{check_agreement, compile, noise};
use anyhow::{Result, ensure};
use funcify::dispatch::Executor;
use funcify::prelude::*;

/// Runs one program on a prompt and on the prompt's last token. Checks that the last rows of the two results agree.
pub(crate) fn show(backend: &dyn Executor) -> Result<()> {
    let attention = Graph::build("attention", |g| {
        let q = g.input("q", "f32[T,8]");
        let [k, v] = [g.input("k", "f32[S,8]"), g.input("v", "f32[S,8]")];
        let scores = q.matmul(k.t()) / 8f64.sqrt();
        let several = size(q.dim(0), DType::I64).gt(1);
        let masked = cond(several, || causal(scores), || scores);
        masked.softmax(-1).matmul(v)
    })?;
    println!("{attention}");

    let function = compile(backend, &attention)?;
    let [q, k, v] = [1, 2, 3].map(|seed| noise(&[6, 8], 1.0, seed));
    let prompt = function.call(&[q.clone(), k.clone(), v.clone()])?;
    let last = HostTensor::from_fn(DType::F32, &[1, 8], |index| q.at(&[5, index[1]]));
    let token = function.call(&[last, k, v])?;

    let of_prompt = HostTensor::from_fn(DType::F32, &[1, 8], |index| prompt[0].at(&[5, index[1]]));
    let difference = check_agreement(&token[0], &of_prompt, 1e-6)?;
    println!("a prompt of 6 tokens on {}: {}", backend.name(), prompt[0].ty());
    println!("its last token alone, unmasked: {}, off the prompt's last row by {difference:.1e}", token[0].ty());
    ensure!(prompt[0].to_f64_vec().iter().all(|number| number.is_finite()), "every row should attend to some token");
    Ok(())
}

/// Sets the scores of later positions to minus infinity.
fn causal(scores: Value) -> Value {
    let (rows, columns) = (scores.dim(0), scores.dim(1));
    let row = iota(rows, DType::I64).unsqueeze(1);
    let column = iota(columns, DType::I64).unsqueeze(0);
    select(column.le(row), scores, f64::NEG_INFINITY)
}
