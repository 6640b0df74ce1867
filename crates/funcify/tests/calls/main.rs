//! Tests calls with custom derivative rules. The rules are deliberately wrong, so that a result shows whether the rule
//! was used or the function was differentiated.

mod itself;

use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::prelude::*;
use funcify::{CheckpointPolicy, checkpoint, custom_jvp, custom_vjp};

/// Computes x^2, with the custom reverse-mode derivative 10 x.
fn square(x: Value) -> Value {
    custom_vjp(x, |x| x * x, |x| (x * x, x), |x, ct| ct * x * 10.0)
}

/// Computes y = x^3, with the custom forward-mode derivative 10 y.
fn cube(x: Value) -> Value {
    custom_jvp(x, |x| x * x * x, |_, y, tangent| tangent * y * 10.0)
}

#[track_caller]
fn build<T: Tree>(program: impl FnOnce(&Builder) -> T) -> Graph {
    let graph = Graph::build("model", program).unwrap_or_else(|error| panic!("{error}"));
    graph.check().unwrap_or_else(|errors| panic!("{errors:?}\n{graph}"));
    let text = graph.to_string();
    assert_eq!(Graph::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).to_string(), text);
    graph
}

/// Asserts that the program returns these numbers for `x`, both in the reference evaluator and when compiled.
#[track_caller]
fn check<T: Tree>(program: impl FnOnce(Value) -> T, x: impl Into<HostTensor>, expected: &[&[f64]]) {
    let x = x.into();
    let graph = build(|g| program(g.input("x", x.ty())));
    let results = evaluate(&graph, std::slice::from_ref(&x)).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    let found: Vec<Vec<f64>> = results.iter().map(HostTensor::to_f64_vec).collect();
    assert_eq!(found, expected, "{graph}");
    for strategy in [LoopStrategy::Auto, LoopStrategy::Native] {
        let options = CompileOptions { strategy, ..CompileOptions::default() };
        let function = Function::compile_with(&graph, &Reference, options).unwrap();
        assert_eq!(function.call_host(std::slice::from_ref(&x)).unwrap(), results, "{graph}");
    }
}

#[track_caller]
fn assert_rejected<T: Tree>(program: impl FnOnce(&Builder) -> T, kind: &str, says: &str) {
    let Err(error) = Graph::build("model", program) else { panic!("it is not rejected") };
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}\ndoes not say: {says}");
}

#[test]
fn the_function_is_what_runs() {
    check(|x| (square(x), cube(x)), 3.0, &[&[9.], &[27.]]);
}

#[test]
fn the_rule_is_the_derivative_in_both_modes() {
    check(|x| (grad(x, square), jvp(x, x.ones_like(), square).1), 3.0, &[&[30.], &[30.]]);
    check(|x| (grad(x, cube), jvp(x, x.ones_like(), cube).1), 3.0, &[&[270.], &[270.]]);
}

/// Higher derivatives differentiate the rule: 10 x has the derivative 10, and 10 y has the derivative 100 y.
#[test]
fn higher_orders_are_those_of_the_rule() {
    check(|x| (grad(x, |x| grad(x, square)), hvp(x, x.ones_like(), square)), 3.0, &[&[10.], &[10.]]);
    check(|x| (grad(x, |x| grad(x, cube)), hvp(x, x.ones_like(), cube)), 3.0, &[&[2700.], &[2700.]]);
    let forward = |f: fn(Value) -> Value| move |x: Value| jvp(x, x.ones_like(), f).1;
    check(|x| grad(x, forward(square)), 3.0, &[&[10.]]);
    check(|x| grad(x, forward(cube)), 3.0, &[&[2700.]]);
    check(|x| jvp(x, x.ones_like(), forward(square)).1, 3.0, &[&[10.]]);
    check(|x| grad(x, |x| grad(x, |x| grad(x, cube))), 3.0, &[&[27000.]]);
}

