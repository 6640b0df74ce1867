//! Tests `Function`: the time of compilation, the sharing of programs between calls, the source of step counts, and the
//! validation of arguments.

use std::sync::Arc;

use funcify::dispatch::{CompileCounts, CompileOptions, Function, LoopStrategy, Reference, Steps};
use funcify::{
    DType, Error, Graph, HostTensor, Recurrence, Result, ScanOptions, cond, fori_loop, scan, scan_until, scan_with,
    switch, while_loop, while_loop_bounded,
};
use funcify_tests::built;
use funcify_tests::toy::{Toy, ToyTensor};

const UNROLL: LoopStrategy = LoopStrategy::Unroll;
const NATIVE: LoopStrategy = LoopStrategy::Native;

fn cumsum() -> Graph {
    built("cumsum", |g| {
        let xs = g.input("xs", "f64[T]");
        let start = g.input("start", "f64[]");
        scan(start, xs, |sum, x| (sum + x, sum + x))
    })
}

/// Checks that Candle runs a `while_loop` whose step is a scan, and that forced unrolling rejects the loop. Each step
/// multiplies the state by 3, until the state reaches a limit.
#[test]
fn a_conditional_loop_runs_from_the_host_unless_unrolling_is_forced() {
    let graph = built("limited", |g| {
        let (start, xs) = (g.input("start", "f32[]"), g.input("xs", "f32[T]"));
        while_loop(start, |x| x.lt(20.0), |x| scan(x, xs, |x, y| (x * y, ())).0)
    });
    let inputs = [HostTensor::scalar(1f32), HostTensor::from([2f32, 1.5])];
    let candle = Function::compile(&graph, &funcify_candle::Candle::cpu()).unwrap();
    assert_eq!(candle.call_host(&inputs).unwrap(), [HostTensor::scalar(27f32)]);
    let refused = compile(&graph, UNROLL).and_then(|unrolled| unrolled.call_host(&inputs));
    assert!(matches!(refused, Err(Error::StepCountNotStatic { .. })));
}

/// Builds a graph that doubles `start` several times. The number of doublings is an input, which is static if
/// `is_static` is true.
fn doubled(is_static: bool) -> Graph {
    built("doubled", |g| {
        let start = g.input("start", "f64[]");
        let count = if is_static { g.static_input("count", DType::I64) } else { g.input("count", "i64[]") };
        let mut doubling = Recurrence::new();
        let state = doubling.carry(start);
        let done = doubling.steps_value(count).run(|step| {
            let old = step.read(&state);
            step.write(&state, old + old);
            old
        });
        (done.last(&state), done.ys)
    })
}

fn compile(graph: &Graph, strategy: LoopStrategy) -> Result<Function<Reference>> {
    Function::compile_with(graph, &Reference, CompileOptions { strategy, rewrites: None, ..CompileOptions::default() })
}

fn numbers(count: usize) -> HostTensor {
    HostTensor::from_vec((1..=count).map(|number| number as f64).collect(), [count]).unwrap()
}

/// Calls a compiled `cumsum` on the numbers from 1 to `count`, and returns their sum.
fn sum_to(function: &Function<Reference>, count: usize) -> f64 {
    function.call_host(&[numbers(count), HostTensor::scalar(0f64)]).unwrap()[0].get(0).as_f64()
}

fn double(function: &Function<Reference>, count: i64) -> Result<f64> {
    let results = function.call_host(&[HostTensor::scalar(1.5f64), HostTensor::scalar(count)])?;
    assert_eq!(results[1].shape(), [count as usize]);
    Ok(results[0].get(0).as_f64())
}

#[test]
fn a_native_function_serves_every_size_with_one_program() {
    let function = compile(&cumsum(), NATIVE).unwrap();
    assert_eq!(function.counts(), CompileCounts { made: 1, reused: 0 });
    assert_eq!([3, 5, 0, 3].map(|count| sum_to(&function, count)), [6.0, 15.0, 0.0, 6.0]);
    assert_eq!(function.counts(), CompileCounts { made: 1, reused: 4 });
}

