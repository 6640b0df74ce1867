//! Tests that third-party crates can add ops and backends: runs a third-party op on this workspace's backends, and this
//! workspace's ops on a third-party backend.

use funcify::dispatch::{
    Backend, CompileOptions, Executor, Function, LoopStrategy, Reference, backend_names, lowered_ops, open_backend,
    run_op,
};
use funcify::error::Site;
use funcify::ops::{Custom, Op};
use funcify::{Error, Graph, HostTensor, Result, Value, evaluate, grad, jvp, scan};
use funcify_burn::Burn;
use funcify_candle::Candle;
use funcify_tests::softplus::{Softplus, softplus, softplus_of};
use funcify_tests::toy::{Toy, ToyTensor};

/// Builds a recurrence over a state of shape `[2]`, whose step applies the third-party op.
fn recurrence() -> Graph {
    let graph = Graph::build("softplus_recurrence", |g| {
        let xs = g.input("xs", "f64[T,2]");
        let start = g.input("start", "f64[2]");
        let decay = g.input("decay", "f64[]");
        scan(start, xs, |state, x| {
            let next = softplus(state * decay + x, 3).tanh();
            (next, next - x)
        })
    });
    graph.unwrap()
}

fn arguments() -> Vec<HostTensor> {
    let xs = [[0.5f64, -1.0], [2.0, 0.25], [-0.75, 1.5], [0.0, -2.0]];
    vec![xs.into(), [0.1f64, -0.2].into(), 0.9f64.into()]
}

/// Runs the recurrence on a backend, unrolled and as a native loop, and compares the results with the reference
/// evaluator.
#[track_caller]
fn check_runs_on(backend: impl Backend) {
    let graph = recurrence();
    let expected = evaluate(&graph, &arguments()).unwrap();
    for strategy in [LoopStrategy::Unroll, LoopStrategy::Native] {
        let options = CompileOptions { strategy, ..CompileOptions::default() };
        let function = Function::compile_with(&graph, &backend, options).unwrap();
        let results = function.call_host(&arguments()).unwrap();
        for (result, expected) in results.iter().zip(&expected) {
            assert_eq!(result.ty(), expected.ty());
            for (found, expected) in result.to_f64_vec().into_iter().zip(expected.to_f64_vec()) {
                let at = format!("{} {}", backend.name(), strategy.name());
                assert!((found - expected).abs() <= 1e-12, "{at}: {found}, not {expected}");
            }
        }
    }
}

#[test]
fn the_recurrence_is_what_a_hand_written_loop_gives() {
    let [xs, start, _] = <[HostTensor; 3]>::try_from(arguments()).unwrap();
    let mut state = start.to_f64_vec();
    for x in xs.to_f64_vec().chunks(2) {
        state = state.iter().zip(x).map(|(state, x)| softplus_of(state * 0.9 + x, 3).tanh()).collect();
    }
    assert_eq!(evaluate(&recurrence(), &arguments()).unwrap()[0].to_f64_vec(), state);
}

#[test]
fn an_op_from_outside_runs_on_the_reference() {
    check_runs_on(Reference);
}

#[test]
fn an_op_from_outside_runs_on_a_backend_from_outside() {
    check_runs_on(Toy);
}

#[test]
fn an_op_from_outside_runs_on_candle() {
    check_runs_on(Candle::cpu());
}

#[test]
fn an_op_from_outside_runs_on_burn_flex() {
    check_runs_on(Burn::flex());
}

#[test]
fn an_op_from_outside_runs_on_burn_ndarray() {
    check_runs_on(Burn::ndarray());
}

#[test]
fn an_op_from_outside_does_not_overflow_on_any_backend() {
    let x = HostTensor::from_vec(vec![-800.0f64, -1.0, 0.0, 1.0, 800.0], [5]).unwrap();
    let op = Op::from(Custom::new(Softplus { beta: 2 }));
    let expected: Vec<f64> = x.to_f64_vec().into_iter().map(|x| softplus_of(x, 2)).collect();
    assert_eq!((expected[0], expected[2], expected[4]), (0.0, 2f64.ln() / 2.0, 800.0));
    let run = |result: Result<Vec<HostTensor>>| result.unwrap()[0].to_f64_vec();
    let x = [x];
    let results = [
        run(run_op(&Reference, &op, &x)),
        run(run_op(&Toy, &op, &x)),
        run(run_op(&Candle::cpu(), &op, &x)),
        run(run_op(&Burn::flex(), &op, &x)),
        run(run_op(&Burn::ndarray(), &op, &x)),
    ];
    for result in results {
        for (found, expected) in result.iter().zip(&expected) {
            assert!((found - expected).abs() <= 1e-12, "{found}, not {expected}");
        }
    }
}

#[test]
fn an_op_from_outside_round_trips_through_text_inside_a_loop() {
    let text = recurrence().to_string();
    assert!(text.contains("= softplus "), "{text}");
    assert!(text.contains("{beta=3}"), "{text}");
    let parsed = Graph::parse(&text).unwrap();
    assert_eq!(parsed.to_string(), text);
    let from_text = evaluate(&parsed, &arguments()).unwrap();
    assert_eq!(from_text, evaluate(&recurrence(), &arguments()).unwrap());
}