/// Calls in loops, branches and recomputed code keep their rules under every checkpoint policy.
#[test]
fn bodies_keep_the_rule() {
    let chain =
        |f: fn(Value) -> Value| move |x: Value| scan_with(ScanOptions::new().length(2), x, (), |c, ()| (f(c), ())).0;
    // The derivative of two successive calls is 10 x * 10 x^2 for `square`, and 10 x^3 * 10 x^9 for `cube`.
    check(|x| grad(x, chain(square)), 2.0, &[&[20. * 40.]]);
    check(|x| jvp(x, x.ones_like(), chain(square)).1, 2.0, &[&[20. * 40.]]);
    check(|x| grad(x, chain(cube)), 2.0, &[&[80. * 5120.]]);
    check(|x| grad(x, |x| cond(x.gt(0.0), || square(x), || x)), 2.0, &[&[20.]]);
    check(|x| grad(x, |x| checkpoint(|| square(x).sin() * 0.0 + cube(x))), 2.0, &[&[80.]]);
    check(|x| grad(x, |x| checkpoint(|| square(x))), 2.0, &[&[20.]]);
    let looped = Graph::build("looped", |g| chain(square)(g.input("x", "f64[]"))).unwrap();
    for policy in [CheckpointPolicy::Recompute, CheckpointPolicy::SaveDots, CheckpointPolicy::SaveAll] {
        let gradient = looped.grad(.., GradOptions::new().policy(policy)).unwrap();
        gradient.check().unwrap();
        assert_eq!(evaluate(&gradient, &[HostTensor::scalar(2f64)]).unwrap(), [HostTensor::scalar(800f64)]);
    }
}

/// Returns n w sum(x) and n + 1, where the sum is over the last axis of x. The custom rule doubles the derivative with
/// respect to x, and triples the derivative with respect to w.
fn scaled(x: Value, n: Value, w: Value) -> (Value, Value) {
    let f = |(x, n, w): (Value, Value, Value)| ((x * w).sum(-1) * n.cast(DType::F64), n + 1);
    custom_vjp(
        (x, n, w),
        f,
        |xs| (f(xs), (xs.0, xs.1, xs.2)),
        |(x, n, w), (ct, of_count)| {
            let ct = ct * n.cast(DType::F64) + of_count.cast(DType::F64);
            ((ct * w * 2.0).broadcast_to(x.shape()), (), (ct * x).sum(0) * 3.0)
        },
    )
}

#[test]
fn integers_have_no_cotangents() {
    let program = |x: Value| {
        let (n, w) = (funcify::constant(HostTensor::scalar(5i64)), x.sum(0));
        let f = |(x, w)| scaled(x, n, w);
        let ((y, count), pulled) = vjp((x, w), f, |(y, count)| (y.ones_like(), *count));
        let (_, (pushed, none)) = jvp((x, w), (x.ones_like(), w.ones_like()), f);
        (y, count, pulled, pushed, none)
    };
    // y = 5 w sum(x). The rule returns 10 w for each element of x, and 15 sum(x) for w.
    check(program, [1.0, 2.0], &[&[45.], &[6.], &[30., 30.], &[45.], &[60. + 45.], &[0.]]);
}

/// Any of the arguments may have lanes. The cotangent of an argument without lanes is summed over the lanes of the
/// others.
#[test]
fn lanes() {
    let xs = [1.0, 2.0, 3.0];
    check(|xs| vmap(xs, |x| grad(x, square)), xs, &[&[10., 20., 30.]]);
    check(|xs| vmap(xs, |x| jvp(x, x, cube).1), xs, &[&[10., 160., 810.]]);
    check(|xs| grad(xs, |xs| vmap(xs, square).sum(0)), xs, &[&[10., 20., 30.]]);
    check(|xs| jvp(xs, xs, |xs| vmap(xs, cube)).1, xs, &[&[10., 160., 810.]]);
    let product = |x: Value, w: Value| {
        custom_vjp((x, w), |(x, w)| x * w, |(x, w)| (x * w, (x, w)), |(x, w), ct| (ct * w * 2.0, ct * x * 3.0))
    };
    let shared = |xs: Value| {
        let w = xs.sum(0);
        let (of_xs, of_w) = grad((xs, w), |(xs, w)| vmap(xs, |x| product(x, w)).sum(0));
        (of_xs, of_w, jvp((xs, w), (xs, w), |(xs, w)| vmap(xs, |x| product(x, w))).1)
    };
    check(shared, xs, &[&[12., 12., 12.], &[18.], &[30., 60., 90.]]);
    // Even if only a value captured by `backward` has lanes, the results have lanes, and each lane has its own
    // cotangent.
    let captured = |xs: Value| {
        let x = xs.sum(0);
        grad(x, |x| (vmap(xs, |scale| custom_vjp(x, |x| x, |x| (x, ()), |(), ct| ct * scale)) * xs).sum(0))
    };
    check(captured, xs, &[&[14.]]);
    let captured = |xs: Value| {
        let x = xs.sum(0);
        grad(x, |x| (vmap(xs, |scale| custom_jvp(x, |x| x, |_, _, tangent| tangent * scale)) * xs).sum(0))
    };
    check(captured, xs, &[&[14.]]);
}

