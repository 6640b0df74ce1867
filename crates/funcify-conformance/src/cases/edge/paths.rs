//! Gradients along all paths through a loop (products of matrices, weights, traces, trip counts, random state), through
//! scattered updates, and through log gamma, whose derivatives are polygamma functions.

use funcify::ops::ScatterMode;
use funcify::prelude::*;
use funcify::{Disconnected, Shape, grad_with, hessian, random};

use super::{Cases, all, case, case_on, row, scalar, tensor};

pub(super) fn cases() -> Cases {
    all([
        // A recurrence of matrices that do not commute must have the same gradient as its unrolled form. Let S be
        // `start`, and let A, B and C be the matrices in `xs`. The loss is entry (0, 1) of the product S A B C, so it
        // depends only on the first row of S. Let s = (1, 2) be this row, so s A = (1, 4) and s A B = (5, 1). The
        // gradient of s is (A B C)[:,1] = (7, 2). The gradient of A is the outer product of s and (B C)[:,1] = (3, 2).
        // The gradient of B is the outer product of s A and C[:,1] = (2, 1). The gradient of C is s A B in column 1,
        // and zero elsewhere.
        {
            let of_start = tensor([2, 2], [7f32, 2., 0., 0.]);
            let of_xs = tensor([3, 2, 2], [3f32, 2., 6., 4., 2., 1., 8., 4., 0., 5., 0., 1.]);
            let outputs =
                [("out_0_0", of_start.clone()), ("out_0_1", of_xs.clone()), ("out_1_0", of_start), ("out_1_1", of_xs)];
            case_on(
                "gradient_of_matrices_in_order",
                [
                    ("start: f32[2,2]", tensor([2, 2], [1f32, 2., 5., 7.])),
                    ("xs: f32[3,2,2]", tensor([3, 2, 2], [1f32, 2., 0., 1., 1., 1., 1., 0., 1., 2., 0., 1.])),
                ],
            )
            .runs(|[start, xs]| {
                let corner = |c: Value| c.index(0, 0).index(0, 1);
                let looped = grad((start, xs), |(start, xs)| corner(scan(start, xs, |c, x| (c.matmul(x), ())).0));
                let unrolled = grad((start, xs), |(start, xs)| {
                    let [a, b, c] = xs.unstack(0);
                    corner(start.matmul(a).matmul(b).matmul(c))
                });
                (looped, unrolled)
            })
            .gives(outputs)
        },
        // The gradient of a captured weight is a sum over all steps, including those of inner loops.
        case("gradient_of_a_weight_in_every_step", |g| {
            let (w, xs) = (g.input("w", "f32[]"), g.input("xs", "f32[4]"));
            let add = |w: Value| scan_with(ScanOptions::new().length(5), w.zeros_like(), (), |c, ()| (c + w, ())).0;
            let nested = |w: Value| {
                let inner = |c: Value| scan_with(ScanOptions::new().length(3), c, (), |c, ()| (c + w, ())).0;
                scan_with(ScanOptions::new().length(2), w * 0.0, (), |c, ()| (inner(c) + w * 10.0, ())).0
            };
            let products = |w: Value| scan(w.zeros_like(), xs, |c, x| (c + w * x, w * x * x)).1.sum(0);
            (grad(w, add), grad(w, nested), grad(w, products))
        })
        .on([scalar(0.25f32), row([1f32, 2., 3., 4.])])
        .gives([("out_0", scalar(5f32)), ("out_1", scalar(26f32)), ("out_2", scalar(30f32))]),
        // A float that affects only the trip count has gradient zero with `Disconnected::Zeros`.
        case_on("gradient_of_a_count_of_a_float", [("x: f32[]", scalar(5.5f32)), ("w: f32[]", scalar(2f32))])
            .runs(|[x, w]| {
                let power = |(x, w): (Value, Value)| fori_loop(0, x.cast(DType::I64), w.ones_like(), |_, c| c * w);
                grad_with(GradOptions::new().disconnected(Disconnected::Zeros), (x, w), power)
            })
            .gives_dynamic([("out_0", scalar(0f32)), ("out_1", scalar(80f32))]),
        // A loop runs over the trace of another loop. The first loop computes the products 2, 6 and 24. The second loop
        // replaces d with d * y + 1, so d takes the values 3, 19 and 457. The gradients of the ys are 24 * 6 * 1, 24 *
        // 3 and 19.
        case("gradient_of_a_trace_as_a_sequence", |g| {
            let (c, d, xs) = (g.input("c", "f32[]"), g.input("d", "f32[]"), g.input("xs", "f32[T]"));
            grad((c, d, xs), |(c, d, xs)| {
                let (_, ys) = scan(c, xs, |c, x| (c * x, c * x));
                scan(d, ys, |d, y| (d * y + 1.0, ())).0
            })
        })
        .on([scalar(1f32), scalar(1f32), row([2f32, 3., 4.])])
        .gives([("out_0", scalar(1176f32)), ("out_1", scalar(288f32)), ("out_2", row([588f32, 296., 114.]))]),
        // A weight has the same first derivative, 3 w^2 + 2 w + 2, whether the loop captures it, carries it, or reads
        // it from a sequence. The second derivative is 6 w + 2.
        case("gradient_of_a_weight_captured_or_passed", |g| {
            let (init, xs, w) = (g.input("init", "f32[]"), g.input("xs", "f32[3]"), g.input("w", "f32[]"));
            let captured = |w: Value| scan(init, xs, |c, x| (c * w + x, ())).0;
            let carried = |w: Value| scan((init, w), xs, |(c, w), x| ((c * w + x, w), ())).0.0;
            let read = |w: Value| scan(init, (xs, w.broadcast_to([3])), |c, (x, w)| (c * w + x, ())).0;
            (grad(w, captured), grad(w, carried), grad(w, read), grad(w, |w| grad(w, carried)))
        })
        .on([scalar(1f32), row([1f32, 2., 3.]), scalar(0.5f32)])
        .gives([
            ("out_0", scalar(3.75f32)),
            ("out_1", scalar(3.75f32)),
            ("out_2", scalar(3.75f32)),
            ("out_3", scalar(5f32)),
        ]),
        // The loop carries a random key, which has no gradient. The mean and the standard deviation of the random
        // numbers do have gradients.
        case("gradient_beside_random_state", |g| {
            let (key, mean, deviation) =
                (g.input("key", "u32[2]"), g.input("mean", "f32[]"), g.input("deviation", "f32[]"));
            let walk = |(mean, deviation): (Value, Value)| {
                let start = (key, mean.zeros_like());
                let step = |(key, x): (Value, Value), ()| {
                    let [key, own] = random::split(key, 2).unstack(0);
                    ((key, x + mean + deviation * random::normal(own, Shape::scalar(), DType::F32)), ())
                };
                scan_with(ScanOptions::new().length(5), start, (), step).0.1
            };
            let (of_mean, of_deviation) = grad((mean, deviation), walk);
            // The gradient with respect to the deviation is the sum of the standard normal numbers, so the last result
            // is zero.
            (of_mean, of_deviation, of_deviation - walk((mean.zeros_like(), mean.ones_like())))
        })
        .on([random::host_key(0), scalar(2f32), scalar(0.5f32)])
        .with_atol(1e-6)
        .gives([("out_0", scalar(5f32)), ("out_1", scalar(-8.404_745f32)), ("out_2", scalar(0f32))]),
        // If an element is multiplied by several updates, the gradient of each update is the product of the other
        // factors, times the weight of the element in the loss. Factors may be zero, and updates out of range have no
        // effect. The resulting elements are 2 * 0.5, 3 * 4 * 0 and 5.
        case("gradient_of_scattered_products", |g| {
            let (x, u, at) = (g.input("x", "f32[N]"), g.input("u", "f32[K]"), g.input("at", "i64[K]"));
            let loss = |(x, u): (Value, Value)| {
                let weights = constant(HostTensor::from([1f32, 10., 100.])).pad(0, 0, x.dim(0) - 3, 0.0);
                (x.scatter(0, at, u, ScatterMode::Mul) * weights).sum(0)
            };
            (grad((x, u), loss), jvp((x, u), (x.ones_like(), u.ones_like()), loss).1)
        })
        .on([row([2f32, 3., 5.]), row([4f32, 0., 9., 0.5]), row([1i64, 1, 7, 0])])
        .gives([
            ("out_0_0", row([0.5f32, 0., 100.])),
            ("out_0_1", row([0f32, 120., 0., 2.])),
            ("out_1", scalar(222.5f32)),
        ]),
        // Computes second derivatives of scattered products along axis 1 of a matrix. Two updates multiply the same
        // element. Its old value is 3 and its weight is 10, so the mixed derivative with respect to the two updates is
        // 10 * 3. All other second derivatives are zero.
        {
            let mut expected = [0f32; 16];
            (expected[1], expected[4]) = (30.0, 30.0);
            case("second_derivative_of_scattered_products", |g| {
                let (x, u, v) = (g.input("x", "f32[3]"), g.input("u", "f32[4]"), g.input("v", "f32[4]"));
                let at = constant(HostTensor::from([[1u32, 1, 7, 0]]));
                let loss =
                    |u: Value| weighted(x.unsqueeze(0).scatter(1, at, u.unsqueeze(0), ScatterMode::Mul).squeeze(0));
                (hessian(u, loss), hvp(u, v, loss))
            })
            .on([row([2f32, 3., 5.]), row([4f32, 0., 9., 0.5]), row([1f32, 2., 3., 4.])])
            .gives([("out_0", tensor([4, 4], expected)), ("out_1", row([60f32, 30., 0., 0.]))])
        },
        // If several updates, or the original element and an update, are all equal to the maximum or the minimum, they
        // share the gradient equally.
        case("gradient_of_scattered_extrema", |g| {
            let (x, u, at) = (g.input("x", "f32[3]"), g.input("u", "f32[5]"), g.input("at", "i64[5]"));
            let of = |mode: ScatterMode| move |(x, u): (Value, Value)| weighted(x.scatter(0, at, u, mode));
            let pushed = jvp((x, u), (x.ones_like(), u.zeros_like()), of(ScatterMode::Max)).1;
            (grad((x, u), of(ScatterMode::Max)), grad((x, u), of(ScatterMode::Min)), pushed)
        })
        .on([row([3f32, 1., 5.]), row([3f32, 2., 4., 4., 9.]), row([0i64, 0, 1, 1, 9])])
        .gives([
            ("out_0_0", row([0.5f32, 0., 100.])),
            ("out_0_1", row([0.5f32, 0., 5., 5., 0.])),
            ("out_1_0", row([0f32, 10., 100.])),
            ("out_1_1", row([0f32, 1., 0., 0., 0.])),
            ("out_2", scalar(100.5f32)),
        ]),
        // If a scattered maximum is NaN, the original element and all its updates have gradient NaN. Updates out of
        // range have gradient zero, even if they are NaN.
        case("gradient_of_scattered_nan", |g| {
            let (x, u, at) = (g.input("x", "f32[3]"), g.input("u", "f32[3]"), g.input("at", "i64[3]"));
            let greatest = |(x, u): (Value, Value)| weighted(x.scatter(0, at, u, ScatterMode::Max));
            let outside = constant(HostTensor::from([5i64, 1, -1]));
            let product = |(x, u): (Value, Value)| x.scatter(0, outside, u, ScatterMode::Mul).index(0, 1);
            (grad((x, u), greatest), grad((x, u), product))
        })
        .on([row([1f32, 2., 3.]), row([f32::NAN, 4., f32::NAN]), row([0i64, 1, -1])])
        .gives([
            ("out_0_0", row([f32::NAN, 0., 100.])),
            ("out_0_1", row([f32::NAN, 10., 0.])),
            ("out_1_0", row([0f32, 4., 0.])),
            ("out_1_1", row([0f32, 2., 0.])),
        ]),
        // The derivatives of log gamma are the polygamma functions. This case evaluates them at 1 and at 1/2.
        case_on("gradients_of_log_gamma", [("x: f32[2]", row([1f32, 0.5])), ("v: f32[2]", row([2f32, 0.]))])
            .runs(|[x, v]| {
                let value = |x: Value| x.lgamma().sum(0);
                let first = |x: Value| grad(x, value);
                let second = |x: Value| grad(x, |x| first(x).sum(0));
                (first(x), second(x), grad(x, |x| second(x).sum(0)), hvp(x, v, value))
            })
            .gives([
                ("out_0", row([-0.577_215_7f32, -1.963_51])),
                ("out_1", row([1.644_934_f32, 4.934_802])),
                ("out_2", row([-2.404_113_8f32, -16.828_797])),
                ("out_3", row([3.289_868_f32, 0.0])),
            ]),
    ])
}

/// Multiplies the three elements by the weights 1, 10 and 100, and returns the sum. Each element thus has a different
/// gradient.
fn weighted(values: Value) -> Value {
    (values * constant(HostTensor::from([1f32, 10., 100.]))).sum(0)
}
