//! Loops with zero steps or one step, unroll hints, and sequences with more rows than the loop has steps (scan-c3).

use super::*;

pub(super) fn cases() -> Cases {
    let mut cases = all([
        // With zero steps, the trace of a sit-sot has no rows, but has the row shape and the dtype of the initial
        // value.
        case_on("sit_sot_without_steps", [("init: f32[3]", row([1f32, 2., 3.]))])
            .runs(|[init]| {
                let mut loop_ = Recurrence::new();
                let state = loop_.sit_sot(init);
                let done = loop_.steps(0).run(|step| {
                    let [old] = step.read(&state);
                    step.write(&state, old + 1.0);
                });
                outputs! { trace: done.trace(&state), with_init: done.trace_with_init(&state) }
            })
            .gives([("trace", empty::<f32, 2>([0, 3])), ("with_init", tensor([1, 3], [1f32, 2., 3.]))]),
        // With zero steps, the trace of an integer sit-sot is empty too.
        case_on("int_sit_sot_without_steps", [("init: i64[]", scalar(4i64))])
            .runs(|[init]| outputs! { trace: repeated(Recurrence::new().steps(0), init, |old| old + 1) })
            .gives([("trace", empty::<i64, 1>([0]))]),
        // With zero steps, a nit-sot with rows of shape (3) returns ys of shape (0, 3).
        case("nit_sot_without_steps", |g| {
            let ((), ys) = scan((), g.input("xs", "f32[0,3]"), |(), x| ((), x * 2.0));
            outputs! { ys }
        })
        .on([empty::<f32, 2>([0, 3])])
        .gives([("ys", empty::<f32, 2>([0, 3]))]),
        // With zero steps, a loop returns the initial value of its carry.
        case("carry_without_steps", |g| {
            let (last, ()) = scan(g.input("init", "f32[2]"), g.input("xs", "f32[0,2]"), |sum, x| (sum + x, ()));
            outputs! { last }
        })
        .on([row([5f32, -1.]), empty::<f32, 2>([0, 2])])
        .gives([("last", row([5f32, -1.]))]),
        // If no step runs, the last row of a trace that includes the initial row is the initial row itself.
        case_on("last_row_of_a_buffer_without_steps", [("init: f32[2]", row([8f32, 9.]))])
            .runs(|[init]| {
                let mut loop_ = Recurrence::new();
                let state = loop_.sit_sot(init);
                let done = loop_.steps(0).run(|step| {
                    let [old] = step.read(&state);
                    step.write(&state, old * 3.0);
                });
                outputs! { last: done.trace_with_init(&state).index(0, -1) }
            })
            .gives([("last", row([8f32, 9.]))]),
        // The trip count of 1 is known when the program is built. The results have the same ranks as for larger trip
        // counts.
        case("one_step_known_at_build", |g| {
            let (last, ys) = scan(g.input("init", "f32[2]"), g.input("xs", "f32[1,2]"), |sum, x| (sum + x, sum * x));
            outputs! { last, ys }
        })
        .on([row([1f32, 2.]), tensor([1, 2], [10f32, 20.])])
        .gives([("last", row([11f32, 22.])), ("ys", tensor([1, 2], [10f32, 40.]))]),
        // The trip count of 1 is known only at run time. The results are the same as in the previous case.
        case("one_step_known_at_call", |g| {
            let (last, ys) = scan(g.input("init", "f32[2]"), g.input("xs", "f32[T,2]"), |sum, x| (sum + x, sum * x));
            outputs! { last, ys }
        })
        .on([row([1f32, 2.]), tensor([1, 2], [10f32, 20.])])
        .gives([("last", row([11f32, 22.])), ("ys", tensor([1, 2], [10f32, 40.]))]),
        // The sequence has more rows than the loop has steps, so its last rows are not read. This case does not check
        // the gradient.
        case("sequence_longer_than_the_loop", |g| {
            let trace =
                running(Recurrence::new().steps(3), g.input("xs", "f32[T]"), g.input("init", "f32[]"), |x, old| {
                    old + x
                });
            outputs! { trace }
        })
        .on([row([1f32, 2., 3., f32::NAN, f32::NAN]), scalar(0f32)])
        .gives([("trace", row([1f32, 3., 6.]))]),
        // The body returns no ys, so the scan returns only the last carry, without an empty tensor for the ys.
        case_on("body_without_ys", [("init: f32[]", scalar(2f32)), ("xs: f32[T]", row([3f32, 5.]))])
            .runs(|[init, xs]| scan(init, xs, |c, x| (c * x, ())))
            .gives([("out_0", scalar(30f32))]),
        // A scan with an empty carry returns only ys.
        case_on("empty_carry", [("xs: f32[T]", row([1f32, 2., 3.]))])
            .runs(|[xs]| {
                let ((), ys) = scan((), xs, |(), x| ((), x * x));
                outputs! { ys }
            })
            .gives([("ys", row([1f32, 4., 9.]))]),
        // Nothing reads the trace of the state `count`, but the state `sum` depends on `count`, so `count` must be
        // kept.
        case("unread_state_that_feeds_another", |g| {
            let mut loop_ = Recurrence::new();
            let zero = g.input("zero", "f32[]");
            let (count, sum) = (loop_.sit_sot(zero), loop_.sit_sot(zero));
            let done = loop_.steps(5).run(|step| {
                let ([count_1], [sum_1]) = (step.read(&count), step.read(&sum));
                step.write(&count, count_1 + 1.0);
                step.write(&sum, sum_1 + count_1);
            });
            outputs! { sum: done.trace(&sum) }
        })
        .on([scalar(0f32)])
        .gives([("sum", row([0f32, 1., 3., 6., 10.]))]),
        // A scan runs over the trace of another scan.
        case_on("scan_of_a_trace", [("zero: f32[]", scalar(0f32)), ("xs: f32[T]", row([1f32, 2., 3., 4.]))])
            .runs(|[zero, xs]| {
                let (_, sums) = scan(zero, xs, |sum, x| (sum + x, sum + x));
                let (_, ys) = scan(zero, sums, |sum, x| (sum + x, sum + x));
                outputs! { sums, ys }
            })
            .gives([("sums", row([1f32, 3., 6., 10.])), ("ys", row([1f32, 4., 10., 20.]))]),
    ])?;
    for unroll in [1, 3, 7, 100] {
        cases.push(unroll_hint_over_seven_steps(unroll)?);
        cases.push(unroll_hint_over_a_symbolic_length(unroll)?);
    }
    Ok(cases)
}

