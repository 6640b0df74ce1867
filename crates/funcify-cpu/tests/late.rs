//! Tests loops that are compiled only at run time, because their number of steps or rows depends on the values of
//! inputs, because they end early, or because they have integer operands.

mod numbers;

use funcify::dispatch::{Function, LoopStrategy};
use funcify::prelude::*;
use funcify::scan_until_with;
use funcify_cpu::Cpu;
use numbers::{assert_near, numbers};

/// Calls a program once for each count, with the count and `x` as inputs. Returns the number of profiling events in
/// each call. A compiled loop records a single event, and a loop that runs step by step records one per step.
fn events(graph: &Graph, x: &HostTensor, counts: &[i64]) -> Vec<usize> {
    let function = Function::compile(graph, &Cpu::default()).unwrap();
    let events = counts.iter().map(|count| {
        let inputs = [HostTensor::scalar(*count), x.clone()];
        let expected = funcify::evaluate(graph, &inputs).unwrap();
        let (found, profile) = function.profile_host(&inputs).unwrap();
        assert_near(&found, &expected, 1e-5, &format!("{count} steps"));
        profile.events.len()
    });
    let events = events.collect();
    let report = function.report();
    let is_compiled = |each: &funcify::dispatch::LoopReport| each.strategy == LoopStrategy::Compiled;
    assert!(report.loops.iter().all(is_compiled), "{report}");
    events
}

/// Builds a loop whose number of steps is known only at run time. The loop has one carry.
fn counted(steps: Value, start: Value, step: impl Fn(Value) -> Value) -> Value {
    let mut loop_ = Recurrence::new();
    loop_.steps_value(steps);
    let state = loop_.carry(start);
    let done = loop_.run(|body| {
        let next = step(body.read(&state));
        body.write(&state, next);
    });
    done.last(&state)
}

/// The loop is compiled for every number of steps that a call needs.
#[test]
fn a_loop_whose_steps_follow_from_values_is_compiled_when_it_runs() {
    let graph = Graph::build("counted", |g| {
        let [n, x] = [g.input("n", "i64[]"), g.input("x", "f32[3]")];
        let rate = x.square().sum(0) * 0.1;
        counted(n, x, |x| (x * 0.9 + rate).tanh())
    });
    let x = numbers(&[3], 5);
    let events = events(&graph.unwrap(), &x, &[100, 5, 5, 0, 0, 5, 100, 6]);
    assert_eq!(events, [events[0]; 8]);
}

/// The results of a function are bit-identical, regardless of the sizes in earlier calls.
#[test]
fn a_repeated_call_gives_the_same_bits() {
    let taking_integers = Graph::build("integers", |g| {
        let (n, xs) = (g.input("n", "i64[]"), g.input("xs", "f32[20,3]"));
        let step = |(n, sum): (Value, Value), x: Value| ((n + 1, sum * 0.37 + x * n.cast(DType::F32)), ());
        scan((n, xs.index(0, 0)), xs, step).0.1
    });
    let counted = Graph::build("counted", |g| {
        let (n, xs) = (g.input("n", "i64[]"), g.input("xs", "f32[20,3]"));
        counted(n, xs, |x| x * 0.37 + (x * 1.7).sin() * 0.61)
    });
    let ending = Graph::build("ending", |g| {
        let (n, xs) = (g.input("n", "i64[]"), g.input("xs", "f32[20,3]"));
        let step = |(ran, sum): (Value, Value), x: Value| {
            let next = sum * 0.37 + x * 1.7;
            ((ran + 1, next), next, (ran + 1).ge(n))
        };
        let ((_, last), sums) = scan_until_with(ScanOptions::new(), (constant(0i64), xs.index(0, 0)), xs, step);
        (last, sums)
    });
    let xs = HostTensor::from_fn(DType::F32, &[20, 3], |at| {
        funcify::Scalar::Float(((7 * at[0] + 3 * at[1]) % 11) as f64 * 0.137 - 0.6)
    });
    for graph in [taking_integers, counted, ending] {
        let graph = graph.unwrap();
        let of = |function: &Function<Cpu>, n: i64| {
            let results = function.call_host(&[HostTensor::scalar(n), xs.clone()]).unwrap();
            results.iter().flat_map(HostTensor::to_f64_vec).map(f64::to_bits).collect::<Vec<_>>()
        };
        let function = Function::compile(&graph, &Cpu::default()).unwrap();
        // Call the function with more sizes than the cache holds, and then again with each of these sizes.
        let first: Vec<_> = (0..80).map(|n| of(&function, n)).collect();
        for (n, first) in first.iter().enumerate() {
            assert_eq!(of(&function, n as i64), *first, "{} of {n}", graph.name());
            assert_eq!(of(&function, n as i64), *first, "{} of {n}", graph.name());
        }
        let fresh = Function::compile(&graph, &Cpu::default()).unwrap();
        assert_eq!(of(&fresh, 5), first[5], "{}", graph.name());
    }
}

