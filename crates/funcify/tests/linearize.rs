//! Tests linearization: derivatives agree with `jvp` for any number of tangents, and the function is evaluated only
//! once.

use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::prelude::*;
use funcify::{CheckpointPolicy, custom_jvp, custom_vjp, linearize, linearize_with};

fn vector(elements: [f64; 3]) -> HostTensor {
    HostTensor::from(elements)
}

#[track_caller]
fn close(found: &[HostTensor], expected: &[HostTensor], graph: &Graph) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.ty(), expected.ty());
        for (a, b) in found.to_f64_vec().iter().zip(expected.to_f64_vec()) {
            assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{found:?} is not {expected:?}\n{graph}");
        }
    }
}

/// Linearizes a function, and applies its derivative to two tangents, the second one inside a loop. Compares the value
/// and both derivatives with `jvp`. Checks both `linearize_with` and the two graphs of `Graph::linearize`.
#[track_caller]
fn check(f: impl Fn(Value) -> Value) {
    let inputs = [vector([0.3, 1.2, -0.4]), vector([1.0, -0.5, 2.0]), vector([0.0, 3.0, 0.25])];
    let expected = Graph::build("expected", |g| {
        let [x, v, w] = ["x", "v", "w"].map(|name| g.input(name, "f64[3]"));
        let [(y, a), (_, b)] = [v, w].map(|tangent| jvp(x, tangent, &f));
        (y, a, b)
    });
    let expected = evaluate(&expected.unwrap(), &inputs).unwrap();
    for policy in [CheckpointPolicy::SaveAll, CheckpointPolicy::Recompute] {
        let graph = Graph::build("linear", |g| {
            let [x, v, w] = ["x", "v", "w"].map(|name| g.input(name, "f64[3]"));
            let (y, derivative) = linearize_with(GradOptions::new().policy(policy.clone()), x, &f);
            let along_w = scan_with(ScanOptions::new().length(2), y, (), |_, ()| (derivative.apply(w), ())).0;
            (y, derivative.apply(v), along_w)
        });
        let graph = graph.unwrap_or_else(|error| panic!("{error}"));
        graph.check().unwrap_or_else(|errors| panic!("{errors:?}\n{graph}"));
        close(&evaluate(&graph, &inputs).unwrap(), &expected, &graph);
        let options = CompileOptions { strategy: LoopStrategy::Native, ..CompileOptions::default() };
        let function = Function::compile_with(&graph, &Reference, options).unwrap();
        close(&function.call_host(&inputs).unwrap(), &expected, &graph);

        let function = Graph::build("f", |g| f(g.input("x", "f64[3]"))).unwrap();
        let (forward, linear) = function.linearize(.., GradOptions::new().policy(policy)).unwrap();
        forward.check().unwrap_or_else(|errors| panic!("{errors:?}\n{forward}"));
        let mut results = evaluate(&forward, &inputs[..1]).unwrap();
        let residuals = results.split_off(1);
        close(&results, &expected[..1], &forward);
        for (tangent, expected) in inputs[1..].iter().zip(&expected[1..]) {
            let arguments = [std::slice::from_ref(tangent), &residuals].concat();
            close(&evaluate(&linear, &arguments).unwrap(), std::slice::from_ref(expected), &linear);
        }
    }
}

#[test]
fn straight_lines_and_loops() {
    check(|x| x.sin() * x.exp() + x.sum(0).square());
    check(|x| x * 2.0);
    check(|x| scan(x, x, |c, x| ((c * x).tanh(), c.sin())).1.sum(0));
    check(|x| scan(x.sum(0), x, |c, x| (c * x, c)).1);
    check(|x| scan_with(ScanOptions::new().reverse(), x, x, |c, x| ((c + x).sin() * c, ())).0);
    check(|x| associative_scan(x, |a, b| a * b + a));
    check(|x| vmap(x, |x| x.exp() * x));
}

#[test]
fn choices_and_loops_that_end_late() {
    check(|x| cond(x.sum(0).gt(0.0), || x.sin(), || x));
    check(|x| while_loop(x, |x| x.sum(0).lt(20.0), |x| x * 1.5 + 1.0));
    check(|x| while_loop(x, |x| x.sum(0).lt(20.0), |x| x.exp() + 1.0));
    check(|x| fori_loop(0, constant(HostTensor::scalar(4i64)), x, |_, x| x * 0.5));
    check(|x| fori_loop(0, constant(HostTensor::scalar(4i64)), x, |_, x| x.sin()));
    check(|x| scan_until(x, x, |c, x| (c * x, c.sum(0), x.gt(1.0))).0);
}