#[test]
fn the_text_of_an_op_from_outside_is_checked() {
    let text = |op: &str, ty: &str| format!("fn @f(%x: {ty}) {{\n  %y: {ty} = {op}\n  return y=%y\n}}\n");
    Graph::parse(&text("softplus %x {beta=1}", "f64[3]")).unwrap();
    let kind = |op: &str, ty: &str| Graph::parse(&text(op, ty)).unwrap_err().kind();
    assert_eq!(kind("softplus %x", "f64[3]"), "Parse");
    assert_eq!(kind("softplus %x {beta=-1}", "f64[3]"), "Parse");
    assert_eq!(kind("softplus %x {beta=1, gamma=2}", "f64[3]"), "Parse");
    assert_eq!(kind("softplus %x {beta=0}", "f64[3]"), "Type");
    assert_eq!(kind("softplus %x {beta=1}", "i64[3]"), "Type");
    assert_eq!(kind("softplus %x, %x {beta=1}", "f64[3]"), "Type");
}

#[test]
fn a_wrong_operand_is_an_error_with_the_users_line() {
    let error = Graph::build("wrong", |g| softplus(g.input("x", "i64[3]"), 1)).unwrap_err();
    assert!(matches!(&error, Error::Type { component, .. } if component == "the operand"), "{error}");
    assert_eq!(error.place().op, "softplus");
    assert!(matches!(error.place().site, Site::Rust(location) if location.file().ends_with("open_axes.rs")));
}

#[test]
fn a_missing_lowering_rule_is_an_error_when_compiling() {
    let mut line = 0;
    let graph = Graph::build("with_a_sine", |g| {
        let xs = g.input("xs", "f64[T]");
        let start = g.input("start", "f64[]");
        scan(start, xs, |state, x| {
            line = line!() + 1;
            let next = (state + x).sin();
            (next, next)
        })
    });
    let error = Function::compile(&graph.unwrap(), &Toy).err().unwrap();
    let Error::NoLoweringRule { at, backend, .. } = &error else { panic!("{error}") };
    assert_eq!((at.op.as_str(), backend.as_str()), ("sin", "toy"));
    let Site::Rust(location) = at.site else { panic!("{error}") };
    assert!(location.file().ends_with("open_axes.rs"), "{location}");
    assert_eq!(location.line(), line);
}

#[test]
fn an_op_that_no_output_needs_may_lack_a_lowering_rule() {
    let graph = Graph::build("dead_sine", |g| {
        let x = g.input("x", "f64[2]");
        x.sin();
        x + x
    });
    let function = Function::compile(&graph.unwrap(), &Toy).unwrap();
    let x = ToyTensor::new(&[2], vec![1.0, 2.0]).unwrap();
    assert_eq!(function.call(&[x]).unwrap()[0].elements(), [2.0, 4.0]);
}

#[test]
fn a_type_that_the_backend_does_not_support_is_an_error_when_compiling() {
    let graph = Graph::build("single", |g| g.input("x", "f32[2]").tanh()).unwrap();
    let error = Function::compile(&graph, &Toy).err().unwrap();
    assert!(matches!(&error, Error::Unsupported { what, .. } if what == "tensors of type f32[2]"), "{error}");
}

#[test]
fn arguments_that_disagree_about_a_size_are_an_error() {
    let graph = Graph::build("sum", |g| g.input("x", "f64[T]") + g.input("y", "f64[T]")).unwrap();
    let function = Function::compile(&graph, &Toy).unwrap();
    let [two, three] = [2, 3].map(|size| ToyTensor::new(&[size], vec![1.0; size]).unwrap());
    let error = function.call(&[two.clone(), three]).unwrap_err();
    assert_eq!(error.kind(), "Call", "{error}");
    assert_eq!(function.call(&[two.clone(), two]).unwrap()[0].elements(), [2.0, 2.0]);
}

#[test]
fn a_backend_from_outside_is_opened_by_name() {
    let names = backend_names();
    assert_eq!(names[0], "reference");
    assert!(names.contains(&"toy"), "{names:?}");
    let toy = open_backend("toy").unwrap();
    assert_eq!(toy.name(), "toy");
    assert_eq!(toy.lowered_ops(), ["add", "broadcast", "mul", "neg", "scan", "softplus", "sub", "tanh"]);
    assert!(!toy.has_fallback());
    let executable = toy.compile(&recurrence(), CompileOptions::default()).unwrap();
    assert_eq!(executable.call(&arguments()).unwrap().len(), 2);
    let unknown = open_backend("tory").err().unwrap();
    assert!(unknown.to_string().contains("toy"), "{unknown}");
}

#[test]
fn the_new_op_is_among_the_ops_of_each_backend() {
    assert!(lowered_ops::<Toy>().contains(&"softplus"));
    assert!(lowered_ops::<Candle>().contains(&"softplus"));
    assert!(lowered_ops::<Burn>().contains(&"softplus"));
    assert!(Executor::has_fallback(&Reference));
}

/// Checks that the third-party op's own rules provide derivatives of any order, including inside loops.
#[test]
fn the_new_op_has_derivatives() {
    let composed = |x: Value, beta: usize| (x * beta as f64).exp().log1p() / beta as f64;
    let second = |op: &dyn Fn(Value, usize) -> Value| {
        let graph = Graph::build("second", |g| {
            let (xs, w) = (g.input("xs", "f64[3]"), g.input("w", "f64[]"));
            let loss = |w: Value| scan(w, xs, |c, x| (op(c * x, 2), ())).0;
            (grad(w, loss), grad(w, |w| grad(w, loss)), jvp(w, w, loss).1)
        });
        evaluate(&graph.unwrap(), &[HostTensor::from([0.5f64, -1.0, 2.0]), HostTensor::scalar(0.75f64)]).unwrap()
    };
    for (found, expected) in second(&softplus).iter().zip(second(&composed)) {
        let (found, expected) = (found.to_f64_vec()[0], expected.to_f64_vec()[0]);
        assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
    }
}
