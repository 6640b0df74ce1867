//! Tests the gradients of loops that exit early, compiled with `LoopStrategy::Unroll`. The backward loop runs as many
//! steps as the forward loop did. That number depends on data, but its static maximum is the same for both loops.

use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::prelude::*;
use funcify::{scan_until_with, while_loop_bounded};

/// Compiles a graph with `LoopStrategy::Unroll` and runs it.
fn unrolled(graph: &Graph, inputs: &[HostTensor]) -> Result<Vec<HostTensor>> {
    let options = CompileOptions { strategy: LoopStrategy::Unroll, ..CompileOptions::default() };
    Function::compile_with(graph, &Reference, options)?.call_host(inputs)
}

/// Asserts that the gradient of a loss, and the gradient of that gradient, agree with the reference evaluator when
/// unrolling is forced. Returns the gradient.
#[track_caller]
fn check(loss: Result<Graph>, options: GradOptions, inputs: &[HostTensor]) -> Vec<HostTensor> {
    let loss = loss.unwrap_or_else(|error| panic!("{error}"));
    let gradient = loss.grad("xs", options.clone()).unwrap_or_else(|error| panic!("{error}"));
    let expected = evaluate(&gradient, inputs).unwrap();
    let found = unrolled(&gradient, inputs).unwrap_or_else(|error| panic!("{error}\n{gradient}"));
    assert_eq!(found, expected, "{gradient}");
    let second = gradient.with_only_outputs(&["grad_xs"]).and_then(|first| {
        let total = Graph::build("total", |g| {
            let inputs = (0..first.inputs().len())
                .map(|index| g.input(first.input_name(index), first.input_type(index).clone()));
            first.apply(&inputs.collect::<Vec<Value>>())[0].square().sum(..)
        });
        total?.grad("xs", options)
    });
    let second = second.unwrap_or_else(|error| panic!("{error}"));
    let expected_second = evaluate(&second, inputs).unwrap();
    assert_eq!(unrolled(&second, inputs).unwrap_or_else(|error| panic!("{error}")), expected_second, "{second}");
    expected
}

fn xs() -> HostTensor {
    HostTensor::from([1f64, 1.0, 1.0, 1.0, 1.0, 1.0])
}

/// Builds a loss from a loop that sums the cubes of the rows until the sum exceeds 2.5.
fn first(options: ScanOptions) -> Result<Graph> {
    Graph::build("first", |g| {
        let xs = g.input("xs", "f64[6]");
        let (last, ys) = scan_until_with(options, constant(0.0), xs, |c, x: Value| {
            let next = c + x * x * x;
            (next, next * x, next.gt(2.5))
        });
        last + ys.sum(0)
    })
}

#[test]
fn of_a_loop_that_ends_early() {
    let text = "fn @first(%xs: f64[6]) {
          %zero: f64[] = constant 0.0
          %last: f64[] = scan @body {steps=6, until=$ran} {
            seq %x: f64[] = %xs[t]
            carry %c: f64[] = %last from %zero
            %0: f64[] = add %c, %x
            %1: f64[] = constant 2.5
            %2: bool[] = gt %0, %1
            %last = %0
            until %2
          }
          return y=%last
        }";
    let gradient = Graph::parse(text).unwrap().grad("xs", GradOptions::new()).unwrap();
    assert_eq!(unrolled(&gradient, &[xs()]).unwrap(), [[1f64, 1.0, 1.0, 0.0, 0.0, 0.0].into()]);
    for options in [ScanOptions::new(), ScanOptions::new().reverse(), ScanOptions::new().truncate(2)] {
        check(first(options), GradOptions::new(), &[xs()]);
    }
}

/// Tests a loop with early exit inside the step of another loop, followed by a second loop with early exit.
#[test]
fn of_loops_in_loops() {
    let nest = Graph::build("nest", |g| {
        let xs = g.input("xs", "f64[6]");
        let outer = fori_loop(0, 3, xs, |_, xs| {
            let scale = scan_until_with(ScanOptions::new(), constant(1.0), xs, |c, x: Value| {
                let next = c * (x + 0.25);
                (next, (), next.gt(1.5))
            });
            xs * scale.0.sin()
        });
        let again = scan_until_with(ScanOptions::new(), constant(0.0), outer, |c, x: Value| (c + x * x, x, c.gt(9.0)));
        again.0 + again.1.sum(0)
    });
    check(nest, GradOptions::new(), &[xs()]);
}

#[test]
fn of_a_bounded_conditional_loop() {
    let squares = Graph::build("squares", |g| {
        let xs = g.input("xs", "f64[6]");
        while_loop_bounded(5, xs * 1.5, |x| x.sum(..).lt(100.0), |x| x * x).sum(..)
    });
    check(squares, GradOptions::new(), &[xs()]);
    let counted = Graph::build("counted", |g| {
        let xs = g.input("xs", "f64[6]");
        let start = (xs, constant(0i64));
        let (x, count) = while_loop_bounded(5, start, |(x, _)| x.sum(..).lt(100.0), |(x, n)| (x * 2.0, n + 1));
        // This loop runs `count` steps, a number that depends on data.
        fori_loop(0, count, x, |_, x: Value| x * x.sin()).sum(..)
    });
    check(counted, GradOptions::new(), &[xs()]);
}

/// A loop without a static maximum number of steps cannot be unrolled, and neither can its gradient.
#[test]
fn without_a_largest_count_is_refused() {
    let endless = Graph::build("endless", |g| {
        let xs = g.input("xs", "f64[6]");
        while_loop(xs, |x| x.sum(..).lt(100.0), |x| x * 2.0).sum(..)
    });
    let by_data = Graph::build("by_data", |g| {
        let (xs, n) = (g.input("xs", "f64[6]"), g.input("n", "i64[]"));
        let summed = while_loop_bounded(3, (xs, n), |(x, _)| x.sum(..).lt(100.0), |(x, n)| (x * 2.0, n + 1));
        fori_loop(0, summed.1, summed.0, |_, x: Value| x * x).sum(..)
    });
    let by_row = Graph::build("by_row", |g| {
        let (xs, n) = (g.input("xs", "f64[6]"), g.input("n", "i64[3]"));
        let (x, count) =
            scan_with(ScanOptions::new(), (xs, constant(0i64)), n, |(x, k), n: Value| ((x * 1.5, k + n), ())).0;
        fori_loop(0, count, x, |_, x: Value| x * x).sum(..)
    });
    let inputs = [xs(), HostTensor::scalar(1i64)];
    let rows = [xs(), HostTensor::from([1i64, 0, 1])];
    for (graph, inputs) in [(endless, &inputs[..1]), (by_data, &inputs[..]), (by_row, &rows[..])] {
        let graph = graph.unwrap_or_else(|error| panic!("{error}"));
        for graph in [graph.grad("xs", GradOptions::new()).unwrap(), graph] {
            let error = unrolled(&graph, inputs).expect_err("it is rejected");
            assert!(matches!(error, Error::StepCountNotStatic { .. }), "{error}");
        }
    }
}
