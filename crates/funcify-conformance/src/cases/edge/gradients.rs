//! Gradients of any order through all kinds of loops and branches, in situations that libraries are known to handle
//! differently.

use funcify::prelude::*;

use super::*;
use crate::cases::carry_as_output;

pub(super) fn cases() -> Cases {
    all([
        // If no step runs, the gradient of the initial value is the cotangent of the result, and the gradient of the
        // weight is zero.
        case("gradient_without_steps", |g| {
            let (init, xs, w) = (g.input("init", "f32[]"), g.input("xs", "f32[T]"), g.input("w", "f32[]"));
            grad((init, xs, w), |(init, xs, w)| scan(init, xs, |c, x| (c * w + x, ())).0 * 3.0)
        })
        .on([scalar(2f32), row([0f32; 0]), scalar(5f32)])
        .gives([("out_0", scalar(3f32)), ("out_1", row([0f32; 0])), ("out_2", scalar(0f32))]),
        // Rows that no step reads have gradient zero.
        case_on("gradient_of_an_unused_tail", [("xs: f32[5]", row([1f32, 2., 3., 4., 5.]))])
            .runs(|[xs]| grad(xs, |xs| stencil(Recurrence::new().steps(3), xs, [0, 1], |[a, b]| a * b).sum(0)))
            .gives([("out", row([2f32, 4., 6., 3., 0.]))]),
        // Rows after the early exit have gradient zero.
        case_on("gradient_until_the_third_step", [("xs: f32[T]", row([1f32, 2., 3., 4., 5.]))])
            .runs(|[xs]| {
                grad(xs, |xs| {
                    scan_until(xs.index(0, 0) * 0.0, xs, |c, x| (c + x, c + x, (c + x).gt(5.0))).1.index(0, -1)
                })
            })
            .gives([("out", row([1f32, 1., 1., 0., 0.]))]),
        // The loop computes x[t-2] * x[t] in each step, and exits once x[t] exceeds 6. The loss is the sum of the last
        // three products.
        case("gradient_of_the_last_steps_until", |g| {
            grad(g.input("xs", "f32[T]"), |xs| {
                let mut loop_ = Recurrence::new();
                let taps = loop_.sequence(xs, [-2, 0]);
                let products = loop_.run(|step| {
                    let [before, x] = step.read(&taps);
                    step.until(x.gt(6.0));
                    before * x
                });
                products.ys.slice(0, -3..).sum(0)
            })
        })
        .on([HostTensor::from_fn(DType::F32, &[15], |index| funcify::Scalar::Int(index[0] as i64))])
        .gives([("out", row([0f32, 0., 0., 5., 6., 10., 4., 5., 0., 0., 0., 0., 0., 0., 0.]))]),
        // A reverse loop exits early, so it reads only the last rows of the sequence. The steps compute 2 * 5 = 10 and
        // 10 * 3 = 30, and the loss is their sum. The gradients are 20 for init, 2 + 2 * 3 = 8 for xs[4], and 10 for
        // xs[3].
        case("gradient_until_downward", |g| {
            let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[T]"));
            grad((init, xs), |(init, xs)| {
                let options = ScanOptions::new().reverse();
                let step = |c: Value, x: Value| (c * x, c * x, (c * x).gt(20.0));
                funcify::scan_until_with(options, init, xs, step).1.sum(0)
            })
        })
        .on([scalar(2f32), row([9f32, 9., 9., 3., 5.])])
        .gives([("out_0", scalar(20f32)), ("out_1", row([0f32, 0., 0., 10., 8.]))]),
        // Computes x^16 by four squarings, and differentiates it up to the fourth order at 0.95.
        {
            fn power(x: Value) -> Value {
                scan_with(ScanOptions::new().length(4), x, (), |c, ()| (c.square(), ())).0
            }
            let program = |g: &Builder| {
                let x = g.input("x", "f64[]");
                let first = |x: Value| grad(x, power);
                let second = |x: Value| grad(x, first);
                let third = |x: Value| grad(x, second);
                (first(x), second(x), third(x), grad(x, third))
            };
            let x = 0.95f64;
            case("gradients_of_four_orders_f64", program).on([scalar(x)]).gives([
                ("out_0", scalar(16. * x.powi(15))),
                ("out_1", scalar(240. * x.powi(14))),
                ("out_2", scalar(3360. * x.powi(13))),
                ("out_3", scalar(43680. * x.powi(12))),
            ])
        },
        // The same value is a y and the next carry, so its two cotangents are added. With init 1 and xs 2, 3, 4, the
        // ys are 2, 6, 24, and the last carry is 24.
        case("gradient_of_a_y_that_is_the_state", |g| {
            let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[3]"));
            grad((init, xs), |(init, xs)| {
                let (last, ys) = scan(init, xs, |c, x| carry_as_output(c * x));
                last + ys.sum(0)
            })
        })
        .on([scalar(1f32), row([2f32, 3., 4.])])
        .gives([("out_0", scalar(56f32)), ("out_1", row([28f32, 18., 12.]))]),
        // The loss uses only `b`, whose next value depends on `a`.
        case_on("gradient_of_a_state_that_feeds_another", [("a: f32[]", scalar(1f32)), ("b: f32[]", scalar(0f32))])
            .runs(|[a, b]| {
                grad((a, b), |(a, b)| {
                    let step = |(a, b): (Value, Value), ()| ((a * 2.0, b + a), ());
                    scan_with(ScanOptions::new().length(3), (a, b), (), step).0.1
                })
            })
            .gives([("out_0", scalar(7f32)), ("out_1", scalar(1f32))]),
        // With `Disconnected::Zeros`, an input that affects the loss only through a comparison has gradient zero.
        case_on("gradient_of_zeros_on_request", [("x: f32[2]", row([1f32, 2.])), ("w: f32[3]", row([1f32, 2., 3.]))])
            .runs(|[x, w]| {
                let zeros = GradOptions::new().disconnected(Disconnected::Zeros);
                grad_with(zeros, (x, w), |(x, w)| (x * w.gt(0.0).any(0).cast(DType::F32)).sum(0))
            })
            .gives([("out_0", row([1f32, 1.])), ("out_1", row([0f32, 0., 0.]))]),
        // The body multiplies a float by an integer counter, which has no gradient.
        case_on("gradient_beside_an_integer_counter", [("x: f32[]", scalar(3f32))])
            .runs(|[x]| grad(x, |x| fori_loop(0, 4, x.zeros_like(), |i, sum| sum + i.cast(DType::F32) * x)))
            .gives([("out", scalar(6f32))]),
        truncated(1, [0., 0., 0., 0., 1.], 6.125),
        truncated(3, [0., 0., 0.25, 0.5, 1.], 8.875),
        truncated(9, [0.0625, 0.125, 0.25, 0.5, 1.], 9.),
        // The body computes a gradient, and the loop itself is differentiated. Two steps of x -> d(x^3)/dx = 3 x^2
        // compute 3 (3 x^2)^2 = 27 x^4.
        case_on("gradient_in_a_body", [("x: f32[]", scalar(2f32))])
            .runs(|[x]| {
                let twice = |x: Value| {
                    let step = |x: Value, ()| (grad(x, |x| x * x * x), ());
                    scan_with(ScanOptions::new().length(2), x, (), step).0
                };
                value_and_grad(x, twice)
            })
            .gives([("out_0", scalar(432f32)), ("out_1", scalar(864f32))]),
        // Computes the second derivative of x^4 at 1. The loop has two traces, and the loss uses only one of them.
        case_on("second_derivative_with_absent_cotangents", [("x: f32[]", scalar(1f32))])
            .runs(|[x]| {
                let fourth = |x: Value| {
                    let step = |c: Value, ()| (c.square(), (c, c.square()));
                    let (_, (_, squares)) = scan_with(ScanOptions::new().length(2), x, (), step);
                    squares.index(0, -1)
                };
                grad(x, |x| grad(x, fourth))
            })
            .gives([("out", scalar(12f32))]),
        // The loss is the last row of the ys, so only that row has a nonzero cotangent. The loss is the product of
        // `init` and all elements of `xs`.
        {
            let expected = || row([12f32, 6., 4., 3.]);
            case("gradient_of_the_last_row", |g| {
                let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[4]"));
                let trace = |xs: Value| scan(init, xs, |c, x| (c * x, c * x)).1;
                let last = grad(xs, |xs| trace(xs).index(0, -1));
                let dense = vjp(xs, trace, |ys| iota(4, DType::I64).eq(3).cast(ys.dtype())).1;
                (last, dense)
            })
            .on([scalar(0.5f32), row([1f32, 2., 3., 4.])])
            .gives([("out_0", expected()), ("out_1", expected())])
        },
        // Computes the second derivative of 1 + 2x - 3x^2 + 4x^3 at 2. The loop evaluates the polynomial by Horner's
        // rule.
        case_on("second_derivative_by_horner", [("a: f32[4]", row([1f32, 2., -3., 4.])), ("x: f32[]", scalar(2f32))])
            .runs(|[a, x]| {
                let value =
                    |x: Value| scan_with(ScanOptions::new().reverse(), x.zeros_like(), a, |c, a| (c * x + a, ())).0;
                grad(x, |x| grad(x, value))
            })
            .gives([("out", scalar(42f32))]),
        // A branch that does not run must not contribute to the gradient, even if its own gradient is undefined.
        case_on("gradient_of_an_untaken_branch", [("x: f32[]", scalar(0f32))])
            .runs(|[x]| grad(x, |x| cond(x.gt(0.0), || x.sqrt(), || x * 0.0)))
            .gives([("out", scalar(0f32))]),
        // Under `vmap`, the lane with x = 0 takes the second branch. The first branch, sqrt(w * x), is not
        // differentiable at x = 0.
        case("gradient_of_an_untaken_branch_on_lanes", |g| {
            let (xs, w) = (g.input("xs", "f32[3]"), g.input("w", "f32[]"));
            let guarded = |(xs, w): (Value, Value)| {
                vmap(xs, |x| cond(x.gt(0.0), || (w * x).sqrt() / w.sqrt(), || x * 2.0 + w * 0.0)).sum(0)
            };
            grad((xs, w), guarded)
        })
        .on([row([4f32, 0., 1.]), scalar(2f32)])
        .with_atol(1e-6)
        .gives([("out_0", row([0.25f32, 2., 0.5])), ("out_1", scalar(0f32))]),
        // If a lane's index is clamped, the lane's gradient is the gradient of the branch that runs.
        case("gradient_of_a_clamped_index_on_lanes", |g| {
            let (index, xs) = (g.input("index", "i32[B]"), g.input("xs", "f32[B]"));
            let chosen = move |xs| {
                vmap((index, xs), |(index, x): (Value, Value)| switch(index, [&|| x * x, &|| x * 3.0])).sum(0)
            };
            grad(xs, chosen)
        })
        .on([row([-1i32, 0, 1, 7]), row([2f32, 3., 4., 5.])])
        .gives([("out", row([4f32, 6., 3., 3.]))]),
        // The steps that other lanes still run must not affect the gradient of a finished lane. Each lane replaces x
        // with sqrt(x - 1) while x exceeds 1. The first lane goes from 5 to 2 to 1, so its gradient is 1/4 * 1/2. The
        // second lane starts at 1 and runs no steps, so its gradient is 1.
        case_on("gradient_of_ended_lanes", [("xs: f32[2]", row([5f32, 1.]))])
            .runs(|[xs]| grad(xs, |xs| vmap(xs, |x| while_loop(x, |x| x.gt(1.0), |x| (x - 1.0).sqrt())).sum(0)))
            .gives_dynamic([("out", row([0.125f32, 1.]))]),
        // An operand that the selected branch does not use has gradient zero.
        case("gradient_of_a_branch_without_its_operand", |g| {
            let (k, x, y) = (g.input("k", "i64[]"), g.input("x", "f32[]"), g.input("y", "f32[]"));
            grad((x, y), |(x, y)| switch(k, [&|| x * y, &|| x.square(), &|| y]))
        })
        .on([scalar(1i64), scalar(3f32), scalar(5f32)])
        .gives([("out_0", scalar(6f32)), ("out_1", scalar(0f32))]),
        // Differentiates an unbounded while loop in reverse mode. The loop multiplies x by w while x is below 10. With
        // x = 2 and w = 2, the loop runs 3 steps.
        case_on("gradient_of_a_conditional_loop", [("x: f32[]", scalar(2f32)), ("w: f32[]", scalar(2f32))])
            .runs(|[x, w]| {
                let loss = |(x, w): (Value, Value)| while_loop(x, |x| x.lt(10.0), |x| x * w);
                (grad((x, w), loss), grad(w, |w| grad(w, |w| loss((x, w)))))
            })
            .gives_dynamic([("out_0_0", scalar(8f32)), ("out_0_1", scalar(24f32)), ("out_1", scalar(24f32))]),
        // Let A, B and C be the matrices in `xs`. Matrix products do not commute, so the gradient must keep their
        // order. The gradient of (A B C)[0,1] is computed from A[0,:] = (1, 2), (B C)[:,1] = (3, 1), and (A B)[0,:] =
        // (1, 3).
        case_on(
            "gradient_of_products_in_order",
            [("xs: f32[3,2,2]", tensor([3, 2, 2], [1f32, 2., 0., 1., 1., 1., 0., 1., 1., 2., 0., 1.]))],
        )
        .runs(|[xs]| grad(xs, |xs| associative_scan(xs, |a, b| a.matmul(b)).index(0, -1).index(0, 0).index(0, 1)))
        .gives([("out", tensor([3, 2, 2], [3f32, 1., 0., 0., 2., 1., 4., 2., 0., 1., 0., 3.]))]),
        // Each partial derivative of a product is the product of the other elements. The gradient must be correct even
        // if some elements are zero.
        case("gradient_of_a_product_with_zeros", |g| {
            let (one, two) = (g.input("one", "f32[3]"), g.input("two", "f32[3]"));
            let loss = |x: Value| x.prod(0);
            (grad(one, loss), grad(two, loss), hessian(two, loss), grad(one, |x| x.cumprod(0, false).sum(0)))
        })
        .on([row([2f32, 0., 5.]), row([0f32, 0., 5.])])
        .gives([
            ("out_0", row([0f32, 10., 0.])),
            ("out_1", row([0f32, 0., 0.])),
            ("out_2", tensor([3, 3], [0f32, 5., 0., 5., 0., 0., 0., 0., 0.])),
            ("out_3", row([1f32, 12., 0.])),
        ]),
        // Equal maxima share the gradient equally. The derivative of `abs` at 0 is 0.
        case_on("gradient_of_equal_maxima", [("x: f32[4]", row([3f32, 0., -1., 3.]))])
            .runs(|[x]| {
                (grad(x, |x| x.max(0)), grad(x, |x| x.maximum(x.reverse(0)).index(0, 0)), grad(x, |x| x.abs().sum(0)))
            })
            .gives([
                ("out_0", row([0.5f32, 0., 0., 0.5])),
                ("out_1", row([0.5f32, 0., 0., 0.5])),
                ("out_2", row([1f32, 0., -1., 1.])),
            ]),
        // Computes gradients with repeated and out-of-range indices. For `take`, the contributions of repeated indices
        // are added. For `scatter`, only the last update of an element has a gradient.
        case("gradient_of_repeated_indices", |g| {
            let (x, u, at) = (g.input("x", "f32[3]"), g.input("u", "f32[3]"), g.input("at", "i64[3]"));
            let weights = || constant(HostTensor::from([1f32, 10., 100.]));
            let by_take = grad(x, |x| (x.take(0, at) * weights()).sum(0));
            let set = grad((x, u), |(x, u)| (x.scatter(0, at, u, funcify::ops::ScatterMode::Set) * weights()).sum(0));
            (by_take, set)
        })
        .on([row([1f32, 2., 3.]), row([4f32, 5., 6.]), row([1i64, 1, 7])])
        .gives([
            ("out_0", row([0f32, 11., 100.])),
            ("out_1_0", row([1f32, 0., 100.])),
            ("out_1_1", row([0f32, 10., 0.])),
        ]),
        // Computes the gradient of each lane's loss, and the gradient of the sum of these losses. The loss of a lane is
        // x0 w^2 + x1 w + x2, and its derivative with respect to w is 2 x0 w + x1.
        {
            fn loss(w: Value, xs: Value) -> Value {
                scan(w.zeros_like(), xs, |c, x| (c * w + x, ())).0
            }
            let program = |g: &Builder| {
                let (w, xs) = (g.input("w", "f32[]"), g.input("xs", "f32[2,3]"));
                let each = vmap(xs, |xs| grad(w, |w| loss(w, xs)));
                let all = grad(w, |w| vmap(xs, |xs| loss(w, xs)).sum(0));
                (each, all)
            };
            case("gradient_on_lanes", program)
                .on([scalar(10f32), tensor([2, 3], [1f32, 2., 3., 4., 5., 6.])])
                .gives([("out_0", row([22f32, 85.])), ("out_1", scalar(107f32))])
        },
        // Computes the Hessian of the sum of c[t] = c[t-1] + x[0] x[1] over two steps. This sum equals 3 x[0] x[1].
        case_on("hessian_of_a_loop", [("x: f32[2]", row([2f32, 7.]))])
            .runs(|[x]| {
                hessian(x, |x| {
                    let [a, b] = x.unstack(0);
                    let zero = a.zeros_like();
                    scan_with(ScanOptions::new().length(2), zero, (), |c, ()| (c + a * b, c + a * b)).1.sum(0)
                })
            })
            .gives([("out", tensor([2, 2], [0f32, 3., 3., 0.]))]),
        // The loss is x0^2 x1, and its Hessian is [[2 x1, 2 x0], [2 x0, 0]].
        case_on("hessian_vector_product", [("x: f32[2]", row([2f32, 3.])), ("v: f32[2]", row([1f32, 10.]))])
            .runs(|[x, v]| {
                let loss = |x: Value| {
                    let [a, b] = x.unstack(0);
                    a.square() * b
                };
                (hvp(x, v, loss), jvp(x, v, loss).1)
            })
            .gives([("out_0", row([46f32, 4.])), ("out_1", scalar(52f32))]),
        // The loop computes w^n. The trip count n is an operand without a gradient, but w has a gradient.
        case_on("gradient_of_a_run_time_count", [("n: i64[]", scalar(5i64)), ("w: f32[]", scalar(2f32))])
            .runs(|[n, w]| {
                let power = |w: Value| fori_loop(0, n, w.ones_like(), |_, c| c * w);
                (grad(w, power), grad(w, |w| grad(w, power)))
            })
            .gives_dynamic([("out_0", scalar(80f32)), ("out_1", scalar(160f32))]),
        // Let a, b, c and d be the first four rows of the buffer. The loop replaces them with a, a b, a b c and a b c
        // d, and keeps the last row, so the result is 2, 6, 24, 120, 9. Each overwritten row contributes to the loss
        // only through the product that replaces it.
        {
            let (inputs, expected) =
                ([row([2f32, 3., 4., 5., 9.])], row([1f32 + 3. + 12. + 60., 2. + 8. + 40., 6. + 30., 24., 1.]));
            case("gradient_of_overwritten_rows", |g| {
                let buffer = g.input("buffer", "f32[5]");
                grad(buffer, |buffer| {
                    sweep(Recurrence::new().steps(3), buffer, [0, 1], [1], [], |[], [a, b]| [a * b]).sum(0)
                })
            })
            .on(inputs)
            .gives([("out", expected)])
        },
    ])
}

/// Builds a case that runs c = c * w + x over x = 1, 2, 3, 4, 5 with w = 0.5, and differentiates only the last `steps`
/// steps.
fn truncated(steps: usize, of_xs: [f32; 5], of_w: f32) -> OneCase {
    let program = move |g: &Builder| {
        let (xs, w) = (g.input("xs", "f32[5]"), g.input("w", "f32[]"));
        grad((xs, w), |(xs, w)| {
            let zero = constant(HostTensor::scalar(0f32));
            let step = |c: Value, x: Value| (c * w + x, ());
            let cut = 5 - steps.min(5) as i64;
            // The steps before the cut treat the weight as a constant.
            let fixed = w.stop_gradient();
            let (before, ()) = scan(zero, xs.slice(0, ..cut), |c, x| (c * fixed + x, ()));
            scan(before.stop_gradient(), xs.slice(0, cut..), step).0
        })
    };
    let name = format!("gradient_through_the_last_{steps}");
    case(name, program)
        .on([row([1f32, 2., 3., 4., 5.]), scalar(0.5f32)])
        .gives([("out_0", row(of_xs)), ("out_1", scalar(of_w))])
}