#[test]
fn functions_with_rules() {
    check(|x| custom_vjp(x, |x| x * x, |x| (x * x, x), |x, ct| ct * x * 5.0));
    check(|x| custom_jvp(x, |x| x * x, |x, y, tangent| tangent * x * y).sin());
    check(|x| scan(x, x, |c, x| (custom_vjp(c, |c| c.sin(), |c| (c.sin(), c), |c, ct| ct * c.exp()) * x, ())).0);
}

#[test]
fn structures_integers_and_what_is_disconnected() {
    let graph = Graph::build("f", |g| {
        let (x, n) = (g.input("x", "f64[]"), g.input("n", "i64[]"));
        let (ys, derivative) = linearize((x, [n]), |(x, [n])| (x * n.cast(DType::F64), n + 1, x.stop_gradient()));
        (ys, derivative.apply((x, [n])))
    });
    let graph = graph.unwrap();
    graph.check().unwrap();
    let results = evaluate(&graph, &[HostTensor::scalar(2f64), HostTensor::scalar(3i64)]).unwrap();
    let (float, int) = (HostTensor::scalar::<f64>, HostTensor::scalar::<i64>);
    assert_eq!(results, [float(6.), int(4), float(2.), float(6.), int(0), float(0.)]);
}

/// The function is evaluated once, whatever the number of tangents.
#[test]
fn the_function_is_computed_once() {
    let graph = Graph::build("once", |g| {
        let (x, xs) = (g.input("x", "f64[3]"), g.input("xs", "f64[9,3]"));
        let f = |x: Value| scan(x.exp(), xs, |c, x| ((c * x).tanh(), ())).0.sin();
        let (y, derivative) = linearize(x, f);
        [y, derivative.apply(x), derivative.apply(y), derivative.apply(x * y)]
    });
    let text = graph.unwrap().to_string();
    let count = |word: &str| text.lines().filter(|line| line.contains(&format!("= {word} "))).count();
    let counts = ["exp", "tanh", "sin", "cos", "scan"].map(count);
    // One loop evaluates the function, one loop computes the values that do not depend on the tangents, and each
    // tangent has its own loop.
    assert_eq!(counts, [1, 1, 1, 1, 5], "{text}");
}

#[test]
fn it_is_differentiated_and_batched() {
    let f = |x: Value| x.sin() * x;
    let graph = Graph::build("twice", |g| {
        let x = g.input("x", "f64[3]");
        let slope = |x: Value| linearize(x, f).1.apply(x.ones_like()).sum(0);
        let (_, derivative) = linearize(x, f);
        let columns = vmap(x, |scale| derivative.apply(x.ones_like() * scale));
        let gradient = |x| grad(x, |x| f(x).sum(0));
        (grad(x, slope), grad(x, |x| gradient(x).sum(0)), columns, x.unsqueeze(1) * gradient(x))
    });
    let graph = graph.unwrap();
    let results = evaluate(&graph, &[vector([0.3, 1.2, -0.4])]).unwrap();
    close(&[results[0].clone(), results[2].clone()], &[results[1].clone(), results[3].clone()], &graph);
}

#[test]
fn what_it_refuses() {
    let assert_rejected = |program: &dyn Fn(&Builder) -> Value, kind: &str, says: &str| {
        let error = Graph::build("model", program).expect_err("it is rejected");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    let clip = |x: Value| custom_vjp(x, |x| x, |x| (x, ()), |(), ct| ct.clamp(-1.0, 1.0));
    assert_rejected(&|g| linearize(g.input("x", "f64[]"), clip).0, "NoDerivative", "not linear in the cotangents");
    let wrong = |g: &Builder| linearize(g.input("x", "f64[3]"), |x| x.sin()).1.apply(g.input("v", "f64[2]"));
    assert_rejected(&wrong, "Type", "the tangent of leaf `x`");
    let graph = Graph::build("model", |g| clip(g.input("x", "f64[]"))).unwrap();
    assert_eq!(graph.linearize(.., GradOptions::new()).unwrap_err().kind(), "NoDerivative");
    assert_eq!(graph.linearize("z", GradOptions::new()).unwrap_err().kind(), "Type");
}
