//! Stopping what runs: every kind of loop, in the reference evaluation and in both strategies. An op of the programs sets
//! the handle when it has run so many times, so each test says after which step its loop ends.

use std::time::{Duration, Instant};

use funcify::cancel::Ran;
use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::{
    Cancellation, Error, Graph, HostTensor, Result, ScanOptions, Tree, Value, associative_scan, cond, evaluate,
    fori_loop, map, scan_until, scan_with, while_loop, while_loop_bounded,
};

#[path = "cancel/stopper.rs"]
mod stopper;
use stopper::{HANDLE, stopper};

const STRATEGIES: [Option<LoopStrategy>; 3] = [None, Some(LoopStrategy::Native), Some(LoopStrategy::Unroll)];

/// A program of a number.
fn program<T: Tree>(program: impl FnOnce(Value) -> T) -> Graph {
    Graph::build("program", |g| program(g.input("x", "f64[]"))).unwrap()
}

/// Runs a program: by the reference evaluation, or as a function.
fn run(graph: &Graph, strategy: Option<LoopStrategy>) -> Result<Vec<HostTensor>> {
    let inputs = [HostTensor::scalar(1f64)];
    let Some(strategy) = strategy else { return evaluate(graph, &inputs) };
    let options = CompileOptions { strategy, ..CompileOptions::default() };
    Function::compile_with(graph, &Reference, options)?.call_host(&inputs)
}

/// Runs a program whose `stopper` sets the handle when it runs for the `count`th time.
fn stopped(graph: &Graph, strategy: Option<LoopStrategy>, count: usize) -> Error {
    let handle = Cancellation::new();
    HANDLE.set(Some((handle.clone(), count)));
    let Err(error) = handle.scope(|| run(graph, strategy)) else {
        panic!("{strategy:?}: it was not stopped:\n{graph}")
    };
    error
}

/// Asserts that a program, stopped when its `stopper` runs for the fourth time, stops in the op `op` after `steps`.
#[track_caller]
fn check(graph: &Graph, strategies: &[Option<LoopStrategy>], op: &str, steps: usize) {
    for strategy in strategies {
        let error = stopped(graph, *strategy, 4);
        let Error::Cancelled { at, ran, reason, .. } = &error else { panic!("{strategy:?}: {error}") };
        assert_eq!((at.op.as_str(), *ran), (op, Ran::Steps(steps)), "{strategy:?}: {error}");
        assert_eq!(reason, "it was cancelled");
        assert!(error.to_string().contains("tests/cancel.rs"), "it names the line: {error}");
    }
}

#[test]
fn loops_stop_between_steps() {
    check(&program(|x| while_loop(x, |x| x.ge(0.0), stopper)), &STRATEGIES[..2], "while", 4);
    check(&program(|x| while_loop_bounded(9, x, |x| x.ge(0.0), stopper)), &STRATEGIES, "while", 4);
    check(&program(|x| fori_loop(0, 9, x, |_, x| stopper(x))), &STRATEGIES[..2], "scan", 4);
    check(
        &program(|x| scan_with(ScanOptions::new().length(9), x, (), |x, ()| (stopper(x), x))),
        &STRATEGIES[..2],
        "scan",
        4,
    );
    check(
        &program(|x| {
            scan_until(x, x.broadcast_to([9]), |x, _| {
                let ends = x.lt(0.0);
                (stopper(x), x, ends)
            })
        }),
        &STRATEGIES[..2],
        "scan",
        4,
    );
    check(&program(|x| map(x.broadcast_to([9]), stopper)), &STRATEGIES[..2], "scan", 4);
}

#[test]
fn a_stop_within_a_step_does_not_count_it() {
    let graph = program(|x| while_loop(x, |x| x.ge(0.0), |x| stopper(x) + 1.0));
    check(&graph, &STRATEGIES[..2], "while", 3);
    let graph = program(|x| while_loop(x, |x| stopper(x).ge(0.0), |x| x + 1.0));
    check(&graph, &STRATEGIES[..2], "while", 3);
}

#[test]
fn a_straight_line_stops_between_ops() {
    let graph = program(|x| scan_with(ScanOptions::new().length(9), x, (), |x, ()| (stopper(x), x)).0);
    for (graph, op, strategies) in [
        (&graph, "stopper", &STRATEGIES[2..]),
        (&program(|x| (0..9).fold(x, |x, _| stopper(x))), "stopper", &STRATEGIES[..]),
    ] {
        for strategy in strategies {
            let error = stopped(graph, *strategy, 4);
            assert!(matches!(&error, Error::Cancelled { at, ran: Ran::Ops(4), .. } if at.op == op), "{error}");
        }
    }
}