/// Checks call-c4: derivatives with respect to captured values are rejected.
#[test]
fn what_is_captured_is_not_differentiated() {
    let by_vjp = |x: Value, w: Value| custom_vjp(x, |x| x * w, |x| (x * w, ()), |(), ct| ct * w);
    let by_jvp = |x: Value, w: Value| custom_jvp(x, |x| x * w, |_, _, tangent| tangent * w);
    let says = "captured value `w` of `function` has no derivative";
    for f in [by_vjp as fn(Value, Value) -> Value, by_jvp] {
        let gradient = |g: &Builder| grad([g.input("x", "f64[]"), g.input("w", "f64[]")], |[x, w]| f(x, w.named("w")));
        assert_rejected(gradient, "NoDerivative", says);
        assert_rejected(|g| grad(g.input("w", "f64[]"), |w| f(w.ones_like(), w)), "NoDerivative", "stop_gradient");
        let forward = |g: &Builder| jvp(g.input("w", "f64[]"), g.input("v", "f64[]"), |w| f(w.ones_like(), w)).1;
        assert_rejected(forward, "NoDerivative", "pass the value as an argument");
        let looped = |g: &Builder| {
            let xs = g.input("xs", "f64[T]");
            grad(g.input("w", "f64[]"), |w| scan(w, xs, |c, x| (c + f(x, w), ())).0)
        };
        assert_rejected(looped, "NoDerivative", "captured value");
        check(|x| grad(x, |x| f(x, x.stop_gradient())), 3.0, &[&[3.]]);
        check(|x| jvp(x, x, |x| f(x, x.stop_gradient())).1, 3.0, &[&[9.]]);
        // Captures may depend on the variable of an outer derivative, but not on the variable of the inner one.
        check(|x| grad(x, |w| grad(w.ones_like() * 2.0, |x| f(x, w))), 3.0, &[&[1.]]);
    }
    let residual = |g: &Builder| {
        let f = |[x, w]: [Value; 2]| custom_vjp(x, |x| x, |x| (x, w), |w, ct| ct * w);
        grad([g.input("x", "f64[]"), g.input("w", "f64[]")], f)
    };
    assert_rejected(residual, "NoDerivative", "of `forward`");
    // A value that only `backward` captures may depend on `x`, and contributes to second derivatives.
    let scaled = |x: Value, w: Value| custom_vjp(x, |x| x, |x| (x, ()), |(), ct| ct * w);
    check(|x| grad(x, |x| scaled(x, x * 2.0)), 3.0, &[&[6.]]);
    check(|w| grad(w, |w| grad(w.ones_like(), |x| scaled(x, w.square()))), 3.0, &[&[6.]]);
    check(|w| jvp(w, w.ones_like(), |w| scaled(w, w.square())).1, 3.0, &[&[9.]]);
}

