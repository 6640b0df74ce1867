//! Higher-order derivatives of loops and branches that call functions with custom rules. With every checkpoint policy,
//! the derivatives must equal those of the same functions called without a loop.
//!
//! The rules do not compute true derivatives, so the results show how often a rule is applied. As in JAX, a second
//! differentiation of a `custom_vjp` must differentiate the ops of `forward` instead of applying the rule again.

use funcify::prelude::*;

use super::policy::policies;
use super::*;

type Function = fn(Value) -> Value;
/// A way to apply a function twice, in loops or branches.
type Twice = Box<dyn Fn(Function, Value) -> Value>;

pub(super) fn cases() -> Cases {
    let mut cases = Vec::new();
    for (name, twice, is_dynamic) in ways_to_apply_twice() {
        cases.push(squares(&name, twice, is_dynamic)?);
    }
    for (name, twice, is_dynamic) in ways_to_apply_twice() {
        cases.push(clipped(&name, twice, is_dynamic)?);
    }
    for (name, twice, is_dynamic) in ways_to_apply_twice() {
        cases.push(cubes(&name, twice, is_dynamic)?);
    }
    for (name, policy) in policies() {
        cases.push(weighted(name, &policy)?);
    }
    cases.extend([combined(false)?, combined(true)?, lanes()?, of_two_arguments()?, rows()?]);
    cases.extend([behind_other_states(false)?, behind_other_states(true)?]);
    Ok(cases)
}

/// Returns the square of x, with a rule that triples the cotangent.
fn square(x: Value) -> Value {
    custom_vjp(x, |x| x * x, |x| (x * x, ()), |(), ct| ct * 3.0)
}

/// Returns the square of x, with a nonlinear rule that limits the cotangent to at most 10.
fn clip(x: Value) -> Value {
    custom_vjp(x, |x| x * x, |x| (x * x, ()), |(), ct| ct.minimum(10.0))
}

/// Returns the cube of x, with a rule that uses ten times the cube as the derivative.
fn cube(x: Value) -> Value {
    custom_jvp(x, |x| x * x * x, |_, y, tangent| tangent * y * 10.0)
}

fn steps(count: usize, policy: &CheckpointPolicy) -> ScanOptions {
    ScanOptions::new().length(count).policy(policy.clone())
}

/// Returns every way to apply a function twice, each with a name and a flag that is `true` if a trip count is known
/// only at run time.
fn ways_to_apply_twice() -> Vec<(String, Twice, bool)> {
    let mut ways: Vec<(String, Twice, bool)> = Vec::new();
    let mut add = |name: &str, is_dynamic: bool, twice: Twice| ways.push((name.to_string(), twice, is_dynamic));
    add("no_loop", false, Box::new(|f, x| f(f(x))));
    for (name, policy) in policies() {
        let of_two = policy.clone();
        let scan = move |f: Function, x: Value| scan_with(steps(2, &of_two), x, (), |c, ()| (f(c), ())).0;
        add(&format!("scan_{name}"), false, Box::new(scan));
        // Six steps are enough for several checkpoint segments, but only two of the steps call the function.
        let longer = move |f: Function, x: Value| {
            let does = constant(funcify::HostTensor::from([false, true, false, false, true, false]));
            scan_with(steps(6, &policy), x, does, |c, does| (cond(does, || f(c), || c), ())).0
        };
        add(&format!("choice_in_scan_{name}"), false, Box::new(longer));
    }
    let once = |f: Function, x: Value| scan_with(ScanOptions::new().length(1), x, (), |c, ()| (f(c), ())).0;
    let nested = move |f: Function, x: Value| {
        scan_with(ScanOptions::new().length(2), x, (), |c, ()| (once(f, once(|x| x, c)), ())).0
    };
    add("scan_in_scan", false, Box::new(nested));
    let counted = |f: Function, x: Value| {
        let two = constant(2i64);
        while_loop((x, constant(0i64)), move |(_, i)| i.lt(two), |(c, i)| (f(c), i + 1)).0
    };
    add("while", true, Box::new(counted));
    let bounded = |f: Function, x: Value| while_loop_bounded(2, x, |c: Value| c.gt(-1.0), f);
    add("while_bounded", false, Box::new(bounded));
    let in_while = move |f: Function, x: Value| {
        while_loop((x, constant(0i64)), |(_, i)| i.lt(2), |(c, i)| (cond(i.lt(9), || once(f, c), || c), i + 1)).0
    };
    add("scan_in_choice_in_while", true, Box::new(in_while));
    let chosen = |f: Function, x: Value| {
        let y = switch(constant(1i64), [&|| x * 0.0, &|| f(x)]);
        cond(constant(true), || f(y), || y)
    };
    add("switch", false, Box::new(chosen));
    add("checkpoint", false, Box::new(|f, x| checkpoint(|| f(checkpoint(|| f(x))))));
    let run_time = |f: Function, x: Value| {
        let count = (x * 0.0).cast(funcify::DType::I64) + 2;
        fori_loop(0, count, x, |_, c| f(c))
    };
    add("run_time_count", true, Box::new(run_time));
    ways
}