#[test]
fn an_associative_scan_stops_between_batches() {
    let graph = program(|x| associative_scan(x.broadcast_to([64]), |a, b| stopper(a) + b));
    check(&graph, &STRATEGIES[..1], "associative_scan", 4);
    check(&graph, &STRATEGIES[1..], "associative_scan", 3);
}

#[test]
fn a_nested_loop_says_in_which_steps_it_was() {
    let graph =
        program(|x| while_loop(x, |x| x.ge(0.0), |x| cond(x.ge(0.0), || fori_loop(0, 3, x, |_, x| stopper(x)), || x)));
    for strategy in &STRATEGIES[..2] {
        let error = stopped(&graph, *strategy, 8);
        let Error::Cancelled { at, ran: Ran::Steps(2), within, .. } = &error else { panic!("{error}") };
        assert_eq!(at.op, "scan");
        assert_eq!(within.len(), 1, "{error}");
        assert!(within[0].starts_with("step 2 of `while` at"), "{error}");
    }
}

#[test]
fn unrolling_stops_too() {
    let graph = program(|x| fori_loop(0, 1 << 19, x, |_, x| x + 1.0));
    let handle = Cancellation::new();
    handle.cancel();
    let error = handle.scope(|| run(&graph, Some(LoopStrategy::Unroll))).unwrap_err();
    assert!(matches!(error, Error::Cancelled { .. }), "{error}");
}

#[test]
fn a_function_runs_again_after_a_stop() {
    let graph = program(|x| fori_loop(0, 9, x, |_, x| stopper(x) + 1.0));
    for strategy in [LoopStrategy::Native, LoopStrategy::Unroll] {
        let options = CompileOptions { strategy, ..CompileOptions::default() };
        let function = Function::compile_with(&graph, &Reference, options).unwrap();
        let handle = Cancellation::new();
        HANDLE.set(Some((handle.clone(), 4)));
        let inputs = [HostTensor::scalar(1f64)];
        assert!(matches!(handle.scope(|| function.call_host(&inputs)), Err(Error::Cancelled { .. })));
        assert_eq!(function.call_host(&inputs).unwrap(), [HostTensor::scalar(10f64)]);
    }
}

#[test]
fn deadlines_end_endless_loops() {
    let graph = program(|x| while_loop(x, |x| x.lt(f64::INFINITY), |x| x * 0.5));
    for strategy in &STRATEGIES[..2] {
        let start = Instant::now();
        let error = Cancellation::after(Duration::from_millis(20)).scope(|| run(&graph, *strategy)).unwrap_err();
        assert!(start.elapsed() >= Duration::from_millis(20));
        let Error::Cancelled { ran, reason, .. } = &error else { panic!("{error}") };
        assert!(ran.count() > 0 && reason.contains("20ms"), "{error}");
    }
    let far = Cancellation::after(Duration::MAX);
    assert!(!far.is_cancelled());
    assert!(far.scope(|| run(&program(|x| x + 1.0), None)).is_ok());
}

#[test]
fn a_handle_is_in_force_in_its_scopes_only() {
    let graph = program(|x| x + 1.0);
    let [outer, inner] = [Cancellation::new(), Cancellation::new()];
    inner.cancel();
    outer.scope(|| {
        assert!(inner.scope(|| run(&graph, None)).is_err());
        assert!(run(&graph, None).is_ok(), "the inner scope has ended");
        outer.cancel();
        assert!(Cancellation::new().scope(|| run(&graph, None)).is_err(), "the outer scope is still there");
        let elsewhere = std::thread::scope(|threads| threads.spawn(|| run(&graph, None).is_ok()).join());
        assert!(elsewhere.unwrap(), "another thread is in no scope");
    });
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let of_flag = Cancellation::from_flag(flag.clone());
    assert!(of_flag.scope(|| run(&graph, None)).is_err());
    flag.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(of_flag.scope(|| run(&graph, None)).is_ok());
    let panics = std::panic::catch_unwind(|| outer.scope(|| panic!("on purpose")));
    assert!(panics.is_err());
    assert!(run(&graph, None).is_ok(), "a scope ends when it panics");
}