#[test]
fn an_unrolled_function_is_compiled_once_for_each_size() {
    let function = compile(&cumsum(), UNROLL).unwrap();
    assert_eq!(function.counts(), CompileCounts::default());
    assert_eq!([3, 5, 0, 3].map(|count| sum_to(&function, count)), [6.0, 15.0, 0.0, 6.0]);
    assert_eq!(function.counts(), CompileCounts { made: 3, reused: 1 });
}

#[test]
fn the_program_unused_for_longest_is_dropped() {
    let options = CompileOptions { strategy: UNROLL, max_programs: 2, rewrites: None, ..CompileOptions::default() };
    let function = Function::compile_with(&cumsum(), &Reference, options).unwrap();
    let compiled_by = |count: usize| {
        let before = function.counts().made;
        sum_to(&function, count);
        function.counts().made - before
    };
    assert_eq!([1, 2, 1, 3].map(compiled_by), [1, 1, 0, 1]);
    assert_eq!(compiled_by(1), 0, "it was used more recently than the program for size 2, so it is cached");
    assert_eq!(compiled_by(2), 1, "it was the least recently used when the program for size 3 was compiled");
}

#[test]
fn unrolled_programs_grow_with_the_steps_and_native_ones_do_not() {
    let (unrolled, native) = (compile(&cumsum(), UNROLL).unwrap(), compile(&cumsum(), NATIVE).unwrap());
    let instructions = |function: &Function<Reference>, count: usize| {
        sum_to(function, count);
        function.instructions()
    };
    assert!(instructions(&unrolled, 20) > instructions(&unrolled, 2));
    assert_eq!(instructions(&native, 20), instructions(&native, 2));
}

#[test]
fn a_constant_step_count_is_static_in_either_strategy() {
    let graph = built("powers", |g| {
        let start = g.input("start", "f64[]");
        scan_with(ScanOptions::new().length(4), start, (), |x, ()| (x + x, x))
    });
    for strategy in [UNROLL, NATIVE] {
        let results = compile(&graph, strategy).unwrap().call_host(&[HostTensor::scalar(1f64)]);
        let results = results.unwrap();
        assert_eq!(results[0].to_f64_vec(), [16.0]);
        assert_eq!(results[1].to_f64_vec(), [1.0, 2.0, 4.0, 8.0]);
    }
}

#[test]
fn a_static_input_is_compiled_in() {
    for (strategy, compiled) in [(UNROLL, 3), (NATIVE, 1)] {
        let function = compile(&doubled(true), strategy).unwrap();
        let results = [3, 5, 0, 3].map(|count| double(&function, count).unwrap());
        assert_eq!(results, [12.0, 48.0, 1.5, 12.0]);
        let counts = CompileCounts { made: compiled, reused: 4 - compiled };
        assert_eq!(function.counts(), counts, "a native loop reads the number when it runs");
    }
}

/// Checks that a program is compiled for each value of `k`, the static input that selects a `switch` branch. Different
/// values of `n`, the number of steps of a loop, share a program.
#[test]
fn a_program_is_compiled_for_the_static_inputs_that_it_depends_on() {
    let graph = built("model", |g| {
        let (k, n) = (g.static_input("k", DType::I64), g.static_input("n", DType::I64));
        let x = g.input("x", "f64[]");
        let start = switch(k, [&|| x, &|| x * 10.0]);
        fori_loop(0, n, start, |_, x| x + 1.0)
    });
    let function = compile(&graph, NATIVE).unwrap();
    let call = |k: i64, n: i64| {
        let inputs = [HostTensor::scalar(k), HostTensor::scalar(n), HostTensor::scalar(2f64)];
        function.call_host(&inputs).unwrap()[0].get(0).as_f64()
    };
    assert_eq!([call(0, 1), call(0, 4), call(1, 4), call(0, 2), call(1, 0)], [3.0, 6.0, 24.0, 4.0, 20.0]);
    assert_eq!(function.counts(), CompileCounts { made: 2, reused: 3 });
}