fn derivative_case<const N: usize>(
    name: &str,
    is_dynamic: bool,
    program: impl FnOnce(&Builder) -> Vec<Value>,
    x: f32,
    expected: [f32; N],
) -> OneCase {
    let outputs = (0..N).map(|index| (format!("out_{index}"), scalar(expected[index])));
    case(name, program).on([scalar(x)]).dynamic(is_dynamic).gives(outputs)
}

/// Builds a case that differentiates the loss y^2, where y = x^4 is [`square`] applied twice. By the rule, the gradient
/// of the loss is 2 y * 3 * 3 = 18 x^4. Higher derivatives are the true derivatives of 18 x^4.
fn squares(way: &str, twice: Twice, is_dynamic: bool) -> OneCase {
    let program = move |g: &Builder| {
        let x = g.input("x", "f32[]");
        let loss = |x: Value| twice(square, x).square();
        let second = |x: Value| grad(x, |x| grad(x, loss));
        let along = |x: Value| jvp(x, x.ones_like(), |x| grad(x, loss)).1;
        vec![grad(x, loss), second(x), hvp(x, x.ones_like(), loss), along(x), grad(x, second), grad(x, along)]
    };
    derivative_case(&format!("rule_twice_in_{way}"), is_dynamic, program, 2.0, [288., 576., 576., 576., 864., 864.])
}

/// Builds a case that differentiates the loss y^2, where y = x^4 is [`clip`] applied twice. By the rule, the gradient
/// of the loss is 2 y = 2 x^4, limited to 10. At x = 1, the gradient is below the limit. At x = 2, it is limited, so
/// the second derivative is 0.
fn clipped(way: &str, twice: Twice, is_dynamic: bool) -> OneCase {
    let program = move |g: &Builder| {
        let x = g.input("x", "f32[]");
        let loss = |x: Value| twice(clip, x).square();
        let second = |x: Value| (grad(x, |x| grad(x, loss)), hvp(x, x.ones_like(), loss));
        let ((a, b), (c, d)) = (second(x), second(x * 2.0));
        vec![grad(x, loss), grad(x * 2.0, loss), a, b, c, d]
    };
    derivative_case(&format!("rule_that_clips_in_{way}"), is_dynamic, program, 1.0, [2., 10., 8., 8., 0., 0.])
}

/// Builds a case that differentiates [`cube`] applied twice. Let n be the first result and m the second. By the rule,
/// n' = 10 n and m' = 100 n m. Both n and m are 1 at x = 1.
fn cubes(way: &str, twice: Twice, is_dynamic: bool) -> OneCase {
    let program = move |g: &Builder| {
        let x = g.input("x", "f32[]");
        let f = |x: Value| twice(cube, x);
        let forward = |x: Value| jvp(x, x.ones_like(), f).1;
        let second = |x: Value| hvp(x, x.ones_like(), f);
        let again = jvp(x, x.ones_like(), forward).1;
        vec![grad(x, f), forward(x), second(x), grad(x, |x| grad(x, f)), grad(x, forward), again, grad(x, second)]
    };
    // m'' = 1000 n m + 10000 n n m, and at x = 1, m''' = 110000 + 200000 + 1000000.
    let expected = [100., 100., 11000., 11000., 11000., 11000., 1310000.];
    derivative_case(&format!("rule_for_tangents_twice_in_{way}"), is_dynamic, program, 1.0, expected)
}

/// Builds a case that differentiates two steps of c -> sin(w f(c)), where f is [`square`]. The loss is the square of
/// the last c. The expected values come from JAX.
fn weighted(name: &str, policy: &CheckpointPolicy) -> OneCase {
    let policy = policy.clone();
    case_on(format!("rule_beside_a_weight_{name}_f64"), [("x: f64[]", scalar(2f64)), ("w: f64[]", scalar(0.5))])
        .runs(move |[x, w]| {
            let loss = |[x, w]: [Value; 2]| {
                scan_with(steps(2, &policy), x, (), |c, ()| ((square(c) * w).sin(), ())).0.square()
            };
            hvp([x, w], [x.ones_like(), w.ones_like()], loss)
        })
        .gives([("out_0", scalar(-9.957101834551427)), ("out_1", scalar(-29.672800779680795))])
}

/// Builds a case that differentiates the square of x * x, where an associative scan computes x * x. The rule of the
/// product returns three times the cotangent for each factor, so the gradient is 2 x^2 (3 + 3) = 12 x^2.
fn combined(reverse: bool) -> OneCase {
    let program = move |g: &Builder| {
        let x = g.input("x", "f32[]");
        let options = AssociativeScanOptions::new();
        let options = if reverse { options.reverse() } else { options };
        let product = |a: Value, b: Value| {
            custom_vjp((a, b), |(a, b)| a * b, |(a, b)| (a * b, ()), |(), ct| (ct * 3.0, ct * 3.0))
        };
        let loss = move |x: Value| {
            let products = associative_scan_with(options.clone(), stack(&[x, x], 0), product);
            products.index(0, if reverse { 0 } else { 1 }).square()
        };
        let second = |x: Value| grad(x, |x| grad(x, &loss));
        vec![grad(x, &loss), second(x), hvp(x, x.ones_like(), &loss), grad(x, second)]
    };
    let name = if reverse { "rule_in_associative_scan_down" } else { "rule_in_associative_scan" };
    derivative_case(name, false, program, 2.0, [48., 48., 48., 24.])
}

