//! Taps of sequences and states: gaps, order, surplus rows, and directions (scan-c2, scan-c5).

use super::*;
use crate::cases::recurrences::state;
use crate::cases::scan_outputs;

pub(super) fn cases() -> Cases {
    all([
        // The state's only tap is -3.
        case("state_tap_three_alone", |g| {
            outputs! { trace: state(Recurrence::new().steps(5), g.input("init", "f32[3]"), [-3], |[old]| old * 10.0) }
        })
        .on([row([1f32, 2., 3.])])
        .gives([("trace", row([10f32, 20., 30., 100., 200.]))]),
        // The arguments of the body are in the order of the taps, -1 and -3. Each step computes s[t-1] + 10 s[t-3], and
        // the initial rows are 1, 2, 3.
        case_on("unsorted_state_taps", [("init: f32[3]", row([1f32, 2., 3.]))])
            .runs(|[init]| {
                let trace =
                    state(Recurrence::new().steps(4), init, [-1, -3], |[newest, oldest]| newest + oldest * 10.0);
                outputs! { trace }
            })
            .gives([("trace", row([13f32, 33., 63., 193.]))]),
        // The sequence's only tap is 2, so the steps read xs[2..].
        case_on("sequence_tap_two", [("xs: f32[T]", row([1f32, 2., 3., 4., 5.]))])
            .runs(|[xs]| {
                let mut loop_ = Recurrence::new();
                let x = loop_.sequence(xs, [2]);
                let done = loop_.run(|step| step.read(&x)[0] * 1.0);
                outputs! { ys: done.ys }
            })
            .gives([("ys", row([3f32, 4., 5.]))]),
        // The taps 2 and -1 of a sequence with T rows allow T - 3 steps. The arguments of the body are in the order of
        // the taps.
        case_on("sequence_taps_two_and_minus_one", [("xs: f32[T]", row([1f32, 2., 3., 4., 5., 6.]))])
            .runs(|[xs]| {
                let ys = stencil(&mut Recurrence::new(), xs, [2, -1], |[ahead, behind]| ahead * 10.0 + behind);
                outputs! { ys }
            })
            .gives([("ys", row([41f32, 52., 63.]))]),
        // Reads the values 1 to 5 as two sequences, one with the taps -2 and -1 and one that also has the tap 0. In the
        // first step, these taps read 1, 2 and 3.
        case("sequence_taps_without_zero", |g| {
            let mut loop_ = Recurrence::new();
            let xs = g.input("xs", "f32[T]");
            let past = loop_.sequence(xs, [-2, -1]);
            let all = loop_.sequence(xs, [-2, -1, 0]);
            let done = loop_.run(|step| {
                let ([older, old], [.., now]) = (step.read(&past), step.read(&all));
                (older * 1.0, old * 1.0, now * 1.0)
            });
            let (older, old, now) = done.ys;
            outputs! { older, old, now }
        })
        .on([row([1f32, 2., 3., 4., 5.])])
        .gives([("older", row([1f32, 2., 3.])), ("old", row([2f32, 3., 4.])), ("now", row([3f32, 4., 5.]))]),
        // If a state has more initial rows than its taps need, only the first ones are used. The surplus rows are NaN,
        // so reading them would change the results. This case does not check the gradient.
        case_on("surplus_initial_rows", [("init: f32[4]", row([1f32, 2., f32::NAN, f32::NAN]))])
            .runs(|[init]| {
                let mut loop_ = Recurrence::new();
                let state = loop_.mit_sot(init, [-2, -1]);
                let done = loop_.steps(3).run(|step| {
                    let [older, old] = step.read(&state);
                    step.write(&state, older + old);
                });
                outputs! { trace: done.trace(&state), with_init: done.trace_with_init(&state) }
            })
            .gives([("trace", row([3f32, 5., 8.])), ("with_init", row([1f32, 2., 3., 5., 8.]))]),
        // Computes a cumulative sum of 1, 2, 3, 4 that starts with the last row. The trace is in execution order.
        case_on("backward_cumulative_sum", [("xs: f32[T]", row([1f32, 2., 3., 4.])), ("init: f32[]", scalar(0f32))])
            .runs(|[xs, init]| {
                let trace = running(Recurrence::new().backwards(), xs, init, |x, old| old + x);
                outputs! { trace }
            })
            .gives([("trace", row([4f32, 7., 9., 10.]))]),
        // A loop reads a sequence backwards, with the taps -1 and 2. The seven rows allow four steps, and step s reads
        // rows 3 - s and 6 - s.
        case_on("backward_taps_of_unequal_reach", [("xs: f32[7]", row([1f32, 2., 3., 4., 5., 6., 7.]))])
            .runs(|[xs]| {
                let ys = stencil(Recurrence::new().backwards(), xs, [-1, 2], |[behind, ahead]| behind * 10.0 + ahead);
                outputs! { ys }
            })
            .gives([("ys", row([47f32, 36., 25., 14.]))]),
        // A reverse scan computes c * 2 + x over 1, 2, 3. Each y has the same index as its x.
        case_on("reverse_scan", [("init: f32[]", scalar(0f32)), ("xs: f32[T]", row([1f32, 2., 3.]))])
            .runs(|[init, xs]| {
                scan_outputs(scan_with(ScanOptions::new().reverse(), init, xs, |c, x| (c * 2.0 + x, c * 2.0 + x)))
            })
            .gives([("carry", scalar(17f32)), ("ys", row([17f32, 8., 3.]))]),
        // `reverse` and `backwards` both run from the last row to the first, so they compute the same last carry.
        case("reverse_scan_and_backwards_agree_on_the_last_state", |g| {
            let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[T]"));
            let (reverse, ()) = scan_with(ScanOptions::new().reverse(), init, xs, |c, x| (c * 2.0 + x, ()));
            let mut loop_ = Recurrence::new();
            let (x, c) = (loop_.sequence(xs, [0]), loop_.carry(init));
            let done = loop_.backwards().run(|step| {
                let next = step.read(&c) * 2.0 + step.read(&x)[0];
                step.write(&c, next);
            });
            outputs! { reverse, backwards: done.last(&c) }
        })
        .on([scalar(0f32), row([1f32, 2., 3.])])
        .gives([("reverse", scalar(17f32)), ("backwards", scalar(17f32))]),
        // The body returns the state's oldest row as the y, and writes a new row. The y must be the value of the oldest
        // row before the write.
        case_on("echo_of_the_oldest_tap", [("init: f32[2]", row([1f32, 2.]))])
            .runs(|[init]| {
                let mut loop_ = Recurrence::new();
                let state = loop_.mit_sot(init, [-2, -1]);
                let done = loop_.steps(4).run(|step| {
                    let [older, old] = step.read(&state);
                    step.write(&state, older + old);
                    older
                });
                outputs! { trace: done.trace(&state), ys: done.ys }
            })
            .gives([("trace", row([3f32, 5., 8., 13.])), ("ys", row([1f32, 2., 3., 5.]))]),
        // The body returns a buffer's row as the y, and overwrites this row. The y must be the row's value before the
        // write.
        case_on("echo_of_a_row_that_is_overwritten", [("rows: f32[4]", row([1f32, 2., 3., 4.]))])
            .runs(|[rows]| {
                let mut loop_ = Recurrence::new();
                let buffer = loop_.mit_mot(rows, [0, 1], [0]);
                let done = loop_.run(|step| {
                    let [here, next] = step.read(&buffer);
                    step.write(&buffer, [next * 10.0]);
                    here
                });
                outputs! { rows: done.buffer(&buffer), ys: done.ys }
            })
            .gives([("rows", row([20f32, 30., 40., 4.])), ("ys", row([1f32, 2., 3.]))]),
    ])
}
