//! A diagonal state space layer (S5), written as a scan and as an associative scan of logarithmic depth.

use super::{check_agreement, compile, noise};
use anyhow::{Result, ensure};
use funcify::dispatch::Executor;
use funcify::prelude::*;

/// Runs both forms of the layer on a sequence and checks that they agree.
pub(crate) fn show(backend: &dyn Executor) -> Result<()> {
    let layer = |name: &str, states: fn(Value, Value) -> Value| {
        Graph::build(name, |g| {
            let u = g.input("u", "f32[T,2]");
            let rate = g.input("rate", "f32[8]");
            let (b, c, d) = (g.input("b", "f32[2,8]"), g.input("c", "f32[8,2]"), g.input("d", "f32[2]"));
            // Each state has a decay between 0 and 1.
            let decay = (-rate.exp()).exp();
            states(decay, u.matmul(b)).matmul(c) + d * u
        })
    };
    let sequential = layer("sequential", |decay, driven| {
        scan(decay.zeros_like(), driven, |x, v| {
            let x = decay * x + v;
            (x, x)
        })
        .1
    })?;
    let parallel = layer("parallel", |decay, driven| {
        let decays = decay.broadcast_to(driven.shape());
        // Applying (a1, b1) and then (a2, b2) to x gives a2 (a1 x + b1) + b2.
        associative_scan((decays, driven), |(a1, b1), (a2, b2)| (a2 * a1, a2 * b1 + b2)).1
    })?;
    println!("{parallel}");

    let noise = |shape: &[usize], seed| noise(shape, 1.0, seed);
    let inputs = [noise(&[1000, 2], 1), noise(&[8], 2), noise(&[2, 8], 3), noise(&[8, 2], 4), noise(&[2], 5)];
    let mut results = Vec::new();
    for graph in [&sequential, &parallel] {
        let function = compile(backend, graph)?;
        results.push(function.call(&inputs)?.remove(0));
        println!("{:>10} on {}: {} instructions", graph.name(), backend.name(), function.report().instructions);
    }
    let difference = check_agreement(&results[0], &results[1], 1e-4)?;
    println!("1000 sequential steps and about 20 levels of halves differ by {difference:.1e}");
    ensure!(results[0].to_f64_vec().iter().any(|number| number.abs() > 0.1), "the outputs should not vanish");
    Ok(())
}
