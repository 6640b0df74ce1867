//! No steps, one step, hints about steps, and sequences that are longer than the loop (scan-c3).

use funcify::{Recurrence, ScanOptions, scan, scan_with};

use super::{Cases, empty, gives, row, scalar, tensor};
use crate::cases::outputs;
use crate::suite::Case;

pub(super) fn cases() -> Cases {
    let mut cases = vec![
        sit_sot_without_steps()?,
        int_sit_sot_without_steps()?,
        nit_sot_without_steps()?,
        carry_without_steps()?,
        last_row_of_a_buffer_without_steps()?,
        one_step_known_at_build()?,
        one_step_known_at_call()?,
        sequence_longer_than_the_loop()?,
        body_without_ys()?,
        empty_carry()?,
        unread_state_that_feeds_another()?,
        scan_of_a_trace()?,
    ];
    for unroll in [1, 3, 7, 100] {
        cases.push(unroll_hint_over_seven_steps(unroll)?);
        cases.push(unroll_hint_over_a_symbolic_length(unroll)?);
    }
    Ok(cases)
}

/// sit-sot, n = 0: the trace has no rows, and the dtype of the initial value.
fn sit_sot_without_steps() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let mut loop_ = Recurrence::new();
        let state = loop_.sit_sot(g.input("init", "f32[3]"));
        let done = loop_.steps(0).run(|step| {
            let [old] = step.read(&state);
            step.write(&state, old + 1.0);
        });
        outputs! { trace: done.trace(&state), with_init: done.trace_with_init(&state) }
    };
    let init = row([1f32, 2., 3.]);
    let expected = [("trace", empty::<f32, 2>([0, 3])), ("with_init", tensor([1, 3], [1f32, 2., 3.]))];
    gives("sit_sot_without_steps", program, [init], expected)
}

/// The same of integers.
fn int_sit_sot_without_steps() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let mut loop_ = Recurrence::new();
        let state = loop_.sit_sot(g.input("init", "i64[]"));
        let done = loop_.steps(0).run(|step| {
            let [old] = step.read(&state);
            step.write(&state, old + 1);
        });
        outputs! { trace: done.trace(&state) }
    };
    gives("int_sit_sot_without_steps", program, [scalar(4i64)], [("trace", empty::<i64, 1>([0]))])
}

/// nit-sot, n = 0, rows of shape (3): the trace has the shape (0, 3).
fn nit_sot_without_steps() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let ((), ys) = scan((), g.input("xs", "f32[0,3]"), |(), x| ((), x * 2.0));
        outputs! { ys }
    };
    gives("nit_sot_without_steps", program, [empty::<f32, 2>([0, 3])], [("ys", empty::<f32, 2>([0, 3]))])
}

/// A carry without a trace, n = 0: the initial value.
fn carry_without_steps() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let (last, ()) = scan(g.input("init", "f32[2]"), g.input("xs", "f32[0,2]"), |sum, x| (sum + x, ()));
        outputs! { last }
    };
    let inputs = [row([5f32, -1.]), empty::<f32, 2>([0, 2])];
    gives("carry_without_steps", program, inputs, [("last", row([5f32, -1.]))])
}

/// The last row of a buffer with its initial rows, n = 0: the initial row.
fn last_row_of_a_buffer_without_steps() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let mut loop_ = Recurrence::new();
        let state = loop_.sit_sot(g.input("init", "f32[2]"));
        let done = loop_.steps(0).run(|step| {
            let [old] = step.read(&state);
            step.write(&state, old * 3.0);
        });
        outputs! { last: done.trace_with_init(&state).index(0, -1) }
    };
    gives("last_row_of_a_buffer_without_steps", program, [row([8f32, 9.])], [("last", row([8f32, 9.]))])
}

/// n = 1, a constant when it is built: the ranks are those of n > 1.
fn one_step_known_at_build() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let (last, ys) = scan(g.input("init", "f32[2]"), g.input("xs", "f32[1,2]"), |sum, x| (sum + x, sum * x));
        outputs! { last, ys }
    };
    let inputs = [row([1f32, 2.]), tensor([1, 2], [10f32, 20.])];
    let expected = [("last", row([11f32, 22.])), ("ys", tensor([1, 2], [10f32, 40.]))];
    gives("one_step_known_at_build", program, inputs, expected)
}