/// Builds a case with a loop of seven steps and the unroll hint `unroll`. The result must not depend on the hint.
fn unroll_hint_over_seven_steps(unroll: usize) -> OneCase {
    let program = |g: &funcify::Builder| {
        let options = ScanOptions::new().unroll(unroll);
        let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[7]"));
        let (last, ys) = scan_with(options, init, xs, |sum, x| (sum + x, sum * x));
        outputs! { last, ys }
    };
    unrolled(&format!("unroll_hint_{unroll}_over_seven_steps"), program)
}

/// Builds a case with the unroll hint `unroll` for a loop whose trip count is known only at run time. The result must
/// not depend on the hint.
fn unroll_hint_over_a_symbolic_length(unroll: usize) -> OneCase {
    let program = |g: &funcify::Builder| {
        let options = ScanOptions::new().unroll(unroll);
        let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[T]"));
        let (last, ys) = scan_with(options, init, xs, |sum, x| (sum + x, sum * x));
        outputs! { last, ys }
    };
    unrolled(&format!("unroll_hint_{unroll}_over_a_symbolic_length"), program)
}

fn unrolled(name: &str, program: impl FnOnce(&funcify::Builder) -> crate::cases::Outputs) -> OneCase {
    case(name, program)
        .on([scalar(0f32), row([1f32, 2., 3., 4., 5., 6., 7.])])
        .gives([("last", scalar(28f32)), ("ys", row([0f32, 2., 9., 24., 50., 90., 147.]))])
}