/// Builds a case that applies [`square`] twice in a scan under `vmap`.
fn lanes() -> OneCase {
    let expected = || row([72f32, 576., -72.]);
    case_on("rule_twice_in_scan_on_lanes", [("xs: f32[3]", row([1f32, 2., -1.]))])
        .runs(|[xs]| {
            let loss = |x: Value| scan_with(ScanOptions::new().length(2), x, (), |c, ()| (square(c), ())).0.square();
            let of_lanes = |xs: Value| vmap(xs, loss).sum(0);
            (vmap(xs, |x| grad(x, |x| grad(x, loss))), hvp(xs, xs.ones_like(), of_lanes))
        })
        .gives([("out_0", expected()), ("out_1", expected())])
}

/// Builds a case for a function of two arguments with a custom rule. The tangents of both arguments contribute to the
/// tangent of the result.
fn of_two_arguments() -> OneCase {
    let (x, w) = (3f32, 5f32);
    let by_w = 10. * w * 100. * x + 100. * x * w;
    // In the loop, two steps multiply x by w. By the rule, the derivative with respect to x is 10 w * 10 w, and the
    // derivative with respect to w is 10 w * 100 x + 100 x w.
    case_on("rule_for_tangents_of_two_arguments", [("x: f32[]", scalar(x)), ("w: f32[]", scalar(w))])
        .runs(|[x, w]| {
            let f = |[x, w]: [Value; 2]| {
                custom_jvp((x, w), |(x, w)| x * w, |(x, w), _, (of_x, of_w)| of_x * w * 10.0 + of_w * x * 100.0)
            };
            let chain = |[x, w]: [Value; 2]| scan_with(ScanOptions::new().length(2), x, (), |c, ()| (f([c, w]), ())).0;
            let one = x.ones_like();
            let along = |x_too: f64, w_too: f64| jvp([x, w], [one * x_too, one * w_too], f).1;
            let in_loop = jvp([x, w], [one, one * 2.0], chain).1;
            (along(1.0, 0.0), along(0.0, 1.0), along(2.0, 3.0), grad([x, w], f), in_loop, grad([x, w], chain))
        })
        .gives(
            [
                ("out_0", 10. * w),
                ("out_1", 100. * x),
                ("out_2", 20. * w + 300. * x),
                ("out_3_0", 10. * w),
                ("out_3_1", 100. * x),
                ("out_4", 100. * w * w + 2. * by_w),
                ("out_5_0", 100. * w * w),
                ("out_5_1", by_w),
            ]
            .map(|(name, value)| (name, scalar(value))),
        )
}

/// Builds a case that squares some rows with [`square`], which has a custom rule, and the other rows with an ordinary
/// product.
fn rows() -> OneCase {
    let expected = || row([24f32, 12.]);
    // The loss of a row is x^4. With the rule, the gradient of this loss is 6 x^2, and its second derivative is 12 x.
    // Without the rule, the gradient is 4 x^3, and the second derivative is 12 x^2.
    case_on("rule_of_some_rows", [("xs: f32[T]", row([2f32, -1.]))])
        .runs(|[xs]| {
            let loss = |xs: Value| map(xs, |x| select(x.gt(0.0), square(x), x * x)).square().sum(0);
            (hvp(xs, xs.ones_like(), loss), grad(xs, |xs| grad(xs, loss).sum(0)))
        })
        .gives([("out_0", expected()), ("out_1", expected())])
}

/// Builds a case with a loop that has four states. The loss uses only the last state. The input x reaches this state
/// after several steps, through the other states.
fn behind_other_states(is_dynamic: bool) -> OneCase {
    let program = move |g: &Builder| {
        let x = g.input("x", "f32[]");
        let step = |[a, b, c, _]: [Value; 4]| [a, a, b, square(c)];
        let loss = |x: Value| {
            let zero = constant(0f32);
            let init = [x, zero, zero, zero];
            let [.., last] = match is_dynamic {
                false => scan_with(ScanOptions::new().length(4), init, (), |states, ()| (step(states), ())).0,
                true => while_loop((init, constant(0i64)), |(_, i)| i.lt(4), |(states, i)| (step(states), i + 1)).0,
            };
            last.square()
        };
        let second = |x: Value| grad(x, |x| grad(x, loss));
        vec![grad(x, loss), second(x), hvp(x, x.ones_like(), loss), grad(x, second)]
    };
    // The loss is y^2 with y = x^2. By the rule, the gradient of the loss is 2 y * 3 = 6 x^2.
    let name = if is_dynamic { "rule_behind_other_states_in_while" } else { "rule_behind_other_states_in_scan" };
    derivative_case(name, is_dynamic, program, 2.0, [24., 24., 24., 12.])
}
