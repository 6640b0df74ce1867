//! Tests sizes that are known only at run time, such as the number of steps of a loop. Such a size may differ in each
//! step of an enclosing loop.

use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::prelude::*;

/// Runs a program and returns its first output, or its error. Asserts that both loop strategies agree with the
/// reference evaluator.
#[track_caller]
fn run<T: Tree>(program: impl FnOnce(&Builder) -> T, arguments: &[HostTensor]) -> Result<HostTensor, Error> {
    let graph = Graph::build("sizes", program).unwrap();
    let expected = evaluate(&graph, arguments);
    for strategy in [LoopStrategy::Unroll, LoopStrategy::Native] {
        let options = CompileOptions { strategy, ..CompileOptions::default() };
        let results = Function::compile_with(&graph, &Reference, options).unwrap().call_host(arguments);
        assert_eq!(format!("{results:?}"), format!("{expected:?}"), "{}", strategy.name());
    }
    Ok(expected?[0].clone())
}

/// Returns the trace 1, 2, ... of a loop of `n` steps.
fn counted(n: Value) -> Value {
    let mut loop_ = Recurrence::new();
    let state = loop_.sit_sot(constant(0f32));
    let done = loop_.steps_value(n).run(|step| {
        let [old] = step.read(&state);
        step.write(&state, old + 1.0);
    });
    done.trace(&state)
}

#[test]
fn an_unrolled_loop_binds_the_symbol_of_a_static_count() {
    let mean = run(|g| counted(g.static_input("n", DType::I64)).mean(0), &[HostTensor::scalar(4i64)]);
    assert_eq!(mean.unwrap(), HostTensor::scalar(2.5f32));
}

#[test]
fn the_count_of_an_inner_loop_is_not_hoisted_out_of_the_outer_one() {
    let means = run(
        |g| {
            let counts = (constant(2i64), constant(3i64));
            scan(counts, g.input("xs", "f32[T]"), |(now, next), x| ((next, now), counted(now).mean(0) * x)).1
        },
        &[HostTensor::from_vec(vec![1f32, 1.], [2]).unwrap()],
    );
    assert_eq!(means.unwrap().as_slice::<f32>().unwrap(), [1.5, 2.0]);
}

#[test]
fn a_slice_that_may_not_fit_is_not_hoisted_out_of_a_loop() {
    let rows = |steps: usize, size: usize| {
        let arguments = [
            HostTensor::from_fn(DType::F32, &[steps], |_| Scalar::Float(2.0)),
            HostTensor::from_vec(vec![3f32, 4., 5.][..size].to_vec(), [size]).unwrap(),
        ];
        let program = |g: &Builder| {
            let (xs, w) = (g.input("xs", "f32[T]"), g.input("w", "f32[N]"));
            scan(xs.sum(0), xs, |c, x| (c, w.slice(0, 0..2) * x)).1
        };
        run(program, &arguments).unwrap()
    };
    assert_eq!(rows(1, 3), HostTensor::from_vec(vec![6f32, 8.], [1, 2]).unwrap());
    assert_eq!(rows(0, 1).shape(), [0, 2]);
}

#[test]
fn positions_from_the_end_are_counted_once() {
    let xs = HostTensor::from_vec(vec![1f32, 2., 3.], [3]).unwrap();
    let last = run(|g| g.input("xs", "f32[T]").index(0, -3), std::slice::from_ref(&xs));
    assert_eq!(last.unwrap(), HostTensor::scalar(1f32));
    for ty in ["f32[3]", "f32[T]"] {
        let outside = Graph::build("outside", |g| g.input("xs", ty).index(0, -5));
        let outside = outside.and_then(|graph| evaluate(&graph, std::slice::from_ref(&xs)));
        assert_eq!(outside.unwrap_err().kind(), "Type", "{ty}");
    }
}

/// A graph that binds a size is applied several times in a program that also binds a size. Each application gets its
/// own symbol.
#[test]
fn a_graph_that_binds_a_size_is_applied() {
    let one = Graph::build("one", |g| {
        let (xs, n) = (g.input("xs", "f64[N]"), g.input("n", "i64[]"));
        xs.slice(0, ..bind_size(n)).square().sum(0)
    });
    let one = one.unwrap();
    let both = Graph::build("both", |g| {
        let (xs, n) = (g.input("xs", "f64[3]"), g.input("n", "i64[]"));
        let rest = xs.slice(0, bind_size(n)..);
        let of = |xs: Value, n: Value| one.apply(&[xs, n])[0];
        (of(xs, n), of(rest, n - 1), grad(xs, |xs| of(xs, n)), grad(xs, |xs| of(xs, n - 1)))
    });
    let both = both.unwrap();
    assert!(both.check().is_ok(), "{both}");
    let arguments = [HostTensor::from([1f64, 2., 4.]), HostTensor::scalar(2i64)];
    let expected = [5f64.into(), 16f64.into(), [2f64, 4., 0.].into(), [2f64, 0., 0.].into()];
    assert_eq!(evaluate(&both, &arguments).unwrap(), expected);
    assert_eq!(Function::compile(&both, &Reference).unwrap().call_host(&arguments).unwrap(), expected);
}

/// A size that a step binds must not appear in the results of the step.
#[test]
fn a_size_does_not_leave_its_step() {
    let escapes = Graph::build("escapes", |g| {
        let (xs, counts) = (g.input("xs", "f64[T]"), g.input("counts", "i64[B]"));
        map(counts, |n| xs.slice(0, ..bind_size(n)))
    });
    let error = escapes.unwrap_err();
    assert!(error.kind() == "Type" && error.to_string().contains("itself binds `$1`"), "{error}");
}

/// Elementwise ops, including bitwise ones, support ragged lanes.
#[test]
fn elementwise_ops_on_lanes_of_different_sizes() {
    type ProgramFn = fn(Value) -> Value;
    let programs: [(&str, ProgramFn); 7] = [
        ("shift_left", |xs| xs.cast(DType::U32).shift_left(1).cast(DType::F64).sum(0)),
        ("popcount", |xs| xs.cast(DType::U32).popcount().cast(DType::F64).sum(0)),
        ("count_leading_zeros", |xs| xs.cast(DType::U32).count_leading_zeros().cast(DType::F64).sum(0)),
        ("nextafter", |xs| (xs.nextafter(9.0) - xs).cast(DType::F64).sum(0)),
        ("bitcast", |xs| xs.bitcast(DType::U32).cast(DType::F64).sum(0)),
        ("is_finite", |xs| xs.is_finite().cast(DType::F64).sum(0)),
        ("polygamma", |xs| xs.polygamma(1).cast(DType::F64).sum(0)),
    ];
    for (name, program) in programs {
        let of_lane = |n: Value| program(counted(n));
        let lanes = Graph::build("lanes", |g| vmap(g.input("n", "i64[3]"), of_lane));
        let lanes = lanes.unwrap_or_else(|error| panic!("{name}: {error}"));
        let one = Graph::build("one", |g| of_lane(g.input("n", "i64[]"))).unwrap();
        let counts = [2i64, 0, 5];
        let found = evaluate(&lanes, &[HostTensor::from(counts)]).unwrap()[0].to_f64_vec();
        let expected = counts.map(|count| evaluate(&one, &[HostTensor::scalar(count)]).unwrap()[0].to_f64_vec()[0]);
        assert_eq!(found, expected, "{name}");
    }
}
