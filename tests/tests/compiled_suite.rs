//! Tests that Candle's CPU and Burn's flex and ndarray compile every loop of the conformance suite, except those in
//! [`FALLIBLE_SIZES`].

use std::collections::BTreeMap;

use funcify::dispatch::{Backend, CompileOptions, Function, LoopStrategy};
use funcify_burn::Burn;
use funcify_candle::Candle;
use funcify_conformance::{FALLIBLE_SIZES, all_cases};

/// Runs every case, and asserts that all its loops are compiled.
fn check<B: Backend>(backend: &B) {
    let (mut compiled, mut fallible, mut declined) = (0, 0, BTreeMap::<String, Vec<String>>::new());
    for case in all_cases().unwrap() {
        let options = CompileOptions { strategy: LoopStrategy::Compiled, ..CompileOptions::default() };
        let Ok(function) = Function::compile_with(&case.graph, backend, options) else { continue };
        if function.call_host(&case.inputs).is_err() {
            continue;
        }
        for each in function.report().loops {
            match each.declined {
                None if each.strategy == LoopStrategy::Compiled => compiled += 1,
                None => declined.entry(format!("{}, not requested", each.op)).or_default().push(case.name.clone()),
                Some(_) if FALLIBLE_SIZES.iter().any(|name| case.name.starts_with(name)) => fallible += 1,
                Some(why) => declined.entry(format!("{}: {why}", each.op)).or_default().push(case.name.clone()),
            }
        }
    }
    let counts: Vec<(usize, &String, &[String])> =
        declined.iter().map(|(why, cases)| (cases.len(), why, &cases[..cases.len().min(6)])).collect();
    assert!(
        compiled > 2000 && fallible < 20 && declined.is_empty(),
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
