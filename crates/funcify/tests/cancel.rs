//! Tests the cancellation of every kind of loop, in the reference evaluator and with both loop strategies. Each program
//! contains the op `stopper`. The `n`th run of this op cancels the call, so the tests know in which step the loop must
//! end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use funcify::cancel::Progress;
use funcify::dispatch::{
    Backend, CompileOptions, Compiled, Compiles, Declined, Function, Kernel, LoopStrategy, Reference, WholeRequest,
    evaluate_kernel, tensors_of,
};
use funcify::ops::Scan;
use funcify::prelude::*;
use funcify::rewrite::{Rewrite, RewriteOptions};
use funcify::{Cancellation, VmapOptions, while_loop_bounded};

mod elementwise;
mod forwarded;
#[path = "cancel/stopper.rs"]
mod stopper;
use forwarded::RejectingProgram;
use stopper::{HANDLE, stopper};

const STRATEGIES: [Option<LoopStrategy>; 3] = [None, Some(LoopStrategy::Native), Some(LoopStrategy::Unroll)];

/// Builds a program with one scalar input.
fn program<T: Tree>(program: impl FnOnce(Value) -> T) -> Graph {
    Graph::build("program", |g| program(g.input("x", "f64[]"))).unwrap()
}

/// Compiles a program with the given strategy and runs it, or runs it in the reference evaluator if `strategy` is
/// `None`.
fn run(graph: &Graph, strategy: Option<LoopStrategy>) -> Result<Vec<HostTensor>> {
    let inputs = [HostTensor::scalar(1f64)];
    let Some(strategy) = strategy else { return evaluate(graph, &inputs) };
    let options = CompileOptions { strategy, ..CompileOptions::default() };
    Function::compile_with(graph, &Reference, options)?.call_host(&inputs)
}

/// Runs a program until the `count`th run of its `stopper` cancels the call, and returns the error.
fn run_until_stopped(graph: &Graph, strategy: Option<LoopStrategy>, count: usize) -> Error {
    let handle = Cancellation::new();
    HANDLE.set(Some((handle.clone(), count)));
    let Err(error) = handle.scope(|| run(graph, strategy)) else {
        panic!("{strategy:?}: it was not cancelled:\n{graph}")
    };
    error
}

/// Cancels a program on the fourth run of its `stopper`, with each strategy. Asserts that the error names `op` and
/// reports `steps` steps.
#[track_caller]
fn check(graph: &Graph, strategies: &[Option<LoopStrategy>], op: &str, steps: usize) {
    for strategy in strategies {
        let error = run_until_stopped(graph, *strategy, 4);
        let Error::Cancelled { at, progress, reason, .. } = &error else { panic!("{strategy:?}: {error}") };
        assert_eq!((at.op.as_str(), *progress), (op, Progress::Steps(steps)), "{strategy:?}: {error}");
        assert_eq!(reason, "it was cancelled");
        assert!(error.to_string().contains("tests/cancel.rs"), "it names the line: {error}");
    }
}

#[test]
fn loops_stop_between_steps() {
    check(&program(|x| while_loop(x, |x| x.ge(0.0), stopper)), &STRATEGIES[..2], "while", 4);
    check(&program(|x| while_loop_bounded(9, x, |x| x.ge(0.0), stopper)), &STRATEGIES, "while", 4);
    check(&program(|x| fori_loop(0, 9, x, |_, x| stopper(x))), &STRATEGIES[..2], "scan", 4);
    let counted = program(|x| scan_with(ScanOptions::new().length(9), x, (), |x, ()| (stopper(x), x)));
    check(&counted, &STRATEGIES[..2], "scan", 4);
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
            let error = run_until_stopped(graph, *strategy, 4);
            assert!(
                matches!(&error, Error::Cancelled { at, progress: Progress::Ops(4), .. } if at.op == op),
                "{error}"
            );
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
        let error = run_until_stopped(&graph, *strategy, 8);
        let Error::Cancelled { at, progress: Progress::Steps(2), within, .. } = &error else { panic!("{error}") };
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
        let Error::Cancelled { progress, reason, .. } = &error else { panic!("{error}") };
        assert!(progress.count() > 0 && reason.contains("20ms"), "{error}");
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
        assert!(Cancellation::new().scope(|| run(&graph, None)).is_err(), "the outer scope is still open");
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

/// Differentiation, batching and rewriting can be cancelled too: they check for cancellation before each op.
#[test]
fn derivatives_lanes_and_rewrites_stop() {
    let graph = program(|x| (x * 2.0 + x * 2.0).sin() * 1.0);
    let handle = Cancellation::new();
    handle.cancel();
    let kinds = handle.scope(|| {
        [
            Graph::build("program", |g| g.input("x", "f64[]") * 2.0).err(),
            graph.grad("x", GradOptions::new()).err(),
            graph.jvp("x").err(),
            graph.vmap(2, VmapOptions::new()).err(),
            graph.rewritten_with(&RewriteOptions::new()).err(),
        ]
    });
    for (number, error) in kinds.into_iter().enumerate() {
        assert!(matches!(error, Some(Error::Cancelled { .. })), "{number}: {error:?}");
    }
    // The cancelled calls leave no state behind: the same calls now succeed.
    assert!(!graph.rewritten_with(&RewriteOptions::new()).unwrap().patches.is_empty());
    graph.grad("x", GradOptions::new()).unwrap();
}

/// A backend that compiles loops to code that rejects all operands. It counts the compilations and, if a handle is set,
/// cancels this handle during the compilation.
#[derive(Clone, Default)]
struct Planning(Arc<Mutex<(usize, Option<Cancellation>)>>);

funcify::funcify!(Planning, Scan, native_loop);

impl Backend for Planning {
    tensors_of!(Reference);

    fn name(&self) -> &'static str {
        "planning"
    }

    fn compiles(&self) -> Compiles {
        Compiles::Loops
    }

    fn compile_whole(&self, whole: WholeRequest<'_>) -> Result<Arc<dyn Compiled<Self::Tensor>>, Declined> {
        let mut state = self.0.lock().unwrap();
        state.0 += 1;
        match &state.1 {
            _ if !whole.may_refuse => Err(Declined::new("scan", "it may not refuse")),
            None => Ok(Arc::new(RejectingProgram)),
            Some(handle) => {
                handle.cancel();
                Err(Declined::new("scan", "it was stopped"))
            }
        }
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(evaluate_kernel)
    }
}

/// If a call is cancelled during planning, the plan is not cached, and the next call builds it again.
#[test]
fn a_plan_that_was_stopped_is_made_again() {
    let graph = Graph::build("counted", |g| {
        let [count, x] = [g.input("count", "i64[]"), g.input("x", "f64[]")];
        fori_loop(0, count, x, |_, x| x * 0.5)
    });
    let backend = Planning::default();
    let options = CompileOptions { strategy: LoopStrategy::Compiled, ..CompileOptions::default() };
    let function = Function::compile_with(&graph.unwrap(), &backend, options).unwrap();
    let call = |count: i64| function.call_host(&[HostTensor::scalar(count), HostTensor::scalar(1f64)]);
    let plans = || backend.0.lock().unwrap().0;
    call(2).unwrap();
    let before = plans();

    let handle = Cancellation::new();
    backend.0.lock().unwrap().1 = Some(handle.clone());
    assert!(matches!(handle.scope(|| call(3)), Err(Error::Cancelled { .. })));
    assert_eq!(plans(), before + 1);
    backend.0.lock().unwrap().1 = None;
    assert_eq!(call(3).unwrap()[0].get(0).as_f64(), 0.125);
    assert_eq!(plans(), before + 2);
}
