//! Runs the conformance suite on the `cpu` backend. Asserts that every case passes, whether or not the planner compiles
//! it.

use std::sync::Arc;

use funcify::Error;
use funcify::dispatch::{CompileOptions, Executor, Function, LoopStrategy};
use funcify_conformance::{Case, Expectations, LoopCounts, Status, Subject, all_cases, run_case};
use funcify_cpu::{Cpu, proof_counts, proof_gaps, prove_thoroughly};

#[test]
fn every_case_passes_compiled() {
    passes(Cpu::default(), all_cases().unwrap());
}

/// Runs the cases in reverse order. The test above builds the same plans in the original order, possibly at the same
/// time, so each test can reuse the proofs that the other one has cached.
#[cfg(feature = "jit")]
#[test]
fn every_case_passes_as_machine_code() {
    passes(Cpu::translating_all(), all_cases().unwrap().into_iter().rev().collect());
}

#[test]
fn every_case_passes_in_parts() {
    passes(Cpu::dividing_all(), all_cases().unwrap());
}

/// The cases in which the reference evaluator may compute ops: a branch with a tensor of 2^80 elements, which no call
/// takes. Plans store half-precision numbers as f32, so they can neither find their neighbours nor round each sum of a
/// `scatter`.
fn may_be_evaluated(case: &str) -> bool {
    let has = |part: &str| case.contains(part);
    has("huge_branch_that_is_not_taken") || (has("f16") && (has("nextafter") || has("scatter")))
}

fn passes(cpu: Cpu, cases: Vec<Case>) {
    prove_thoroughly();
    let executor: Arc<dyn Executor> = Arc::new(cpu);
    let subject = Subject { name: "cpu".into(), executor: Ok(executor), expectations: Expectations::default() };
    let mut failed = Vec::new();
    for case in cases {
        let row = run_case(&case, &subject, LoopStrategy::Compiled);
        if row.status != Status::Pass {
            failed.push(format!("{}: {}", row.case, row.reason.lines().take(3).collect::<Vec<_>>().join(" | ")));
        }
    }
    assert!(failed.is_empty(), "{} cases fail:\n{}", failed.len(), failed.join("\n"));
    if cfg!(debug_assertions) {
        all_are_checked();
    }
}

/// Asserts that every plan that this process built was proved or validated on random inputs, that no plan was faulty,
/// and that more than 99% of the provable plans were proved.
fn all_are_checked() {
    let (counts, gaps) = (proof_counts(), proof_gaps());
    println!("plans: {counts:?}; not checked: {gaps:?}");
    let all = counts.proved + counts.up_to_rounding + counts.validated;
    assert_eq!(counts.failed, 0, "{counts:?}");
    assert_eq!(counts.unchecked, 0, "{gaps:?}");
    let (provable, proved) = (all - counts.with_evaluated_ops, counts.proved + counts.up_to_rounding);
    assert!(all > 1000 && proved * 100 > provable * 99, "{counts:?}");
}

/// Asserts that every loop of every case is compiled, that the reference evaluator computes no op, and that no case fails
/// with an internal error, which would be a bug in the planner. With `FUNCIFY_SHOW=1`, also prints the number of loops.
#[test]
fn every_loop_is_compiled() {
    prove_thoroughly();
    let (mut counts, mut faults, mut evaluated) = (LoopCounts::default(), Vec::new(), Vec::new());
    for case in all_cases().unwrap() {
        let options = CompileOptions { strategy: LoopStrategy::Compiled, ..CompileOptions::default() };
        let Ok(function) = Function::compile_with(&case.graph, &Cpu::default(), options) else { continue };
        match function.call_host(&case.inputs) {
            Ok(_) => {}
            Err(error @ Error::Internal { .. }) => faults.push(format!("{}: {error}", case.name)),
            Err(_) => continue,
        }
        let report = function.report();
        evaluated.extend((!report.fallback.is_empty()).then(|| case.name.clone()));
        counts.add(&case, report);
    }
    let LoopCounts { compiled, declined } = counts;
    if std::env::var_os("FUNCIFY_SHOW").is_some() {
        let mut sorted: Vec<_> = declined.iter().collect();
        sorted.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
        println!("{compiled} loops compiled");
        for (why, cases) in sorted {
            let shown: Vec<&str> = cases.iter().step_by(cases.len().div_ceil(16)).map(String::as_str).collect();
            println!("{:6} {why}: {}", cases.len(), shown.join(", "));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(evaluated.iter().all(|case| may_be_evaluated(case)), "{evaluated:#?}");
    assert!(compiled > 2000 && declined.is_empty(), "{compiled} are compiled, and not these: {declined:#?}");
}