/// n = 1, from the shape of an argument alone: the numbers of 6.
fn one_step_known_at_call() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let (last, ys) = scan(g.input("init", "f32[2]"), g.input("xs", "f32[T,2]"), |sum, x| (sum + x, sum * x));
        outputs! { last, ys }
    };
    let inputs = [row([1f32, 2.]), tensor([1, 2], [10f32, 20.])];
    let expected = [("last", row([11f32, 22.])), ("ys", tensor([1, 2], [10f32, 40.]))];
    gives("one_step_known_at_call", program, inputs, expected)
}

/// A sequence longer than n: the tail is unused. (Its gradient is not checked here.)
fn sequence_longer_than_the_loop() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let mut loop_ = Recurrence::new();
        let x = loop_.sequence(g.input("xs", "f32[T]"), [0]);
        let sum = loop_.sit_sot(g.input("init", "f32[]"));
        let done = loop_.steps(3).run(|step| {
            let ([x], [old]) = (step.read(&x), step.read(&sum));
            step.write(&sum, old + x);
        });
        outputs! { trace: done.trace(&sum) }
    };
    let inputs = [row([1f32, 2., 3., f32::NAN, f32::NAN]), scalar(0f32)];
    gives("sequence_longer_than_the_loop", program, inputs, [("trace", row([1f32, 3., 6.]))])
}

/// A body that returns no y: the result has no ys, and no empty tensor in their place.
fn body_without_ys() -> Result<Case, String> {
    let program = |g: &funcify::Builder| scan(g.input("init", "f32[]"), g.input("xs", "f32[T]"), |c, x| (c * x, ()));
    gives("body_without_ys", program, [scalar(2f32), row([3f32, 5.])], [("out_0", scalar(30f32))])
}

/// The counterpart of an empty carry for `scan`: only the ys are left.
fn empty_carry() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let ((), ys) = scan((), g.input("xs", "f32[T]"), |(), x| ((), x * x));
        outputs! { ys }
    };
    gives("empty_carry", program, [row([1f32, 2., 3.])], [("ys", row([1f32, 4., 9.]))])
}

/// A scan whose sequence is a scan's trace.
fn scan_of_a_trace() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let zero = g.input("zero", "f32[]");
        let (_, sums) = scan(zero, g.input("xs", "f32[T]"), |sum, x| (sum + x, sum + x));
        let (_, ys) = scan(zero, sums, |sum, x| (sum + x, sum + x));
        outputs! { sums, ys }
    };
    let expected = [("sums", row([1f32, 3., 6., 10.])), ("ys", row([1f32, 4., 10., 20.]))];
    gives("scan_of_a_trace", program, [scalar(0f32), row([1f32, 2., 3., 4.])], expected)
}

/// A hint to unroll by 3 over 7 steps, or by more than there are, changes nothing.
fn unroll_hint_over_seven_steps(unroll: usize) -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let options = ScanOptions::new().unroll(unroll);
        let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[7]"));
        let (last, ys) = scan_with(options, init, xs, |sum, x| (sum + x, sum * x));
        outputs! { last, ys }
    };
    unrolled(&format!("unroll_hint_{unroll}_over_seven_steps"), program)
}

/// The same where only a call tells the length.
fn unroll_hint_over_a_symbolic_length(unroll: usize) -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let options = ScanOptions::new().unroll(unroll);
        let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[T]"));
        let (last, ys) = scan_with(options, init, xs, |sum, x| (sum + x, sum * x));
        outputs! { last, ys }
    };
    unrolled(&format!("unroll_hint_{unroll}_over_a_symbolic_length"), program)
}

fn unrolled(name: &str, program: impl FnOnce(&funcify::Builder) -> crate::cases::Outputs) -> Result<Case, String> {
    let inputs = [scalar(0f32), row([1f32, 2., 3., 4., 5., 6., 7.])];
    let expected = [("last", scalar(28f32)), ("ys", row([0f32, 2., 9., 24., 50., 90., 147.]))];
    gives(name, program, inputs, expected)
}

/// A state that nothing reads after the loop, but that feeds one that is read, stays.
fn unread_state_that_feeds_another() -> Result<Case, String> {
    let program = |g: &funcify::Builder| {
        let mut loop_ = Recurrence::new();
        let zero = g.input("zero", "f32[]");
        let (count, sum) = (loop_.sit_sot(zero), loop_.sit_sot(zero));
        let done = loop_.steps(5).run(|step| {
            let ([count_1], [sum_1]) = (step.read(&count), step.read(&sum));
            step.write(&count, count_1 + 1.0);
            step.write(&sum, sum_1 + count_1);
        });
        outputs! { sum: done.trace(&sum) }
    };
    gives("unread_state_that_feeds_another", program, [scalar(0f32)], [("sum", row([0f32, 1., 3., 6., 10.]))])
}
