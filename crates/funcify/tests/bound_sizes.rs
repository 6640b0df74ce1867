//! Tests sizes that are bound at run time, in the reference evaluator and in compiled programs.

use funcify::VmapOptions;
use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::prelude::*;
use funcify::rewrite::RewriteOptions;
use funcify::stepped::Steppable;

fn build<T: Tree>(program: impl FnOnce(&Builder) -> T) -> Graph {
    Graph::build("sized", program).unwrap_or_else(|error| panic!("{error}"))
}

/// Evaluates a graph. Asserts that compiled programs return the same results as the reference evaluator, with several
/// loop strategies, with and without rewrites. Also asserts that the graph survives a round trip through its text form.
#[track_caller]
fn run(graph: &Graph, inputs: &[HostTensor]) -> Vec<HostTensor> {
    graph.check().unwrap_or_else(|errors| panic!("{errors:?}\n{graph}"));
    let text = graph.to_string();
    let read = Graph::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read.difference(graph), None, "{text}");
    let results = evaluate(graph, inputs).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    for strategy in [LoopStrategy::Auto, LoopStrategy::Native, LoopStrategy::Unroll] {
        for rewrites in [None, Some(RewriteOptions::default())] {
            let options = CompileOptions { strategy, rewrites, ..CompileOptions::default() };
            let found = Function::compile_with(graph, &Reference, options).and_then(|f| f.call_host(inputs));
            match found {
                Err(Error::StepCountNotStatic { .. }) if strategy == LoopStrategy::Unroll => {}
                found => assert_eq!(found.unwrap_or_else(|error| panic!("{error}\n{graph}")), results, "{graph}"),
            }
        }
    }
    results
}

/// Asserts that a call fails with the same error in the reference evaluator and in compiled programs.
#[track_caller]
fn assert_rejected(graph: &Graph, inputs: &[HostTensor], kind: &str, says: &str) {
    let error = evaluate(graph, inputs).expect_err("it is rejected");
    for rewrites in [None, Some(RewriteOptions::default())] {
        let options = CompileOptions { rewrites, ..CompileOptions::default() };
        let function = Function::compile_with(graph, &Reference, options).unwrap();
        let other = function.call_host(inputs).expect_err("it is rejected");
        for error in [&error, &other] {
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(says), "{error}\ndoes not say: {says}");
        }
    }
}

fn row(n: impl Into<Vec<f64>>) -> HostTensor {
    let numbers = n.into();
    let count = numbers.len();
    HostTensor::from_vec(numbers, [count]).unwrap()
}

fn number(n: i64) -> HostTensor {
    HostTensor::scalar(n)
}

/// Returns the first `n` rows of `xs`.
fn head(xs: Value, n: Value) -> Value {
    xs.slice(0, ..bind_size(n))
}

/// Counts the positive elements of `xs`.
fn positive(xs: Value) -> Value {
    xs.gt(0.0).cast(DType::I64).sum(0)
}

/// Checks bind-c1: a symbol is bound only once.
#[test]
fn a_symbol_is_bound_once() {
    for twice in ["%xs: f32[N]", "%xs: f32[2]"] {
        let again = if twice.contains('N') { "" } else { "  bind_size %n {size=N}\n" };
        let text = format!("fn @f({twice}, %n: i64[]) {{\n{again}  bind_size %n {{size=N}}\n  return\n}}");
        let errors = Graph::parse(&text).unwrap().check().unwrap_err();
        assert!(errors[0].to_string().contains("`N`, which already has a size"), "{}", errors[0]);
    }
    let text = "fn @f(%x: f32[]) {\n  %0: f32[$1] = broadcast %x {shape=[$1]}\n  return y=%0\n}";
    let error = Graph::parse(text).unwrap_err().to_string();
    assert!(error.contains("`$1`, which has no size"), "{error}");
}

