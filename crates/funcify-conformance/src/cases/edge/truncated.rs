//! Truncated backpropagation through time: only the last steps are differentiated (scan-c8), as with PyTensor's
//! `truncate_gradient`.

use funcify::prelude::*;

use super::*;
use crate::cases::recurrences::driven;

pub(super) fn cases() -> Cases {
    all([
        // Differentiates the last three steps of a loop that computes x[t-2] * x[t] and exits once x[t] exceeds 6.
        case("truncated_until", |g| {
            grad(g.input("xs", "f32[T]"), |xs| {
                let mut loop_ = Recurrence::new();
                let taps = loop_.sequence(xs, [-2, 0]);
                let products = loop_.truncate(3).run(|step| {
                    let [before, x] = step.read(&taps);
                    step.until(x.gt(6.0));
                    before * x
                });
                products.ys.sum(0)
            })
        })
        .on([HostTensor::from_fn(DType::F32, &[15], |index| funcify::Scalar::Int(index[0] as i64))])
        .gives([("out", row([0f32, 0., 0., 5., 6., 10., 4., 5., 0., 0., 0., 0., 0., 0., 0.]))]),
        // Runs five steps of p = p/2 + a^2, and differentiates the last two. The gradient with respect to `a` is 2 a
        // for the last step, and a for the step before it.
        case("truncated_to_two_of_five_steps", |g| {
            let (p, a) = (g.input("p", "f32[]"), g.input("a", "f32[5]"));
            let options = ScanOptions::new().truncate(2);
            grad((p, a), |(p, a)| scan_with(options, p, a, |p, a| (p / 2.0 + a.square(), ())).0)
        })
        .on([scalar(7f32), row([1f32, 2., 3., 4., 5.])])
        .gives([("out_0", scalar(0f32)), ("out_1", row([0f32, 0., 0., 4., 10.]))]),
        weighted(0, [0., 0., 0., 0., 0.], 0.),
        weighted(1, [0., 0., 0., 0., 1.], 6.125),
        weighted(3, [0., 0., 0.25, 0.5, 1.], 8.875),
        weighted(9, [0.0625, 0.125, 0.25, 0.5, 1.], 9.),
        // The loss is the sum of the whole trace, but the rows that the first three steps computed are constants. The
        // rows are 1, 2.5, 4.25, 6.125, 8.0625. The last two are w * 4.25 + 4 and w * (w * 4.25 + 4) + 5.
        case("truncated_state_with_a_trace", |g| {
            let (p, a, w) = (g.input("p", "f32[]"), g.input("a", "f32[5]"), g.input("w", "f32[]"));
            grad((p, a, w), |(p, a, w)| running(Recurrence::new().truncate(2), a, p, |x, before| before * w + x).sum(0))
        })
        .on([scalar(0f32), row([1f32, 2., 3., 4., 5.]), scalar(0.5f32)])
        .gives([
            ("out_0", scalar(0f32)),
            ("out_1", row([0f32, 0., 0., 1.5, 1.])),
            ("out_2", scalar(4.25f32 + 6.125 + 2.125)),
        ]),
        // The last steps of a reverse loop read the first rows of the sequence. The states are 5, 6.5, 6.25, 5.125 and
        // 3.5625.
        case("truncated_downward", |g| {
            let (init, xs, w) = (g.input("init", "f32[]"), g.input("xs", "f32[5]"), g.input("w", "f32[]"));
            let options = ScanOptions::new().reverse().truncate(2);
            grad((init, xs, w), |(init, xs, w)| scan_with(options, init, xs, |c, x| (c * w + x, ())).0)
        })
        .on([scalar(0f32), row([1f32, 2., 3., 4., 5.]), scalar(0.5f32)])
        .gives([
            ("out_0", scalar(0f32)),
            ("out_1", row([1f32, 0.5, 0., 0., 0.])),
            ("out_2", scalar(5.125f32 + 0.5 * 6.25)),
        ]),
        fewer_steps("truncated_to_more_steps_than_there_are", row([1f32, 2.]), 0.25, row([0.5f32, 1.])),
        fewer_steps(
            "truncated_to_fewer_steps_than_there_are",
            row([1f32, 2., 3., 4., 5., 6.]),
            0.,
            row([0f32, 0., 0.125, 0.25, 0.5, 1.]),
        ),
        fewer_steps("truncated_without_steps", empty::<f32, 1>([0]), 1., empty::<f32, 1>([0])),
        initial_rows("truncated_initial_rows_of_one_step", [1f32], [3., 5.], [1f32]),
        initial_rows("truncated_initial_rows_of_two_steps", [1f32, 2.], [0., 3.], [0f32, 1.]),
        initial_rows("truncated_initial_rows_of_three_steps", [1f32, 2., 3.], [0., 0.], [0f32, 0., 1.]),
        // Runs three steps of b[t+1] = b[t] * b[t+1], and differentiates only the last step, which computes 24 * 5.
        // Rows that the first two steps wrote are constants, but a row that no step wrote is still a row of the
        // operand, so it has a gradient. The result is 2, 6, 24, 120, 9.
        case("truncated_full_buffer", |g| {
            grad(g.input("buffer", "f32[N]"), |buffer| {
                sweep(Recurrence::new().steps(buffer.dim(0) - 2).truncate(1), buffer, [0, 1], [1], [], |[], [a, b]| {
                    [a * b]
                })
                .sum(0)
            })
        })
        .on([row([2f32, 3., 4., 5., 9.])])
        .gives([("out", row([1f32, 0., 0., 24., 1.]))]),
        // Runs four steps that compute x[t] * x[t+1], and differentiates only the last two.
        case("truncated_sequence_with_taps", |g| {
            grad(g.input("xs", "f32[T]"), |xs| {
                stencil(Recurrence::new().truncate(2), xs, [0, 1], |[a, b]| a * b).sum(0)
            })
        })
        .on([row([1f32, 2., 3., 4., 5.])])
        .gives([("out", row([0f32, 0., 4., 8., 4.]))]),
        // A reverse loop exits after two steps. Only the second step, which computes 10 * 3, is differentiated.
        case("truncated_until_downward", |g| {
            let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[T]"));
            grad((init, xs), |(init, xs)| {
                let options = ScanOptions::new().reverse().truncate(1);
                let step = |c: Value, x: Value| (c * x, c * x, (c * x).gt(20.0));
                scan_until_with(options, init, xs, step).1.sum(0)
            })
        })
        .on([scalar(2f32), row([9f32, 9., 9., 3., 5.])])
        .gives([("out_0", scalar(0f32)), ("out_1", row([0f32, 0., 0., 10., 0.]))]),
        // Computes w^n, where the trip count n is an operand. Only the last two factors are differentiated.
        case_on("truncated_run_time_count", [("n: i64[]", scalar(5i64)), ("w: f32[]", scalar(2f32))])
            .runs(|[n, w]| {
                grad(w, |w| {
                    let mut loop_ = Recurrence::new();
                    let c = loop_.carry(w.ones_like());
                    let done = loop_.steps_value(n).truncate(2).run(|step| {
                        let before = step.read(&c);
                        step.write(&c, before * w);
                    });
                    done.last(&c)
                })
            })
            .gives_dynamic([("out", scalar(32f32))]),
        // Computes a gradient with respect to `xs` for each lane, and the gradient of the lanes' total loss with
        // respect to w. Each lane contributes c1 + w c0 to the second gradient, with c0 = w^2 + x0^2 and c1 = w c0 +
        // x1^2.
        {
            fn loss(xs: Value, w: Value) -> Value {
                scan_with(ScanOptions::new().truncate(2), w, xs, |c, x| (c * w + x.square(), ())).0
            }
            let program = |g: &Builder| {
                let (xs, w) = (g.input("xs", "f32[2,3]"), g.input("w", "f32[]"));
                let each = vmap(xs, |xs| grad(xs, |xs| loss(xs, w)));
                let all = grad(w, |w| vmap(xs, |xs| loss(xs, w)).sum(0));
                (each, all)
            };
            let of_lane = |a: f32, b: f32| (0.5 * (0.25 + a * a) + b * b) + 0.5 * (0.25 + a * a);
            case("truncated_on_lanes", program).on([tensor([2, 3], [1f32, 2., 3., 4., 5., 6.]), scalar(0.5f32)]).gives(
                [
                    ("out_0", tensor([2, 3], [0f32, 2., 6., 0., 5., 12.])),
                    ("out_1", scalar(of_lane(1., 2.) + of_lane(4., 5.))),
                ],
            )
        },
        // Forward mode ignores the truncation.
        case_on("truncated_in_forward_mode", [("init: f32[]", scalar(8f32)), ("xs: f32[3]", row([1f32, 2., 3.]))])
            .runs(|[init, xs]| {
                let options = ScanOptions::new().truncate(1);
                let last = |(init, xs): (Value, Value)| scan_with(options, init, xs, |c, x| (c * 0.5 + x, ())).0;
                jvp((init, xs), (init.ones_like(), xs.ones_like()), last).1
            })
            .gives([("out", scalar(1.875f32))]),
        // Runs p = p * w + a over a = 1, 2, 3, 4, from p = 0 and with w = 0.5, and differentiates the last two steps.
        // Let c1 = 2.5 and c2 = w c1 + 3 be the values of p after the second and the third step. The derivative with
        // respect to w is c2 + w c1. Differentiating again in reverse mode yields 2 c1, because c1 is a constant.
        // Forward mode also differentiates c1 = w * 1 + 2.
        {
            fn first(a: Value, w: Value) -> Value {
                let options = ScanOptions::new().truncate(2);
                grad(w, |w| scan_with(options, w.zeros_like(), a, |p, a| (p * w + a, ())).0)
            }
            let program = |g: &Builder| {
                let (a, w) = (g.input("a", "f32[4]"), g.input("w", "f32[]"));
                let last = |w: Value| {
                    let options = ScanOptions::new().truncate(2);
                    scan_with(options, w.zeros_like(), a, |p, a| (p * w + a, ())).0
                };
                (first(a, w), grad(w, |w| first(a, w)), hvp(w, w.ones_like(), last))
            };
            case("truncated_by_two", program).on([row([1f32, 2., 3., 4.]), scalar(0.5f32)]).gives([
                ("out_0", scalar(5.5f32)),
                ("out_1", scalar(5f32)),
                ("out_2", scalar(6f32)),
            ])
        },
    ])
}