/// Checks call-c5: a rule that is not linear in its cotangents or tangents supports only its own mode: reverse mode for
/// `custom_vjp`, and forward mode for `custom_jvp`.
#[test]
fn a_rule_that_is_not_linear_has_one_mode() {
    let clip = |x: Value| custom_vjp(x, |x| x, |x| (x, ()), |(), ct| ct.clamp(-1.0, 1.0));
    check(|x| grad(x, |x| clip(x) * 5.0), 2.0, &[&[1.]]);
    check(|x| hvp(x, x.ones_like(), |x| clip(x).square()), 2.0, &[&[0.]]);
    check(|x| hvp(x, x.ones_like(), |x| clip(x).square()), 0.25, &[&[2.]]);
    let forward = |f: fn(Value) -> Value| move |g: &Builder| jvp(g.input("x", "f64[]"), g.input("v", "f64[]"), f).1;
    assert_rejected(forward(clip), "NoDerivative", "forward mode transposes `backward`");
    let masked = |x: Value| custom_vjp(x, |x| x, |x| (x, ()), |(), ct| ct.gt(0.0).cast(DType::F64));
    assert_rejected(forward(masked), "NoDerivative", "not linear in the cotangents");
    let stopped = |x: Value| custom_vjp(x, |x| x, |x| (x, ()), |(), ct| ct.stop_gradient());
    assert_rejected(forward(stopped), "NoDerivative", "not linear in the cotangents");
    let squared = |x: Value| custom_jvp(x, |x| x, |_, _, tangent| tangent.square());
    check(|x| jvp(x, x, squared).1, 3.0, &[&[9.]]);
    assert_rejected(|g| grad(g.input("x", "f64[]"), squared), "NoDerivative", "not linear in the tangents");
}

/// The tangents of a running product are computed by an associative scan over pairs. Only the tangent of each pair is
/// transposed; the running product itself needs no cotangent.
#[test]
fn a_tangent_with_an_associative_scan_has_a_transpose() {
    let product = |x: Value| x.cumprod(0, false).sum(..);
    let by_rule = |x: Value| custom_jvp(x, product, |x, _, tangent| jvp(x, tangent, product).1);
    let numbers = |x: Value| stack(&[x, x + 1.0, x * 2.0], 0);
    check(|x| grad(x, |x| by_rule(numbers(x))), 3.0, &[&[1. + 7. + 66.]]);
    check(|x| hvp(x, x.ones_like(), |x| by_rule(numbers(x))), 3.0, &[&[2. + 40.]]);
}

/// A tangent that reaches only results without cotangents gets no cotangent itself, even if the same loop also computes
/// other tangents.
#[test]
fn a_tangent_that_leads_elsewhere_in_a_loop_has_no_cotangent() {
    let powers = |(x, y): (Value, Value)| scan((x, y), iota(3, DType::F64), |(x, y), _| ((x * 2.0, y * 3.0), ())).0;
    let by_rule = |x: (Value, Value)| custom_jvp(x, powers, |_, _, tangents| powers(tangents));
    check(|x| grad(x, |x| by_rule((x, x * 0.5)).0), 3.0, &[&[8.]]);
}

/// Rules may contain loops whose number of steps is known only at run time.
#[test]
fn rules_with_loops() {
    let repeated = |n: Value, x: Value| {
        custom_vjp((x, n), |(x, _)| x, |(x, n)| (x, n), |n, ct| (funcify::fori_loop(0, n, ct, |_, ct| ct * 2.0), ()))
    };
    let f = |x: Value| repeated(funcify::constant(HostTensor::scalar(3i64)), x);
    check(|x| (grad(x, f), jvp(x, x.ones_like(), f).1), 5.0, &[&[8.], &[8.]]);
    let root = |x: Value| funcify::while_loop(x, |y| (y * y - x).abs().gt(1e-6), |y| (y + x / y) * 0.5).round();
    let implicit = |x: Value| custom_vjp(x, root, |x| (root(x), root(x)), |y, ct| ct / (y * 2.0));
    check(|x| (grad(x, implicit), jvp(x, x.ones_like(), implicit).1), 4.0, &[&[0.25], &[0.25]]);
}

/// Checks call-c6: a size that the function binds must not appear in its results.
#[test]
fn a_size_that_the_function_gives_does_not_leave_it() {
    let until = |xs: Value| funcify::scan_until(xs.sum(0) * 0.0, xs, |c, x| (c + x, x, x.gt(2.0))).1;
    let ruled = |g: &Builder| custom_vjp(g.input("xs", "f64[T]"), until, |xs| (until(xs), ()), |(), _| ());
    assert_rejected(ruled, "Type", "result 0 of `function`");
    let residual = |xs: Value| custom_vjp(xs, |xs| xs, |xs| (xs, until(xs)), |_, ct| ct);
    assert_rejected(|g| residual(g.input("xs", "f64[T]")), "Type", "result 1 of `forward`");
}