#[test]
fn slices_and_allocations_have_the_size() {
    let graph = build(|g| {
        let xs = g.input("xs", "f64[T]");
        let n = bind_size(positive(xs));
        let made = full([n.clone(), Dim::from(2)], DType::F64, 0.5).sum(..);
        let scaled = xs.slice(0, ..n.clone()) * iota(n.clone(), DType::F64);
        (scaled, made, size(n.clone() * 2, DType::I64), xs.slice(0, n..))
    });
    for (xs, head, made, rest) in [
        (vec![3.0, -1.0, 2.0, 4.0], vec![0.0, -1.0, 4.0], 3.0, vec![4.0]),
        (vec![-3.0, -1.0], vec![], 0.0, vec![-3.0, -1.0]),
    ] {
        let results = run(&graph, &[row(xs)]);
        let count = number(2 * head.len() as i64);
        assert_eq!(results, [row(head), HostTensor::scalar(made), count, row(rest)]);
    }
}

/// A size that is bound to a constant becomes static.
#[test]
fn a_constant_is_a_size() {
    let graph = build(|g| (head(g.input("xs", "f64[T]"), constant(2i64)), iota(bind_size(constant(3u32)), DType::I64)));
    let results = run(&graph, &[row([1.0, 2.0, 3.0])]);
    assert_eq!(results, [row([1.0, 2.0]), HostTensor::from([0i64, 1, 2])]);
}

/// Checks bind-c2: a negative size causes a run-time error, which points to the user's line.
#[test]
fn a_negative_size_is_refused_with_its_line() {
    let graph = build(|g| iota(bind_size(g.input("n", "i64[]")), DType::F64).sum(0));
    assert_rejected(&graph, &[number(-3)], "Type", "bind_size: the size `$1` does not fit");
    assert_rejected(&graph, &[number(-3)], "Type", "-3");
    assert_rejected(&graph, &[number(-3)], "Type", "bound_sizes.rs");
    // An op that binds a negative size fails even if a rewrite removes all uses of the size.
    let graph = build(|g| {
        let (n, x) = (g.input("n", "i64[]"), g.input("x", "f64[]"));
        select(constant(true), x, size(bind_size(n), DType::F64))
    });
    assert_rejected(&graph, &[number(-1), HostTensor::scalar(1.0)], "Type", "-1");
}

/// The memory budget is checked before anything is allocated.
#[test]
fn a_large_size_is_refused_before_it_is_made() {
    let graph = build(|g| iota(bind_size(g.input("n", "i64[]")), DType::F64).sum(0));
    assert_rejected(&graph, &[number(1 << 50)], "OverBudget", "f64[$1]");
    assert_rejected(&graph, &[number(i64::MAX)], "OverBudget", "f64[$1]");
    let graph = build(|g| head(g.input("xs", "f64[T]"), g.input("n", "i64[]")));
    assert_rejected(&graph, &[row([1.0, 2.0]), number(3)], "Type", "0 <= start <= limit <= 2");
}

/// Each step binds its own size. Only code that does not depend on this size may be hoisted out of the loop.
#[test]
fn a_step_binds_a_size_of_its_own() {
    let graph = build(|g| {
        let [xs, a] = [g.input("xs", "f64[T]"), g.input("a", "f64[T]")];
        let counts = g.input("counts", "i64[B]");
        let sums = scan(a.index(0, 0), counts, |sum, n| {
            let sum = sum + head(xs * (a * a).exp(), n).sum(0);
            (sum, sum)
        });
        let doubled = while_loop(counts.index(0, 0), |n| n.lt(4), |n| n + size(bind_size(n), DType::I64) + 1);
        (sums.1, doubled, fori_loop(0, 3, 0.0 * xs.index(0, 0), |i, sum| sum + head(xs, i).sum(0)))
    });
    let inputs = [row([1.0, 2.0, 4.0]), row([0.0, 0.0, 0.0]), HostTensor::from([1i64, 3, 0])];
    let results = run(&graph, &inputs);
    assert_eq!(results, [row([1.0, 8.0, 8.0]), number(7), HostTensor::scalar(4.0)]);
}