/// Tests three loops on Candle: one with a static number of steps, one with an early exit, and one over the rows that
/// the second loop returns. Candle compiles all three loops. If their steps contain an op that the engine does not
/// compile, Candle unrolls the first loop and runs the other two natively.
#[test]
fn without_a_strategy_loops_are_compiled_or_unrolled_where_their_steps_are_static() {
    let graph = |dtype: &str| {
        built("model", |g| {
            let xs = g.input("xs", format!("{dtype}[T]").as_str());
            let limit = g.input("limit", format!("{dtype}[]").as_str());
            let zero = limit.zeros_like();
            // The engine does not compile `nextafter` on half types.
            let same = |x: funcify::Value| if dtype == "f16" { x.nextafter(x) } else { x };
            let (_, sums) = scan(zero, xs, |sum, x| (sum + same(x), sum + x));
            let (_, cut) = scan_until(zero, sums, |_, x| (same(x), x, x.gt(limit)));
            scan(zero, cut, |sum, x| (sum + same(x), ())).0
        })
    };
    let raw = || CompileOptions { rewrites: None, ..CompileOptions::default() };
    let strategies = [
        (DType::F32, LoopStrategy::Compiled),
        (DType::I32, LoopStrategy::Compiled),
        (DType::F16, LoopStrategy::Unroll),
    ];
    for (dtype, first) in strategies {
        let graph = graph(dtype.name());
        let candle = Function::compile_with(&graph, &funcify_candle::Candle::cpu(), raw()).unwrap();
        for (xs, sum) in [(vec![1f32, 1., 2., 9.], 7f32), (vec![5f32, 1.], 5.)] {
            let xs = HostTensor::from_vec(xs.clone(), [xs.len()]).unwrap();
            let inputs = [xs, HostTensor::scalar(3f32)].map(|input| input.cast(dtype));
            assert_eq!(candle.call_host(&inputs).unwrap(), [HostTensor::scalar(sum).cast(dtype)]);
        }
        let loops = candle.report().loops;
        let ran: Vec<_> = loops.iter().map(|each| (each.op, each.strategy, each.steps)).collect();
        // The number of rows that the last loop reads is known only at run time.
        let is_declined = first == LoopStrategy::Unroll;
        let others = if is_declined { LoopStrategy::Native } else { first };
        let expected = [
            ("scan", first, Steps::Exactly(2)),
            ("scan", others, Steps::AtMost(2)),
            ("scan", others, Steps::AtRunTime),
        ];
        assert_eq!(ran, expected);
        let declined: Vec<bool> = loops.iter().map(|each| each.declined.is_some()).collect();
        assert_eq!(declined, [is_declined; 3]);
        let inputs = [HostTensor::from([1f32]), HostTensor::scalar(3f32)].map(|input| input.cast(dtype));
        // The second loop has a maximum number of steps, so it can be unrolled to that number.
        let forced = compile(&graph, UNROLL).and_then(|forced| forced.call_host(&inputs));
        assert_eq!(forced.unwrap(), [HostTensor::scalar(1f32).cast(dtype)]);
    }
}

/// Checks that all steps of an unrolled loop share one compiled program for each nested `cond` and `while_loop`.
#[test]
fn bodies_within_an_unrolled_loop_are_compiled_once() {
    let graph = built("model", |g| {
        scan(g.input("x", "f32[]"), g.input("xs", "f32[T]"), |x, y| {
            let z = cond(x.gt(y), || (x * y).sin() + 1.0, || x + y);
            (while_loop_bounded(5, z, |z| z.lt(0.0), |z| z.exp() + 0.5), ())
        })
        .0
    });
    let bytes = |steps: usize| {
        let function = compile(&graph, UNROLL).unwrap();
        function.call_host(&[HostTensor::scalar(1f32), numbers(steps).cast(DType::F32)]).unwrap();
        function.report().program_bytes
    };
    let (one, two, ten) = (bytes(1), bytes(2), bytes(10));
    assert_eq!(ten - two, 8 * (two - one), "each step adds its own instructions");
    assert!(two - one < one / 2, "{} bytes a step of {one}: the bodies are not in it", two - one);
}

