//! Tests that Candle's CPU and Burn's flex and ndarray compile every loop of the conformance suite.

use funcify::dispatch::{Backend, CompileOptions, Function, LoopStrategy};
use funcify_burn::Burn;
use funcify_candle::Candle;
use funcify_conformance::{LoopCounts, all_cases};

/// Runs every case, and asserts that all its loops are compiled.
fn check<B: Backend>(backend: &B) {
    let mut all = LoopCounts::default();
    for case in all_cases().unwrap() {
        let options = CompileOptions { strategy: LoopStrategy::Compiled, ..CompileOptions::default() };
        let Ok(function) = Function::compile_with(&case.graph, backend, options) else { continue };
        if function.call_host(&case.inputs).is_err() {
            continue;
        }
        all.add(&case, function.report());
    }
    let LoopCounts { compiled, declined } = all;
    let counts: Vec<(usize, &String, &[String])> =
        declined.iter().map(|(why, cases)| (cases.len(), why, &cases[..cases.len().min(6)])).collect();
    assert!(
        compiled > 2000 && declined.is_empty(),
        "{}: {compiled} are compiled, and not these: {counts:#?}",
        backend.name()
    );
}

#[test]
fn candle() {
    check(&Candle::cpu());
}

#[test]
fn burn_flex() {
    check(&Burn::flex());
}

#[test]
fn burn_ndarray() {
    check(&Burn::ndarray());
}