/// A branch that is not taken does not bind its sizes, so invalid sizes in it cause no error.
#[test]
fn a_branch_that_does_not_run_binds_nothing() {
    let graph = build(|g| {
        let (xs, n) = (g.input("xs", "f64[T]"), g.input("n", "i64[]"));
        cond(n.ge(0), || head(xs, n).sum(0), || xs.sum(0) * head(xs, constant(-2i64) + n.zeros_like() + 3).sum(0))
    });
    assert_eq!(run(&graph, &[row([1.0, 2.0, 4.0]), number(2)]), [HostTensor::scalar(3.0)]);
    assert_eq!(run(&graph, &[row([1.0, 2.0, 4.0]), number(-2)]), [HostTensor::scalar(7.0)]);
    let graph = build(|g| {
        let x = g.input("x", "f64[]");
        cond(x.gt(0.0), || x, || full([bind_size(constant(-1i64))], DType::F64, 1.0).sum(0))
    });
    assert_eq!(run(&graph, &[HostTensor::scalar(2.0)]), [HostTensor::scalar(2.0)]);
}

/// A bound size can be the length of a sequence that a loop reads, or the number of steps of a loop.
#[test]
fn a_loop_has_the_size() {
    let graph = build(|g| {
        let (xs, n) = (g.input("xs", "f64[T]"), g.input("n", "i64[]"));
        let sums = scan(xs.sum(0) * 0.0, head(xs, n), |sum, x| (sum + x, sum + x)).1;
        let mut loop_ = Recurrence::new();
        let state = loop_.sit_sot(xs.index(0, 0));
        let done = loop_.steps(bind_size(n + 1)).run(|step| {
            let [old] = step.read(&state);
            step.write(&state, old * 2.0);
        });
        (sums, done.trace(&state))
    });
    let results = run(&graph, &[row([1.0, 2.0, 4.0]), number(2)]);
    assert_eq!(results, [row([1.0, 3.0]), row([2.0, 4.0, 8.0])]);
}

/// Differentiates a program that binds sizes outside and inside a loop, in forward mode and in reverse mode, and
/// computes its Hessian.
#[test]
fn what_has_the_size_is_differentiated() {
    let graph = build(|g| {
        let (xs, counts) = (g.input("xs", "f64[T]"), g.input("counts", "i64[B]"));
        let cubes = |n: Value| {
            let rows = bind_size(n);
            (xs.slice(0, ..rows.clone()).square() * xs.slice(0, ..rows.clone()) * (iota(rows, DType::F64) + 1.0)).sum(0)
        };
        scan(xs.sum(0) * 0.0, counts, |sum, n| (sum + cubes(n), ())).0 + cubes(counts.index(0, 0))
    });
    let inputs = [row([1.0, 2.0, 4.0]), HostTensor::from([2i64, 0, 3])];
    let gradient = graph.grad("xs", GradOptions::new()).unwrap();
    // The element x in row i of `xs` adds (i + 1) x^3 to the result for each bound size greater than i. The first two
    // rows count three times, and the last row once.
    let expected = row([3.0 * 3.0, 3.0 * 3.0 * 2.0 * 4.0, 3.0 * 3.0 * 16.0]);
    assert_eq!(run(&gradient, &inputs), [expected]);
    let hessian = graph.hessian("xs", GradOptions::new()).unwrap();
    let expected = [18.0, 0.0, 0.0, 0.0, 72.0, 0.0, 0.0, 0.0, 72.0];
    assert_eq!(run(&hessian, &inputs)[0].to_f64_vec(), expected);
    let jvp = graph.jvp("xs").unwrap();
    let tangent = run(&jvp, &[inputs.as_slice(), &[row([1.0, 0.0, 1.0])]].concat()).pop().unwrap();
    assert_eq!(tangent, HostTensor::scalar(9.0 + 144.0));
}

