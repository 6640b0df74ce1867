//! Tests programs that are specialised for sizes and values: bound sizes, folded constants and shared code must be
//! correct in every call and every step.

mod shared;

use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::prelude::*;
use funcify::{VmapOptions, while_loop_bounded};
use shared::built;

/// Runs a program and returns the elements of all its results, or its error. Asserts that both loop strategies agree
/// with the reference evaluator.
fn run(graph: &Graph, arguments: &[HostTensor]) -> Result<Vec<f64>, Error> {
    let expected = evaluate(graph, arguments);
    for strategy in [LoopStrategy::Unroll, LoopStrategy::Native] {
        let options = CompileOptions { strategy, ..CompileOptions::default() };
        let found =
            Function::compile_with(graph, &Reference, options).and_then(|function| function.call_host(arguments));
        match (&expected, found) {
            (Ok(expected), Ok(found)) => assert_eq!(*expected, found, "{strategy:?}\n{graph}"),
            (Err(expected), Err(found)) => assert_eq!(expected.kind(), found.kind(), "{strategy:?}\n{found}"),
            (Ok(_), Err(error)) => panic!("{strategy:?}: {error}"),
            (Err(error), Ok(_)) => panic!("{strategy:?} returns results, but the evaluator fails: {error}"),
        }
    }
    Ok(expected?.iter().flat_map(HostTensor::to_f64_vec).collect())
}

fn number(x: f64) -> HostTensor {
    HostTensor::scalar(x)
}

/// In an unrolled loop, the index of a step is static. The inner loops, which are in branches, run 0 + 1 + 2 + 3 steps
/// in total.
#[test]
fn a_branch_of_each_step_knows_the_number_of_that_step() {
    let graph = built("model", |g| {
        let (p, x) = (g.input("p", "bool[]"), g.input("x", "f64[]"));
        let options = funcify::ScanOptions::new().length(4);
        let step = |(k, x): (Value, Value), ()| {
            let y = cond(p, || fori_loop(0, k, x, |_, x| x + 1.0), || fori_loop(0, k, x, |_, x| x * 2.0));
            ((k + 1, y), y)
        };
        scan_with(options, (constant(0i64), x), (), step).1
    });
    assert_eq!(run(&graph, &[HostTensor::scalar(true), number(0.5)]).unwrap(), [0.5, 1.5, 3.5, 6.5]);
    assert_eq!(run(&graph, &[HostTensor::scalar(false), number(1.0)]).unwrap(), [1.0, 2.0, 8.0, 64.0]);
}

/// The number of steps of a loop in a branch may depend on a static input.
#[test]
fn a_branch_knows_the_static_inputs_of_the_call() {
    let graph = built("model", |g| {
        let (n, p, x) = (g.static_input("n", DType::I64), g.input("p", "bool[]"), g.input("x", "f64[]"));
        cond(p, || fori_loop(0, n, x, |_, x| x + 1.0), || fori_loop(0, n * 2, x, |_, x| x + 1.0))
    });
    let function = Function::compile(&graph, &Reference).unwrap();
    for (n, p, expected) in [(2i64, true, 2.0), (2, false, 4.0), (3, true, 3.0), (3, false, 6.0), (0, true, 0.0)] {
        let arguments = [HostTensor::scalar(n), HostTensor::scalar(p), number(0.0)];
        assert_eq!(run(&graph, &arguments).unwrap(), [expected]);
        assert_eq!(function.call_host(&arguments).unwrap()[0].get(0).as_f64(), expected);
    }
}

