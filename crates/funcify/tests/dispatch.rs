//! Tests that unrolled programs are specialised for values that are static within a step, and for static inputs.

use funcify::Cpu;
use funcify::dispatch::{CompileCounts, CompileOptions, Function, LoopStrategy, Reference, Specialization};
use funcify::prelude::*;

fn unrolled(graph: &Graph) -> Function<Reference> {
    let options = CompileOptions { strategy: LoopStrategy::Unroll, ..CompileOptions::default() };
    Function::compile_with(graph, &Reference, options).unwrap()
}

#[track_caller]
fn check(function: &Function<Reference>, inputs: &[HostTensor], expected: f64) {
    assert_eq!(function.call_host(inputs).unwrap(), [HostTensor::scalar(expected)]);
}

/// A branch contains an inner loop whose number of steps is k, the index of the outer loop's step. This index is static
/// only within that step. If the branch is taken, step k adds k to x.
#[test]
fn a_branch_is_laid_out_for_the_static_numbers_of_each_step() {
    let graph = Graph::build("branches", |g| {
        let (p, x) = (g.input("p", "bool[]"), g.input("x", "f64[]"));
        let start = (funcify::constant(0i64), x);
        let (last, ()) = scan_with(ScanOptions::new().length(4), start, (), |(k, x), ()| {
            let next = cond(p, || fori_loop(0, k, x, |_, x| x + 1.0), || x - 10.0);
            ((k + 1, next), ())
        });
        last.1
    });
    let function = unrolled(&graph.unwrap());
    check(&function, &[true.into(), 0.5f64.into()], 6.5);
    check(&function, &[false.into(), 0.5f64.into()], -39.5);
}

/// A branch contains an inner loop over rows. The number of rows is static, but differs in each step of the outer loop.
/// The steps turn 0.5 into 0.5 + 0.5 = 1, then into 1 + 1 + 2 = 4, then into 4 + 4 + 5 + 6 = 19, and then into 19 +
/// 19 + 20 + 21 + 22 = 101.
#[test]
fn a_branch_is_laid_out_for_the_sizes_of_each_step() {
    let graph = Graph::build("branches", |g| {
        let (p, x) = (g.input("p", "bool[]"), g.input("x", "f64[]"));
        let start = (funcify::constant(1i64), x);
        let (last, ()) = scan_with(ScanOptions::new().length(4), start, (), |(k, x), ()| {
            let mut recurrence = Recurrence::new();
            let state = recurrence.carry(x);
            let done = recurrence.steps_value(k).run(|step| {
                let x = step.read(&state);
                step.write(&state, x + 1.0);
                x
            });
            // The rows are x, x + 1, and so on. Their number is the index of the outer step, counted from 1.
            let sum = || scan_with(ScanOptions::new(), x, done.ys, |sum, row| (sum + row, ())).0;
            let next = cond(p, sum, || x);
            ((k + 1, next), ())
        });
        last.1
    });
    let function = unrolled(&graph.unwrap());
    check(&function, &[true.into(), 0.5f64.into()], 101.0);
    check(&function, &[false.into(), 0.5f64.into()], 0.5);
}

#[test]
fn a_count_from_two_static_inputs_depends_on_both() {
    let graph = Graph::build("product", |g| {
        let x = g.input("x", "f64[]");
        let (n, m) = (g.static_input("n", DType::I64), g.static_input("m", DType::I64));
        fori_loop(0, n * m, x, |_, x| x + 1.0)
    });
    let function = unrolled(&graph.unwrap());
    let call = |n: i64, m: i64, expected| check(&function, &[0f64.into(), n.into(), m.into()], expected);
    call(2, 3, 6.0);
    call(2, 4, 8.0);
    call(3, 4, 12.0);
    call(2, 3, 6.0);
    assert_eq!((function.counts().made, function.counts().reused), (3, 1));
}