/// Builds a case that runs p = p * w + a over a = 1, 2, 3, 4, 5, from p = 0 and with w = 0.5, and differentiates only
/// the last `steps` steps.
fn weighted(steps: usize, of_a: [f32; 5], of_w: f32) -> OneCase {
    let program = move |g: &Builder| {
        let (a, w) = (g.input("a", "f32[5]"), g.input("w", "f32[]"));
        let options = ScanOptions::new().truncate(steps);
        grad((a, w), |(a, w)| scan_with(options, w.zeros_like(), a, |p, a| (p * w + a, ())).0)
    };
    let outputs = [("out_0", row(of_a)), ("out_1", scalar(of_w))];
    let name = format!("truncated_to_{steps}_steps");
    case(name, program).on([row([1f32, 2., 3., 4., 5.]), scalar(0.5f32)]).gives(outputs)
}

/// Builds a case that differentiates the last four steps of a loop. The trip count is known only at run time, and may
/// be less than four.
fn fewer_steps(name: &str, xs: HostTensor, of_init: f32, of_xs: HostTensor) -> OneCase {
    case_on(name, [("init: f32[]", scalar(8f32)), ("xs: f32[T]", xs)])
        .runs(|[init, xs]| {
            let options = ScanOptions::new().truncate(4);
            grad((init, xs), |(init, xs)| scan_with(options, init, xs, |c, x| (c * 0.5 + x, ())).0)
        })
        .gives([("out_0", scalar(of_init)), ("out_1", of_xs)])
}

/// Builds a case that runs y[t] = 3 y[t-2] + 5 y[t-1] + x[t], and differentiates only the last step. Initial rows have
/// a gradient only if the last step reads them.
fn initial_rows<const N: usize>(name: &str, xs: [f32; N], of_init: [f32; 2], of_xs: [f32; N]) -> OneCase {
    let program = |g: &Builder| {
        let (init, xs) = (g.input("init", "f32[2]"), g.input("xs", "f32[T]"));
        grad((init, xs), |(init, xs)| {
            driven(Recurrence::new().truncate(1), xs, init, [-2, -1], |x, [older, old]| older * 3.0 + old * 5.0 + x)
                .index(0, -1)
        })
    };
    case(name, program).on([row([1f32, 2.]), row(xs)]).gives([("out_0", row(of_init)), ("out_1", row(of_xs))])
}