/// The cotangent of a result with a bound size must have as many rows as the result.
#[test]
fn a_result_has_the_size() {
    let graph = build(|g| head(g.input("xs", "f64[T]"), g.input("n", "i64[]")).square());
    let pulled = graph.vjp("xs", GradOptions::new()).unwrap();
    let inputs = [row([1.0, 2.0, 4.0]), number(2), row([1.0, 10.0])];
    assert_eq!(run(&pulled, &inputs).pop().unwrap(), row([2.0, 40.0, 0.0]));
}

#[test]
fn lanes_share_a_size_or_reduce_over_their_own() {
    let graph = build(|g| {
        let (xs, n) = (g.input("xs", "f64[3]"), g.input("n", "i64[]"));
        let rows = bind_size(n);
        let made = full([rows.clone()], DType::F64, 1.5) * xs.index(0, 0) * iota(rows.clone(), DType::F64);
        made.sum(0) + size(rows, DType::F64)
    });
    let xs = HostTensor::from([[1.0, 2.0, 4.0], [2.0, 0.0, 1.0]]);
    let all = graph.vmap(2, VmapOptions::new().in_axes([("xs", 0)])).unwrap();
    assert_eq!(run(&all, &[xs.clone(), number(3)]), [row([7.5, 12.0])]);
    let all = graph.vmap(2, VmapOptions::new()).unwrap();
    let counts = HostTensor::from([1i64, 3]);
    assert_eq!(run(&all, &[xs.clone(), counts.clone()]), [row([1.0, 12.0])]);
    assert_rejected(&all, &[xs.clone(), HostTensor::from([1i64, -3])], "Type", "-3");
    let gradient = graph.grad("xs", GradOptions::new()).unwrap().vmap(2, VmapOptions::new()).unwrap();
    assert_eq!(run(&gradient, &[xs.clone(), counts])[0].to_f64_vec(), [0.0, 0.0, 0.0, 4.5, 0.0, 0.0]);
    // If `n` has no lanes, all lanes have the same size. If `n` has lanes, the program is rejected, because its results
    // would be ragged.
    let heads = build(|g| head(g.input("xs", "f64[3]"), g.input("n", "i64[]")));
    let error = heads.vmap(2, VmapOptions::new()).unwrap_err();
    assert!(error.kind() == "StepCount" && error.to_string().contains("ragged"), "{error}");
    let shared = heads.vmap(2, VmapOptions::new().in_axes([("xs", 0)])).unwrap();
    let expected = HostTensor::from([[1.0, 2.0], [2.0, 0.0]]);
    assert_eq!(run(&shared, &[xs, number(2)]), [expected]);
}

/// Each lane reads its own rows, of which some are proved to exist by bounds on the number.
#[test]
fn lanes_reverse_and_slice_their_own_rows() {
    let graph = build(|g| {
        let (xs, ns) = (g.input("xs", "f64[4]"), g.input("n", "i64[B]"));
        vmap(ns, |n| {
            let rows = bind_size(n.minimum(4).maximum(1));
            let own = xs.slice(0, ..rows.clone());
            let weights = iota(rows.clone(), DType::F64) + 1.0;
            let last = own.slice(0, rows.clone() - 1..).sum(0);
            let (folded, ()) = scan(last.zeros_like(), own.reverse(0), |sum, x| (sum * 0.5 + x, ()));
            ((own.reverse(0) * weights).sum(0), last, xs.slice(0, rows..).sum(0), folded)
        })
    });
    let inputs = [row([1.0, 2.0, 4.0, 8.0]), HostTensor::from([3i64, 0, 9])];
    let expected = [row([11.0, 1.0, 26.0]), row([4.0, 1.0, 8.0]), row([8.0, 14.0, 0.0]), row([3.0, 1.0, 4.0])];
    assert_eq!(run(&graph, &inputs), expected);
}