/// The program is specialised for the static input that selects the branch, and for the static inputs that this branch
/// uses.
#[test]
fn a_choice_of_a_static_input_depends_on_it() {
    let graph = Graph::build("choice", |g| {
        let x = g.input("x", "f64[]");
        let [which, n, m] = ["which", "n", "m"].map(|name| g.static_input(name, DType::I64));
        let times = |count| fori_loop(0, count, x, |_, x| x + 1.0);
        switch(which, [&|| times(n), &|| times(m)])
    });
    let function = unrolled(&graph.unwrap());
    let call = |numbers: [i64; 3], expected| {
        let [which, n, m] = numbers.map(HostTensor::from);
        check(&function, &[0f64.into(), which, n, m], expected);
    };
    call([0, 2, 5], 2.0);
    call([1, 2, 5], 5.0);
    call([0, 2, 7], 2.0);
    call([1, 2, 7], 7.0);
    call([0, 3, 7], 3.0);
}

/// An op that may fail is not hoisted out of a loop: if the loop has no steps, the op must not run.
#[test]
fn invariants_that_may_be_refused_run_in_the_steps() {
    for op in ["take %x, %i {axis=0}", "slice %x {axis=0, start=1, limit=N, step=1}"] {
        let ty = if op.starts_with("take") { "f32[2]" } else { "f32[N-1]" };
        let text = format!(
            "fn @f(%n: i64[], %x: f32[N], %i: i64[2]) {{
               %0: f32[] = constant 1.0
               %last: f32[] = scan @body %n {{steps=$1}} with %x, %i {{
                 carry %c: f32[] = %last from %0
                 %1: {ty} = {op}
                 %2: f32[] = reduce %1 {{kind=sum, axes=[0]}}
                 %3: f32[] = add %c, %2
                 %last = %3
               }}
               return y=%last
             }}"
        );
        let graph = Graph::parse(&text).unwrap();
        let inputs = |steps: i64, x: Vec<f32>| {
            let size = x.len();
            [HostTensor::scalar(steps), HostTensor::from_vec(x, [size]).unwrap(), [0i64, 1].into()]
        };
        let function = Function::compile(&graph, &Reference).unwrap();
        let no_steps = inputs(0, Vec::new());
        assert_eq!(function.call_host(&no_steps).unwrap(), [HostTensor::scalar(1f32)], "{op}");
        let two_steps = inputs(2, vec![3.0, 4.0]);
        assert_eq!(function.call_host(&two_steps).unwrap(), evaluate(&graph, &two_steps).unwrap(), "{op}");
        assert!(function.call_host(&inputs(1, Vec::new())).is_err(), "{op}");
    }
}

/// If the program does not depend on the sizes or static inputs of a call, `compile` builds it and returns its errors,
/// even on a backend that compiles entire programs.
#[test]
fn a_graph_of_static_sizes_is_compiled_by_compile() {
    let sums = |ty: &str| {
        Graph::build("sums", |g| scan(g.input("c", "f32[]"), g.input("xs", ty), |c, x| (c + x, ())).0).unwrap()
    };
    let arguments = [1f32.into(), [2f32, 3.0].into()];
    for (ty, by_sizes) in [("f32[2]", false), ("f32[T]", true)] {
        let function = Function::compile(&sums(ty), &Cpu::default()).unwrap();
        let made = usize::from(!by_sizes);
        assert_eq!(function.specialization(), Specialization { by_sizes, by_static_inputs: false });
        assert_eq!(function.counts(), CompileCounts { made, reused: 0 });
        assert_eq!(function.instructions(), made);
        assert_eq!(function.call_host(&arguments).unwrap(), [HostTensor::scalar(6f32)]);
        assert_eq!(function.counts(), CompileCounts { made: 1, reused: made });
    }
    let options = CompileOptions { strategy: LoopStrategy::Unroll, max_kernels: 2, ..CompileOptions::default() };
    let refused = Function::compile_with(&sums("f32[9]"), &Reference, options.clone()).err().unwrap();
    assert!(matches!(refused, Error::ProgramTooLarge { .. }), "{refused}");
    let open = Function::compile_with(&sums("f32[T]"), &Reference, options).unwrap();
    assert!(open.call_host(&arguments).is_err());
}
