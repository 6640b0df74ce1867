//! Functions with custom derivative rules, and derivatives from `linearize` that are applied to several vectors. Some
//! rules deliberately do not compute true derivatives, so the results show whether the rules are used.

use funcify::prelude::*;
use funcify::{checkpoint, custom_jvp, custom_vjp, linearize};

use super::{Cases, all, case, case_on, row, scalar, tensor};

pub(super) fn cases() -> Cases {
    all([
        // Without differentiation, the rules have no effect.
        case_on("rule_of_a_program_without_derivatives", [("xs: f32[T]", row([1f32, 2., 3.]))])
            .runs(|[xs]| (clip(xs), scan(xs.sum(0), xs, |c, x| (softplus(c - 6.0) + x, c)).0))
            .gives([
                ("out_0", row([1f32, 2., 3.])),
                (
                    "out_1",
                    scalar(
                        [1f32, 2., 3.].into_iter().fold(6f32, |last: f32, x: f32| ((last - 6.0).exp() + 1.0).ln() + x),
                    ),
                ),
            ]),
        // The rule of `softplus` is stable where the naive derivative is infinity / infinity. The program computes a
        // derivative in forward mode, a derivative in reverse mode, and a second derivative.
        case_on("rule_of_a_stable_derivative", [("x: f32[3]", row([0f32, 3f32.ln(), 1000.]))])
            .runs(|[x]| {
                let sum = |x: Value| softplus(x).sum(0);
                (grad(x, sum), jvp(x, x.ones_like() * 2.0, softplus).1, hvp(x, x.ones_like(), sum))
            })
            .gives([
                ("out_0", row([0.5f32, 0.75, 1.])),
                ("out_1", row([1f32, 1.5, 2.])),
                ("out_2", row([0.25f32, 0.1875, 0.])),
            ]),
        // The rule of `clip` is not linear in the cotangent, but works in reverse mode, for derivatives of any order.
        case_on("rule_that_clips_gradients", [("x: f32[3]", row([0.25f32, 4., -9.]))])
            .runs(|[x]| {
                let loss = |x: Value| clip(x).square().sum(0);
                (grad(x, loss), hvp(x, x.ones_like(), loss), vmap(x, |x| grad(x, |x| clip(x) * 3.0)))
            })
            .gives([("out_0", row([0.5f32, 1., -1.])), ("out_1", row([2f32, 0., 0.])), ("out_2", row([1f32; 3]))]),
        // Straight-through rounding: the rule returns the tangent unchanged.
        case("rule_of_a_straight_through_rounding", |g| {
            let (x, w) = (g.input("x", "f32[3]"), g.input("w", "f32[3]"));
            let rounded = |x: Value| custom_jvp(x, Value::round, |_, _, tangent| tangent);
            value_and_grad((x, w), |(x, w)| (rounded(x) * w).sum(0))
        })
        .on([row([0.4f32, 1.6, -2.2]), row([1f32, 10., 100.])])
        .gives([
            ("out_0", scalar(-180f32)),
            ("out_1_0", row([1f32, 10., 100.])),
            ("out_1_1", row([0f32, 2., -2.])),
        ]),
        // Forward mode transposes a reverse-mode rule, including the rule's `reverse` op. The rule multiplies the
        // cotangent by the matrix [[0, 2], [3, 0]].
        case_on("rule_transposed", [("x: f32[2]", row([5f32, 7.]))])
            .runs(|[x]| {
                let turned = |x: Value| custom_vjp(x, |x| x, |x| (x, ()), |(), ct| ct.reverse(0) * tilt(ct.dtype()));
                let tangent = stack(&[x.index(0, 0), x.index(0, 1)], 0);
                (grad(x, |x| (turned(x) * x.stop_gradient()).sum(0)), jvp(x, tangent, turned).1)
            })
            .gives([("out_0", row([14f32, 15.])), ("out_1", row([21f32, 10.]))]),
        // The rule of `root` gives the first derivative, 1 / (2 y) at y = 2, so the first differentiation does not
        // differentiate the steps of Newton's method. The second differentiation does, because the steps in `forward`
        // compute the residual y.
        case_on("rule_of_an_implicit_function_f64", [("x: f64[]", scalar(4f64))])
            .runs(|[x]| (grad(x, root), jvp(x, x.ones_like(), |x| root(x) * 3.0).1, grad(x, |x| grad(x, root))))
            .gives_dynamic([("out_0", scalar(0.25)), ("out_1", scalar(0.75)), ("out_2", scalar(-1. / 32.))]),
        // By their rules, the derivatives of x^2 and x^3 are 10 x and 10 x^3. The second derivative of x^2 is 10. The
        // second derivative of x^3 is 100 x^3, because the second differentiation applies the rule again.
        case_on("rule_of_second_order", [("x: f32[]", scalar(2f32))])
            .runs(|[x]| {
                let square = |x: Value| custom_vjp(x, |x| x * x, |x| (x * x, x), |x, ct| ct * x * 10.0);
                let cube = |x: Value| custom_jvp(x, |x| x * x * x, |_, y, tangent| tangent * y * 10.0);
                let twice = |f: &dyn Fn(Value) -> Value| {
                    let forward = |x: Value| jvp(x, x.ones_like(), f).1;
                    (grad(x, |x| grad(x, f)), hvp(x, x.ones_like(), f), jvp(x, x.ones_like(), forward).1)
                };
                (twice(&square), twice(&cube))
            })
            .gives(
                [
                    ("out_0_0", 10f32),
                    ("out_0_1", 10.),
                    ("out_0_2", 10.),
                    ("out_1_0", 800.),
                    ("out_1_1", 800.),
                    ("out_1_2", 800.),
                ]
                .map(|(name, value)| (name, scalar(value))),
            ),
        // The body of a loop calls a function with a rule, and the loop is differentiated in forward and reverse mode.
        // The function doubles its argument, but its rule uses 3 as the derivative. The value is
        // ((2 * 1 + 1) * 2 + 2) * 2 + 3. The tangent is ((3 + 1) * 3 + 2) * 3 + 3.
        case_on("rule_in_a_loop", [("init: f32[]", scalar(1f32)), ("xs: f32[T]", row([1f32, 2., 3.]))])
            .runs(|[init, xs]| {
                let double = |c: Value| custom_vjp(c, |c| c * 2.0, |c| (c * 2.0, ()), |(), ct| ct * 3.0);
                let f = |(init, xs)| scan(init, xs, |c, x| (double(c) + x, ())).0;
                (value_and_grad((init, xs), f), jvp((init, xs), (init, xs), f).1)
            })
            .gives([
                ("out_0_0", scalar(19f32)),
                ("out_0_1_0", scalar(27f32)),
                ("out_0_1_1", row([9f32, 3., 1.])),
                ("out_1", scalar(45f32)),
            ]),
        // A function with a rule is called in a `checkpoint`, and in a `cond` whose lanes take different branches.
        case_on("rule_in_a_choice_and_a_checkpoint", [("xs: f32[B]", row([-1f32, 2., 3.]))])
            .runs(|[xs]| {
                let tripled = |x: Value| custom_jvp(x, |x| x, |_, _, tangent| tangent * 3.0);
                let chosen = |x: Value| cond(x.gt(0.0), || tripled(x) * x, || x.sin() * 0.0);
                (vmap(xs, |x| grad(x, chosen)), vmap(xs, |x| grad(x, |x| checkpoint(|| tripled(x) * x))))
            })
            .gives([("out_0", row([0f32, 8., 12.])), ("out_1", row([-4f32, 8., 12.]))]),
        // The `backward` closure of a rule calls another function with a rule. The first derivative is 5 x^2, and the
        // second is 5 * 7 x.
        case_on("rule_that_calls_another", [("x: f32[]", scalar(3f32))])
            .runs(|[x]| {
                let square = |x: Value| custom_jvp(x, |x| x * x, |x, _, tangent| tangent * x * 7.0);
                let f = |x: Value| custom_vjp(x, |x| x, |x| (x, x), |x, ct| ct * square(x) * 5.0);
                (grad(x, f), grad(x, |x| grad(x, f)), jvp(x, x, f).1)
            })
            .gives([("out_0", scalar(45f32)), ("out_1", scalar(105f32)), ("out_2", scalar(135f32))]),
        // All lanes share the weight w, so its gradient is the sum of the lanes' gradients. The custom rule returns 3 x
        // as the gradient of each lane with respect to w.
        case("rule_with_a_shared_weight", |g| {
            let (xs, w) = (g.input("xs", "f32[B,2]"), g.input("w", "f32[2]"));
            let dot = |x: Value, w: Value| {
                let f = |(x, w): (Value, Value)| (x * w).sum(0);
                custom_vjp((x, w), f, |xs| (f(xs), xs), |(x, w), ct| (ct * w * 2.0, ct * x * 3.0))
            };
            let loss = |(xs, w): (Value, Value)| vmap(xs, |x| dot(x, w)).sum(0);
            (grad((xs, w), loss), jvp((xs, w), (xs, w), loss).1)
        })
        .on([tensor([2, 2], [1f32, 2., 3., 4.]), row([10f32, 100.])])
        .gives([
            ("out_0_0", tensor([2, 2], [20f32, 200., 20., 200.])),
            ("out_0_1", row([12f32, 18.])),
            // The tangent is 20 (1 + 3) + 200 (2 + 4) from xs, plus 12 * 10 + 18 * 100 from w.
            ("out_1", scalar(1280f32 + 1920.)),
        ]),
        // The arguments, residuals and results of the function and of its rule include integers.
        case_on("rule_with_integers", [("x: f32[4]", row([1f32, 2., 3., 4.])), ("at: i64[]", scalar(2i64))])
            .runs(|[x, at]| {
                let pick = |(x, at): (Value, Value)| (x.dynamic_slice(0, at, 1).reshape([0usize; 0]), at + 1);
                let custom = |x: Value| {
                    let backward = |at: Value, (ct, _): (Value, Value)| {
                        let hot = funcify::iota(4, DType::I64).eq(at.broadcast_to([4])).cast(DType::F32);
                        (hot * ct * 2.0, ())
                    };
                    custom_vjp((x, at), pick, |(x, at)| (pick((x, at)), at), backward)
                };
                (custom(x).1, grad(x, |x| custom(x).0 * 5.0))
            })
            .gives([("out_0", scalar(3i64)), ("out_1", row([0f32, 0., 10., 0.]))]),
        // Applies the Jacobian [[x1, x0], [1, 2 x1]] at x = (2, 3) three times, starting with the vector (1, 0).
        case_on("linearized_in_a_loop", [("x: f32[2]", row([2f32, 3.])), ("v: f32[2]", row([1f32, 0.]))])
            .runs(|[x, v]| {
                let f = |x: Value| {
                    let [a, b] = x.unstack(0);
                    stack(&[a * b, a + b.square()], 0)
                };
                let (y, derivative) = linearize(x, f);
                (y, fori_loop(0, 3, v, |_, v| derivative.apply(v)))
            })
            .gives([("out_0", row([6f32, 11.])), ("out_1", row([51f32, 65.]))]),
        // Linearizes two loops, and applies the derivative to both unit vectors. The trip count of the first loop is an
        // operand. The first loop computes x^3, which is summed over both elements. The second loop computes x + x^2
        // for each element.
        case_on("linearized_through_a_loop", [("x: f32[2]", row([2f32, 3.])), ("n: i64[]", scalar(3i64))])
            .runs(|[x, n]| {
                let powers = |x: Value| fori_loop(0, n, x.ones_like(), |_, c| c * x).sum(0);
                let fixed = |x: Value| scan_with(ScanOptions::new().length(2), x, (), |c, ()| (c * x, c)).1.sum(0);
                let (y, derivative) = linearize(x, |x| (powers(x), fixed(x)));
                (y, vmap(funcify::eye(2, DType::F32), |direction| derivative.apply(direction)))
            })
            .gives_dynamic([
                ("out_0_0", scalar(35f32)),
                ("out_0_1", row([6f32, 12.])),
                ("out_1_0", row([12f32, 27.])),
                ("out_1_1", tensor([2, 2], [5f32, 0., 0., 7.])),
            ]),
    ])
}

/// Computes log(1 + exp(x)), with a rule that computes the derivative without overflow.
fn softplus(x: Value) -> Value {
    custom_jvp(x, |x| x.exp().log1p(), |x, _, tangent| tangent * x.sigmoid())
}

/// Returns x, with a custom reverse-mode rule that clamps the cotangent to the range from -1 to 1.
fn clip(x: Value) -> Value {
    custom_vjp(x, |x| x, |x| (x, ()), |(), ct| ct.clamp(-1.0, 1.0))
}

/// Computes the square root by Newton's method. The rule differentiates the equation y^2 = x instead of the steps.
fn root(x: Value) -> Value {
    let steps = |a: Value| while_loop(a, |y| (y * y - a).abs().gt(1e-8), |y| (y + a / y) * 0.5);
    custom_vjp(x, steps, |a| (steps(a), steps(a)), |y, ct| ct / (y * 2.0))
}

fn tilt(dtype: DType) -> Value {
    funcify::constant(HostTensor::from([2f64, 3.]).cast(dtype))
}