/// If an input's size is a formula in two symbols, the formula is solved for one symbol after a later input binds the
/// other symbol.
#[test]
fn sizes_are_bound_in_whatever_order_they_come() {
    let graph = built("model", |g| {
        let (both, one) = (g.input("both", "f64[B+T]"), g.input("one", "f64[T]"));
        (both.slice(0, "T"..), one.sum(0) * funcify::size("B", DType::F64))
    });
    let given = [HostTensor::from([1f64, 2., 3., 4., 5.]), HostTensor::from([1f64, 1.])];
    assert_eq!(run(&graph, &given).unwrap(), [3.0, 4.0, 5.0, 6.0]);
    // With three symbols, the last input binds its symbol first, and the sizes of the other inputs are solved in
    // reverse order.
    let chain = built("chain", |g| {
        let names = [("a", "f64[A+B+C]"), ("b", "f64[B+C]"), ("c", "f64[C]")];
        let [a, b, c] = names.map(|(name, ty)| g.input(name, ty));
        (a.slice(0, funcify::Dim::from("B") + "C"..), b.sum(0), c.sum(0))
    });
    let ones = |count: usize| HostTensor::from_fn(DType::F64, &[count], |_| funcify::Scalar::Float(1.0));
    assert_eq!(run(&chain, &[ones(6), ones(4), ones(3)]).unwrap(), [1.0, 1.0, 4.0, 3.0]);
    let short = [HostTensor::from([1f64]), HostTensor::from([1f64, 1.])];
    assert_eq!(run(&graph, &short).unwrap_err().kind(), "Call");
}

/// The number of rows is checked at run time: 0 rows are enough for 0 steps.
#[test]
fn no_rows_are_enough_for_no_steps() {
    let graph = built("model", |g| {
        let (xs, none) = (g.input("xs", "f64[T]"), g.input("none", "f64[N]"));
        scan(xs.sum(0) + none.sum(0), xs, |c, x| (c + x, ())).0
    });
    let text = graph.to_string().replace("%none: f64[N]", "%none: f64[0]").replace("= %xs[t]", "= %none[t]");
    let graph = Graph::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let rows = |count: usize| HostTensor::zeros(DType::F64, &[count]);
    assert_eq!(run(&graph, &[rows(0), rows(0)]).unwrap(), [0.0]);
    assert_eq!(run(&graph, &[rows(1), rows(0)]).unwrap_err().kind(), "Rows");
}

/// The bound of a while loop is symbolic in the graph that contains the loop. Each application of that graph sets the
/// bound to the size of the argument.
#[test]
fn a_graph_that_is_put_into_another_keeps_the_bounds_of_its_loops() {
    let bounded = built("bounded", |g| {
        let (xs, x) = (g.input("xs", "f64[N]"), g.input("x", "f64[]"));
        while_loop_bounded("N", x, |x: Value| x.lt(1e9), |x| x * 2.0) + xs.sum(0)
    });
    let apart = built("model", |g| {
        let (a, b, x) = (g.input("a", "f64[3]"), g.input("b", "f64[M]"), g.input("x", "f64[]"));
        (bounded.apply(&[a, x]), bounded.apply(&[b, x]))
    });
    let given = [HostTensor::zeros(DType::F64, &[3]), HostTensor::zeros(DType::F64, &[5]), number(1.0)];
    assert_eq!(run(&apart, &given).unwrap(), [8.0, 32.0]);
}

/// If all lanes share a static input, it remains static, so the loop can still be unrolled.
#[test]
fn lanes_share_a_static_input() {
    let graph = built("model", |g| {
        let (n, x) = (g.static_input("n", DType::I64), g.input("x", "f64[]"));
        fori_loop(0, n, x, |_, x| x * 3.0)
    });
    let lanes = graph.vmap("B", VmapOptions::new().in_axes([("x", 0)])).unwrap();
    assert!(lanes.inputs()[0].is_static, "{lanes}");
    let xs = HostTensor::from([1f64, 2.0]);
    assert_eq!(run(&lanes, &[HostTensor::scalar(2i64), xs]).unwrap(), [9.0, 18.0]);
}

