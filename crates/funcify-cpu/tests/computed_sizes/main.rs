//! Tests programs whose steps compute sizes, loops that end early, carries with two registers, and loops that are compiled
//! at run time. Each test looks for one fault of a planner. Every program runs in five configurations, several times with
//! the same function, and must agree with the reference evaluator: the same results within 1e-5, or an error of the same
//! kind.

mod carries;
mod control;
mod derivatives;
mod errors;
mod steps;
mod symbols;

use std::panic::{AssertUnwindSafe, catch_unwind};

use funcify::dispatch::{CompileOptions, Function, LoopStrategy};
use funcify::{DType, Graph, HostTensor, Scalar, ScanOptions, Value, bind_size, evaluate};
use funcify_cpu::Cpu;

/// Returns floats between -1 and 1.
fn numbers(shape: &[usize]) -> HostTensor {
    HostTensor::from_fn(DType::F32, shape, |index| {
        let number = index.iter().fold(3, |sum, index| sum * 31 + index * 7 + 3) % 97;
        Scalar::Float(number as f64 / 48.0 - 1.0)
    })
}

fn ints(numbers: &[i64]) -> HostTensor {
    HostTensor::from_vec(numbers.to_vec(), [numbers.len()]).unwrap()
}

fn floats(numbers: &[f32]) -> HostTensor {
    HostTensor::from_vec(numbers.to_vec(), [numbers.len()]).unwrap()
}

fn one(number: f32) -> HostTensor {
    HostTensor::scalar(number)
}

/// Returns options for a loop of as many steps as `number` says.
fn sized(number: Value) -> ScanOptions {
    ScanOptions::new().length(bind_size(number))
}

fn configurations() -> Vec<(&'static str, Cpu, CompileOptions)> {
    let options = |strategy: LoopStrategy, is_rewritten: bool| {
        let mut options = CompileOptions { strategy, ..CompileOptions::default() };
        if !is_rewritten {
            options.rewrites = None;
        }
        options
    };
    vec![
        ("auto", Cpu::default(), options(LoopStrategy::Auto, true)),
        ("compiled", Cpu::default(), options(LoopStrategy::Compiled, true)),
        ("compiled, not rewritten", Cpu::default(), options(LoopStrategy::Compiled, false)),
        ("dividing", Cpu::dividing_all(), options(LoopStrategy::Auto, true)),
        ("dividing, compiled, not rewritten", Cpu::dividing_all(), options(LoopStrategy::Compiled, false)),
    ]
}

/// Describes the first difference between results, or returns `None` if they agree within a relative tolerance of 1e-5.
fn difference(found: &[HostTensor], expected: &[HostTensor]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} results instead of {}", found.len(), expected.len()));
    }
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        if found.shape() != expected.shape() || found.dtype() != expected.dtype() {
            return Some(format!(
                "result {index}: {} {:?} instead of {} {:?}",
                found.dtype(),
                found.shape(),
                expected.dtype(),
                expected.shape()
            ));
        }
        if !expected.dtype().is_float() {
            if found != expected {
                return Some(format!("result {index}: {found:?} instead of {expected:?}"));
            }
            continue;
        }
        for (position, (x, y)) in found.to_f64_vec().into_iter().zip(expected.to_f64_vec()).enumerate() {
            let is_same = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-5 * y.abs().max(1.0);
            if !is_same {
                return Some(format!("result {index}, element {position}: {x} instead of {y}"));
            }
        }
    }
    None
}

/// Calls a program in each configuration with all inputs, one after the other, and returns what differs from the
/// reference evaluator.
fn failures(graph: &Graph, calls: &[Vec<HostTensor>]) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, cpu, options) in configurations() {
        let compiled = catch_unwind(AssertUnwindSafe(|| Function::compile_with(graph, &cpu, options)));
        let function = match compiled {
            Ok(Ok(function)) => function,
            Ok(Err(error)) => {
                failures.push(format!("[{name}] compilation fails: {error}"));
                continue;
            }
            Err(_) => {
                failures.push(format!("[{name}] compilation panics"));
                continue;
            }
        };
        for (index, inputs) in calls.iter().enumerate() {
            let expected = evaluate(graph, inputs);
            let Ok(found) = catch_unwind(AssertUnwindSafe(|| function.call_host(inputs))) else {
                failures.push(format!("[{name}] call {index} panics"));
                continue;
            };
            let failure = match (expected, found) {
                (Ok(expected), Ok(found)) => difference(&found, &expected),
                (Ok(_), Err(error)) => Some(format!("an error instead of a result: {error}")),
                (Err(error), Ok(found)) => {
                    let found: Vec<_> = found.iter().map(HostTensor::to_f64_vec).collect();
                    Some(format!("{found:?} instead of an error of kind {}: {error}", error.kind()))
                }
                (Err(expected), Err(found)) => (expected.kind() != found.kind())
                    .then(|| format!("an error of kind {} instead of {}: {found}", found.kind(), expected.kind())),
            };
            if let Some(failure) = failure {
                failures.push(format!("[{name}] call {index}: {failure}\n{}", function.report()));
            }
        }
    }
    failures
}

#[track_caller]
fn check(graph: &Graph, calls: &[Vec<HostTensor>]) {
    let failures = failures(graph, calls);
    assert!(failures.is_empty(), "{} failures\n\n{}\n\n{graph}", failures.len(), failures.join("\n\n"));
}

/// Calls [`check`], and asserts that all loops of the program are compiled for the sizes of each call.
#[track_caller]
fn check_compiled(graph: &Graph, calls: &[Vec<HostTensor>]) {
    check(graph, calls);
    let options = CompileOptions { strategy: LoopStrategy::Compiled, ..CompileOptions::default() };
    for inputs in calls {
        let function = Function::compile_with(graph, &Cpu::default(), options.clone()).unwrap();
        // The call may fail, but only after the program is compiled for its sizes.
        let outcome = function.call_host(inputs).map(drop);
        let report = function.report();
        let is_compiled = |strategy: LoopStrategy| strategy == LoopStrategy::Compiled;
        let are_compiled = report.loops.iter().all(|each| is_compiled(each.strategy));
        assert!(!report.loops.is_empty() && are_compiled, "{outcome:?}\n{report}");
    }
}

#[track_caller]
fn built(graph: funcify::Result<Graph>) -> Graph {
    graph.unwrap_or_else(|error| panic!("{error}"))
}

/// Runs all parts of a test, also if one of them fails.
#[track_caller]
fn all_of(parts: &[fn()]) {
    let failed: Vec<usize> = (0..parts.len()).filter(|part| catch_unwind(parts[*part]).is_err()).collect();
    assert!(failed.is_empty(), "the parts {failed:?} fail: see above");
}