/// Traces contain the rows of the steps that ran, after any initial rows, in forward and in reverse loops. The program
/// also uses the number of steps that ran.
#[test]
fn a_loop_that_ends_early_is_compiled_when_it_runs() {
    for (reverse, limit) in [(false, 100), (true, 100), (false, 3), (true, 3)] {
        let graph = Graph::build("early", |g| {
            let [n, x] = [g.input("n", "i64[]"), g.input("x", "f32[3]")];
            let options = if reverse { ScanOptions::new().reverse() } else { ScanOptions::new() };
            let step = |(ran, state): (Value, Value), t: Value| {
                let next = (state * 0.9 + t * 0.01).tanh();
                ((ran + 1, next), (next, state.sum(0)), (ran + 1).ge(n))
            };
            let times = iota(limit, DType::F32);
            let ((ran, last), (states, sums)) = scan_until_with(options, (constant(0i64), x), times, step);
            (ran, last, states, sums, size(sums.dim(0), DType::I64) * 2)
        });
        let x = numbers(&[3], 8);
        let events = events(&graph.unwrap(), &x, &[5, 1, 100, 30, 100, 5]);
        assert_eq!(events, [events[0]; 6]);
    }
    let fibonacci = Graph::build("fibonacci", |g| {
        let [n, x] = [g.input("n", "i64[]"), g.input("x", "f32[3]")];
        let mut loop_ = Recurrence::new();
        loop_.steps(80);
        let state = loop_.mit_sot(stack(&[x, x * 0.5], 0), [-2, -1]);
        let done = loop_.run(|body| {
            let [before, last] = body.read(&state);
            let next = before * 0.5 + last * 0.7;
            body.write(&state, next);
            body.until(next.square().sum(0).lt(1.0 / n.cast(DType::F32)));
        });
        (done.trace(&state), done.trace_with_init(&state), done.steps())
    });
    let events = events(&fibonacci.unwrap(), &numbers(&[3], 9), &[10, 1000, 1]);
    assert_eq!(events, [events[0]; 3]);
}

/// A loop is compiled whether or not floats represent its integers exactly.
#[test]
fn loops_take_integers_that_floats_hold() {
    let masked = Graph::build("masked", |g| {
        let [length, x] = [g.input("n", "i64[]"), g.input("x", "f32[3]")];
        let step = |state: Value, t: Value| {
            let next = (state * 0.9 + 0.1).tanh();
            (select(t.lt(length), next, state), (t - length) % 7)
        };
        scan(x, iota(100, DType::I64), step)
    });
    let below = events(&masked.unwrap(), &numbers(&[3], 10), &[40, -40, 8_000_000, 9_000_000]);
    assert_eq!(below, [below[0]; 4]);
    let counted = Graph::build("counted", |g| {
        let [start, x] = [g.input("n", "i64[]"), g.input("x", "f32[3]")];
        let holds = |(_, x): (Value, Value)| x.square().sum(0).gt(0.01);
        while_loop((start, x), holds, |(i, x)| (i + 2, x * 0.8))
    });
    let events = events(&counted.unwrap(), &numbers(&[3], 11), &[0, -7, 9_000_000]);
    assert_eq!(events, [events[0]; 3]);
}

/// The backward loop is also compiled. The number of its steps and rows is a size that the forward loop returns.
#[test]
fn the_gradient_of_such_a_loop_is_compiled_when_it_runs() {
    let graph = Graph::build("counted", |g| {
        let [n, x] = [g.input("n", "i64[]"), g.input("x", "f32[3]")];
        funcify::grad(x, |x| counted(n, x, |state| (state * 0.9 + x).tanh()).square().sum(0))
    });
    let x = numbers(&[3], 6);
    let events = events(&graph.unwrap(), &x, &[80, 80, 7, 7]);
    assert_eq!(events, [events[0]; 4]);
}

/// The first result is unused, so a placeholder replaces it. This must also work for a loop without operands.
#[test]
fn a_loop_without_operands_gives_its_second_result_alone() {
    let graph = Graph::build("second", |g| {
        let mut loop_ = Recurrence::new();
        loop_.steps_value(g.input("n", "i64[]"));
        loop_.run(|_| (constant(1.0), constant(2.0))).ys.1
    });
    let function = Function::compile(&graph.unwrap(), &Cpu::default()).unwrap();
    for count in [3i64, 0, 5] {
        let [found] = function.call_host(&[HostTensor::scalar(count)]).unwrap().try_into().unwrap();
        assert_eq!(found, HostTensor::from_vec(vec![2.0; count as usize], [count as usize]).unwrap());
    }
}