#[test]
fn a_report_tells_what_became_of_a_graph() {
    let graph = built("model", |g| {
        let xs = g.input("xs", "f64[T]");
        let sums = scan(xs.index(0, 0), xs, |sum, x| (sum + x, (sum + x) * 2.0)).1;
        sums.exp()
    });
    let compile = |strategy| {
        let options = CompileOptions { strategy, rewrites: None, ..CompileOptions::default() };
        Function::compile_with(&graph, &Reference, options)
    };
    let native = compile(NATIVE).unwrap();
    let before = native.report();
    assert_eq!((before.graph_ops, before.peak_bytes), (8, None), "{graph}");
    native.call_host(&[numbers(100)]).unwrap();
    let report = native.report();
    assert_eq!(report.instructions, before.instructions);
    // The peak is two vectors of 100 f64, two scalars (the start and the constant 2), and the two scalars of a step.
    assert_eq!(report.peak_bytes, Some(2 * 800 + 2 * 8 + 2 * 8), "{report}");
    assert_eq!(report.counts, CompileCounts { made: 1, reused: 1 });
    let text = report.to_string();
    assert!(text.contains("native, steps known at run time, kernels a step: 3 (tests/tests/functions.rs:"), "{text}");

    let unrolled = compile(UNROLL).unwrap();
    let made = |count: usize| {
        unrolled.call_host(&[numbers(count)]).unwrap();
        unrolled.report()
    };
    let (two, three, twelve) = (made(2), made(3), made(12));
    assert_eq!((twelve.loops[0].steps, twelve.loops[0].kernels), (Steps::Exactly(12), Some(3)));
    assert_eq!(twelve.instructions - two.instructions, 10 * (three.instructions - two.instructions));
    assert_eq!(three.instructions - two.instructions, 4, "a row, two sums, a product");
    assert!(twelve.program_bytes > three.program_bytes);
}

#[test]
fn a_step_count_given_at_run_time_needs_a_native_loop() {
    let native = compile(&doubled(false), NATIVE).unwrap();
    assert_eq!([3, 5, 0].map(|count| double(&native, count).unwrap()), [12.0, 48.0, 1.5]);
    assert_eq!(native.counts().made, 1);
    let error = compile(&doubled(false), UNROLL).err().expect("it is rejected without a size");
    assert!(matches!(&error, Error::StepCountNotStatic { backend, .. } if backend == "reference"), "{error}");
    assert_eq!(error.place().op, "scan");
}

#[test]
fn a_negative_step_count_is_an_error() {
    for (is_static, strategy) in [(true, UNROLL), (true, NATIVE), (false, NATIVE)] {
        let function = compile(&doubled(is_static), strategy).unwrap();
        let error = function.call_host(&[HostTensor::scalar(1f64), HostTensor::scalar(-1i64)]).unwrap_err();
        assert_eq!(error.kind(), "StepCount", "{error}");
    }
}

#[test]
fn an_unrolled_program_has_a_limit() {
    let options = CompileOptions { strategy: UNROLL, max_kernels: 50, rewrites: None, ..CompileOptions::default() };
    let function = Function::compile_with(&cumsum(), &Reference, options).unwrap();
    assert_eq!(sum_to(&function, 5), 15.0);
    let error = function.call_host(&[numbers(1000), HostTensor::scalar(0f64)]).unwrap_err();
    let Error::ProgramTooLarge { kernels, limit, .. } = &error else { panic!("{error}") };
    assert_eq!(*limit, 50);
    assert!(kernels > limit);
    let native = CompileOptions { strategy: NATIVE, max_kernels: 50, rewrites: None, ..CompileOptions::default() };
    let function = Function::compile_with(&cumsum(), &Reference, native).unwrap();
    assert_eq!(sum_to(&function, 1000), 500500.0);
}