/// A while loop that computes `x^(2^2)` ends at its bound, and so do its derivatives and its batched form.
#[test]
fn a_bound_that_is_reached_ends_derivatives_and_lanes_too() {
    let graph = built("model", |g| while_loop_bounded(2, g.input("x", "f64[]"), |x: Value| x.lt(100.0), |x| x * x));
    let gradient = graph.grad("x", funcify::GradOptions::new()).unwrap();
    let second = gradient.grad("x", funcify::GradOptions::new()).unwrap();
    assert_eq!(run(&graph, &[number(2.0)]).unwrap(), [16.0]);
    assert_eq!(evaluate(&gradient, &[number(2.0)]).unwrap()[0], number(32.0));
    assert_eq!(evaluate(&second, &[number(2.0)]).unwrap()[0], number(48.0));
    assert_eq!(evaluate(&graph.jvp("x").unwrap(), &[number(2.0), number(1.0)]).unwrap()[1], number(32.0));
    // In the second lane, the condition ends the loop before the bound does.
    let xs = HostTensor::from([2f64, 20.0]);
    assert_eq!(evaluate(&graph.vmap("B", VmapOptions::new()).unwrap(), &[xs]).unwrap()[0].to_f64_vec(), [16., 400.]);
}

/// A sequence with too few rows is rejected even if no step uses its rows. A custom derivative rule in the program does
/// not change this.
#[test]
fn rows_that_no_step_uses_are_missed_beside_derivative_rules() {
    let text = |start: &str| {
        format!(
            "fn @f(%xs: f64[T], %c0: f64[]) {{
  {start}
  %l: f64[] = scan @b {{steps=2}} {{
    seq %a: f64[] = %xs[t+2]
    carry %c: f64[] = %l from %q
    %0: f64[] = add %c, %c
    %l = %0
  }}
  return l=%l
}}"
        )
    };
    let call = "%q: f64[] = custom_jvp %c0 {
    function (%z: f64[]) {
      %9: f64[] = neg %z
      give %9
    }
    tangent (%z1: f64[], %y: f64[], %tz: f64[]) {
      %8: f64[] = neg %tz
      give %8
    }
  }";
    for start in ["%q: f64[] = neg %c0", call] {
        let graph = Graph::parse(&text(start)).unwrap();
        let rows = |count: usize| [HostTensor::zeros(DType::F64, &[count]), number(1.5)];
        assert_eq!(run(&graph, &rows(3)).unwrap_err().kind(), "Rows", "{start}");
        assert_eq!(run(&graph, &rows(4)).unwrap(), [-6.0], "{start}");
    }
}

/// A value that only a derivative rule captures is not computed, and therefore cannot fail. If the rule is used in the
/// body of a loop, the value is a capture of the loop: it is computed before the loop, and may fail.
#[test]
fn what_only_a_derivative_rule_uses_does_not_run() {
    let rate_of = |xs: Value| {
        let mut loop_ = funcify::Recurrence::new();
        let x = loop_.sequence(xs, [2]);
        let c = loop_.carry(xs.sum(0));
        let done = loop_.steps(2).run(|step| {
            let ([x], sum) = (step.read(&x), step.read(&c));
            step.write(&c, sum + x);
        });
        done.last(&c)
    };
    let scaled = |x: Value, rate: Value| funcify::custom_jvp(x, |x| -x, move |_, _, tx| tx * rate);
    let alone = built("model", |g| scaled(g.input("x", "f64[]"), rate_of(g.input("xs", "f64[T]"))));
    let rows = |count: usize| HostTensor::zeros(DType::F64, &[count]);
    assert_eq!(run(&alone, &[number(1.5), rows(3)]).unwrap(), [-1.5]);
    // The captures of a loop are computed before the loop.
    let in_a_body = built("model", |g| {
        let (x, xs) = (g.input("x", "f64[]"), g.input("xs", "f64[T]"));
        let rate = rate_of(xs);
        fori_loop(0, 3, x, move |_, x| scaled(x, rate))
    });
    assert_eq!(run(&in_a_body, &[number(1.5), rows(4)]).unwrap(), [-1.5]);
    assert_eq!(run(&in_a_body, &[number(1.5), rows(3)]).unwrap_err().kind(), "Rows");
}