/// Two functions whose rules call each other are rejected, because tracing them would never end.
#[test]
fn rules_that_call_each_other_end() {
    fn ping(x: Value) -> Value {
        custom_vjp(x, |x| x.exp(), |x| (pong(x), x), |x, ct| ct * x)
    }
    fn pong(x: Value) -> Value {
        custom_vjp(x, |x| x.exp(), |x| (ping(x), x), |x, ct| ct * x * 2.0)
    }
    assert_rejected(|g| ping(g.input("x", "f64[]")), "Type", "the rule does not fit");
}

/// Values that only a rule uses are not computed if the program is not differentiated.
#[test]
fn programs_have_no_rules() {
    let graph = build(|g| {
        let (x, w) = (g.input("x", "f64[]"), g.input("w", "f64[]").exp().sin());
        let step = |c: Value, ()| (custom_vjp(c, |c| c + 1.0, |c| (c + 1.0, ()), |(), ct| ct * w), ());
        scan_with(ScanOptions::new().length(3), x, (), step).0
    });
    let run = graph.without_rules().unwrap().unwrap();
    assert_eq!(run.nodes().len(), 1, "{run}");
    assert!(!run.to_string().contains("custom_vjp"), "{run}");
    let pair = [HostTensor::scalar(1f64), HostTensor::scalar(0f64)];
    assert_eq!(evaluate(&run, &pair).unwrap(), [HostTensor::scalar(4f64)]);
}

#[test]
fn values_beside_gradients_are_those_of_forward() {
    let f = |x: Value| custom_vjp(x, |x| x, |x| (x + 100.0, ()), |(), ct| ct);
    check(|x| value_and_grad(x, f), 1.0, &[&[101.], &[1.]]);
}

/// The type rule reports type errors in programs in text form, because these programs bypass the checks of `custom_vjp`
/// and `custom_jvp`.
#[test]
fn texts_are_checked() {
    let text = |forward: &str, backward: &str| {
        format!(
            "fn @f(%x: f32[2]) {{
               %y: f32[2] = custom_vjp %x {{
                 function (%a: f32[2]) {{
                   give %a
                 }}
                 forward (%b: f32[2]) {{
                   give {forward}
                 }}
                 backward (%r: f32[2], %ct: f32[2]) {{
                   %0: f32[] = reduce %ct {{kind=sum, axes=[0]}}
                   give {backward}
                 }}
               }}
               return y=%y
             }}"
        )
    };
    assert!(Graph::parse(&text("%b, %b", "%ct")).unwrap().check().is_ok());
    let rejects = |forward, backward, says: &str| {
        let error: Error = Graph::parse(&text(forward, backward)).expect_err("it is rejected");
        assert!(error.to_string().contains(says), "{error}");
    };
    rejects("%b", "%ct", "2 operands: 1 arguments, 1 captured values");
    rejects("%b, %b", "%0", "cotangent 0 of `backward`");
    rejects("%b, %b", "", "the list of cotangents of `backward`");
    rejects("", "%ct", "the list of results of `forward`");
    rejects("%b, %b", "%ct, %ct", "the list of cotangents of `backward`");
}

/// A rule that returns one tangent too many is rejected, both when it is traced and in the text form.
#[test]
fn a_tangent_too_many_is_refused() {
    let two = |x: Value| custom_jvp(x, |x| x, |_, _, tangent| (tangent, tangent));
    assert_rejected(|g| two(g.input("x", "f64[]")), "Type", "the tangent of result");
    let one = |[x, y]: [Value; 2]| custom_jvp([x, y], |[x, y]| [x + y], |_, _, [a, b]| [a, b]);
    assert_rejected(|g| one([g.input("x", "f64[]"), g.input("y", "f64[]")]), "Type", "and nothing else");
    let text = |given: &str| {
        format!(
            "fn @f(%x: f32[2]) {{
               %y: f32[2] = custom_jvp %x {{
                 function (%a: f32[2]) {{
                   give %a
                 }}
                 tangent (%b: f32[2], %r: f32[2], %t: f32[2]) {{
                   give {given}
                 }}
               }}
               return y=%y
             }}"
        )
    };
    assert!(Graph::parse(&text("%t")).unwrap().check().is_ok());
    for given in ["%t, %t", "%t, %b", ""] {
        let error: Error = Graph::parse(&text(given)).expect_err("it is rejected");
        assert!(error.to_string().contains("the list of tangents of `tangent`"), "{error}");
    }
}