/// A lane that skips a branch, or whose loop has ended, does not bind the sizes of that branch or loop, so invalid
/// sizes there cause no error.
#[test]
fn a_lane_that_does_not_run_gives_no_size() {
    let sum = |n: Value| iota(bind_size(n), DType::F64).sum(0);
    let graph = build(|g| {
        vmap((g.input("n", "i64[3]"), g.input("p", "bool[3]")), |(n, p)| {
            let guarded = cond(n.ge(0), || sum(n), || sum(-n) + 0.5);
            let counted = while_loop((n, sum(n.zeros_like())), |(n, _)| n.gt(0), |(n, s)| (n - 1, s + sum(n - 1))).1;
            (guarded, counted, cond(p, || sum(n.zeros_like() + 2), || sum(constant(-1i64))))
        })
    });
    let inputs = [HostTensor::from([-3i64, 4, 0]), HostTensor::from([true, true, true])];
    let results = run(&graph, &inputs);
    assert_eq!(results, [row([3.5, 6.0, 0.0]), row([0.0, 4.0, 0.0]), row([1.0, 1.0, 1.0])]);
    assert_rejected(&graph, &[inputs[0].clone(), HostTensor::from([true, false, true])], "Type", "-1");
}

/// Checks bind-c1: a size that a body binds must not appear in its results.
#[test]
fn nothing_of_the_size_leaves_a_body() {
    let says = |program: &dyn Fn(&Builder) -> Value| {
        let error = Graph::build("escapes", program).unwrap_err();
        assert_eq!(error.kind(), "Type", "{error}");
        let text = error.to_string();
        assert!(text.contains("itself binds `$1`") && text.contains("bound_sizes.rs"), "{text}");
    };
    says(&|g| {
        let xs = g.input("xs", "f64[T]");
        map(g.input("counts", "i64[B]"), |n| head(xs, n))
    });
    says(&|g| {
        let (xs, n) = (g.input("xs", "f64[T]"), g.input("n", "i64[]"));
        cond(n.gt(1), || head(xs, n), || xs)
    });
}

#[test]
fn the_straight_program_has_numbers_for_sizes() {
    let graph = build(|g| {
        let (xs, counts) = (g.input("xs", "f64[T]"), g.input("counts", "i64[B]"));
        scan(xs.sum(0) * 0.0, counts, |sum, n| (sum + head(xs, n).sum(0), ())).0
    });
    let inputs = [row([1.0, 2.0, 4.0]), HostTensor::from([2i64, 3])];
    let straight = graph.straight(&inputs).unwrap();
    assert!(!straight.to_string().contains("bind_size"), "{straight}");
    assert_eq!(run(&straight, &inputs), run(&graph, &inputs));
    assert!(funcify::to_dot(&graph).contains("bind_size {size=$"), "{}", funcify::to_dot(&graph));
}

/// A single-step program binds one size before the first step, and another size in each step.
#[test]
fn a_program_of_one_step_binds_sizes() {
    let graph = build(|g| {
        let (xs, n, w) = (g.input("xs", "f64[T,3]"), g.input("n", "i64[]"), g.input("w", "f64[4]"));
        let first = head(w, n);
        let width = first.sum(0);
        scan(first, xs, |h, x| {
            let h = h * 0.5 + x.sum(0);
            (h, h.sum(0) + width + iota(bind_size(positive(x)), DType::F64).sum(0))
        })
    });
    let xs = HostTensor::from([[1.0, 2.0, -1.0], [0.0, 1.0, 3.0]]);
    let w = row([1.0, 2.0, 3.0, 4.0]);
    let whole = run(&graph, &[xs.clone(), number(2), w.clone()]);
    let stepped = graph.stepped().unwrap();
    let mut states = run(&stepped.start, &[number(2), w]);
    let shared = states.split_off(stepped.states);
    for step in 0..2 {
        let mut results = run(&stepped.step, &[states, vec![xs.row(step)], shared.clone()].concat());
        let outputs = results.split_off(stepped.states);
        states = results;
        assert_eq!(outputs[1], whole[1].row(step));
    }
    assert_eq!(states[0], whole[0]);
}