#[test]
fn a_call_takes_and_gives_the_backends_own_tensors() {
    let function = Function::compile(&cumsum(), &Toy).unwrap();
    let xs = ToyTensor::new(&[3], vec![1.0, 2.0, 3.0]).unwrap();
    let start = ToyTensor::new(&[], vec![10.0]).unwrap();
    let results = function.call(&[xs.clone(), start]).unwrap();
    assert_eq!(results[0].elements(), [16.0]);
    assert_eq!(results[1], ToyTensor::new(&[3], vec![11.0, 13.0, 16.0]).unwrap());
    assert_eq!(xs.elements(), [1.0, 2.0, 3.0], "an argument that the caller holds is not changed");

    let function = compile(&cumsum(), LoopStrategy::Auto).unwrap();
    let results = function.call(&[Arc::new(numbers(3)), Arc::new(HostTensor::scalar(10f64))]).unwrap();
    assert_eq!(results[1].to_f64_vec(), [11.0, 13.0, 16.0]);
}

#[test]
fn arguments_that_do_not_fit_are_errors_that_name_the_input() {
    let function = compile(&cumsum(), LoopStrategy::Auto).unwrap();
    let start = HostTensor::scalar(0f64);
    let wrong: [Vec<HostTensor>; 4] = [
        vec![numbers(3)],
        vec![numbers(3), start.clone(), start.clone()],
        vec![numbers(3).cast(DType::F32), start.clone()],
        vec![start.clone(), start],
    ];
    for arguments in wrong {
        let error = function.call_host(&arguments).unwrap_err();
        assert_eq!(error.kind(), "Call", "{error}");
    }
    let error = function.call_host(&[numbers(3), numbers(3)]).unwrap_err();
    assert!(error.to_string().contains("`start`"), "{error}");
}

#[test]
fn what_no_output_needs_is_not_computed() {
    let built = |with_dead_ops: bool| {
        built("partly_dead", |g| {
            let xs = g.input("xs", "f64[T]");
            let start = g.input("start", "f64[]");
            let (last, traces) = scan(start, xs, |sum, x| {
                let next = sum + x;
                if with_dead_ops {
                    next.exp().sin();
                }
                (next, (next, x * x))
            });
            if with_dead_ops {
                traces.1.cos().sum(..);
            }
            last
        })
    };
    for strategy in [UNROLL, NATIVE] {
        let (plain, dead) = (compile(&built(false), strategy).unwrap(), compile(&built(true), strategy).unwrap());
        assert_eq!(sum_to(&plain, 4), sum_to(&dead, 4));
        assert_eq!(plain.instructions(), dead.instructions());
    }
}

#[test]
fn an_output_may_be_an_input_and_may_be_given_twice() {
    let graph = built("same", |g| {
        let x = g.input("x", "f64[T]");
        let y = x + x;
        (x, y, y)
    });
    let results = compile(&graph, LoopStrategy::Auto).unwrap().call_host(&[numbers(2)]).unwrap();
    let results: Vec<Vec<f64>> = results.iter().map(HostTensor::to_f64_vec).collect();
    assert_eq!(results, [vec![1.0, 2.0], vec![2.0, 4.0], vec![2.0, 4.0]]);
}

#[test]
fn threads_that_share_a_function_get_equal_results() {
    for strategy in [UNROLL, NATIVE] {
        let function = compile(&cumsum(), strategy).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let function = &function;
                scope.spawn(move || {
                    for round in 0..20 {
                        let count = (thread + round) % 6;
                        assert_eq!(sum_to(function, count), (count * (count + 1) / 2) as f64);
                    }
                });
            }
        });
        let counts = function.counts();
        assert_eq!(counts.made, if strategy == UNROLL { 6 } else { 1 });
        assert_eq!(counts.made + counts.reused, if strategy == UNROLL { 80 } else { 81 });
    }
}
