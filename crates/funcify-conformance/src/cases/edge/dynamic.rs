//! Trip counts that are operands (scan-c6). A trip count that is an input is known only at run time. A trip count that
//! is a static input is known when the program is compiled, so the loop can be unrolled.

use super::*;

pub(super) fn cases() -> Cases {
    let mut cases = Vec::new();
    for is_static in [false, true] {
        cases.extend(all([without_steps(is_static), one_step(is_static), three_steps(is_static)])?);
    }
    cases.extend(all([
        // The trip count is the sum of two inputs, `a + b`.
        case("steps_computed_from_inputs", |g| {
            let (a, b) = (g.input("a", "i64[]"), g.input("b", "i64[]"));
            let mut loop_ = Recurrence::new();
            let state = loop_.sit_sot(g.input("init", "f32[]"));
            let done = loop_.steps_value(a + b).run(|step| {
                let [old] = step.read(&state);
                step.write(&state, old * 2.0);
            });
            outputs! { trace: done.trace(&state) }
        })
        .on([scalar(1i64), scalar(3i64), scalar(1f32)])
        .gives_dynamic([("trace", row([2f32, 4., 8., 16.]))]),
        // The trip count is a static input of type i32.
        case("steps_by_static_input_int32", |g| {
            let mut loop_ = Recurrence::new();
            let state = loop_.sit_sot(g.input("init", "f32[]"));
            let done = loop_.steps_value(g.static_input("n", DType::I32)).run(|step| {
                let [old] = step.read(&state);
                step.write(&state, old + 1.0);
            });
            outputs! { trace: done.trace(&state) }
        })
        .on([scalar(0f32), scalar(2i32)])
        .gives([("trace", row([1f32, 2.]))]),
        // A mean and a second loop use the size of a trace whose number of rows is known only at run time.
        case_on("steps_used_as_a_size", [("init: f32[]", scalar(0f32)), ("n: i64[]", scalar(4i64))])
            .runs(|[init, n]| {
                let mut loop_ = Recurrence::new();
                let state = loop_.sit_sot(init);
                let done = loop_.steps_value(n).run(|step| {
                    let [old] = step.read(&state);
                    step.write(&state, old + 1.0);
                });
                let trace = done.trace(&state);
                let (_, sums) = funcify::scan(trace.sum(0).zeros_like(), trace, |sum, x| (sum + x, sum + x));
                outputs! { mean: trace.mean(0), sums, last: trace.index(0, -1) }
            })
            .gives_dynamic([("mean", scalar(2.5f32)), ("sums", row([1f32, 3., 6., 10.])), ("last", scalar(4f32))]),
    ])?);
    Ok(cases)
}

/// Builds a program with a loop that has a state of every kind. The loop runs `n` steps, and its sequence may have more
/// than `n` rows. If `is_static` is set, the input `n` is static.
fn program(g: &Builder, is_static: bool) -> Outputs {
    let n = if is_static { g.static_input("n", DType::I64) } else { g.input("n", "i64[]") };
    let mut loop_ = Recurrence::new();
    let x = loop_.sequence(g.input("xs", "f32[T,2]"), [0]);
    let sum = loop_.sit_sot(g.input("init", "f32[2]"));
    let pair = loop_.mit_sot(g.input("pair", "f32[2,2]"), [-2]);
    let buffer = loop_.mit_mot(g.input("rows", "f32[4]"), [0, 1], [1]);
    let count = loop_.carry(g.input("count", "i64[]"));
    let done = loop_.steps_value(n).run(|step| {
        let ([x], [old], [older], [x0, x1]) = (step.read(&x), step.read(&sum), step.read(&pair), step.read(&buffer));
        step.write(&sum, old + x);
        step.write(&pair, older * x);
        step.write(&buffer, [x0 + x1]);
        let next = step.read(&count) + 1;
        step.write(&count, next);
        x * 2.0
    });
    outputs! {
        sum: done.trace(&sum),
        pair: done.trace_with_init(&pair),
        rows: done.buffer(&buffer),
        count: done.last(&count),
        ys: done.ys,
    }
}

fn counted(is_static: bool, n: i64, outputs: [(&str, HostTensor); 5]) -> OneCase {
    let xs = tensor([4, 2], [1f32, 10., 2., 20., 3., 30., 4., 40.]);
    let pair = tensor([2, 2], [1f32, 1., 2., 2.]);
    let inputs = [scalar(n), xs, row([0f32, 0.]), pair, row([1f32, 2., 3., 4.]), scalar(0i64)];
    let given = if is_static { "static_input" } else { "operand" };
    let steps = case(format!("steps_by_{given}_{n}"), |g| program(g, is_static));
    steps.on(inputs).dynamic(!is_static).gives(outputs)
}

/// Builds the case for [`program`] with trip count 0.
fn without_steps(is_static: bool) -> OneCase {
    let outputs = [
        ("sum", empty::<f32, 2>([0, 2])),
        ("pair", tensor([2, 2], [1f32, 1., 2., 2.])),
        ("rows", row([1f32, 2., 3., 4.])),
        ("count", scalar(0i64)),
        ("ys", empty::<f32, 2>([0, 2])),
    ];
    counted(is_static, 0, outputs)
}

/// Builds the case for [`program`] with trip count 1. The results have the same ranks as for larger trip counts.
fn one_step(is_static: bool) -> OneCase {
    let outputs = [
        ("sum", tensor([1, 2], [1f32, 10.])),
        ("pair", tensor([3, 2], [1f32, 1., 2., 2., 1., 10.])),
        ("rows", row([1f32, 3., 3., 4.])),
        ("count", scalar(1i64)),
        ("ys", tensor([1, 2], [2f32, 20.])),
    ];
    counted(is_static, 1, outputs)
}

/// Builds the case for [`program`] with trip count 3. The loop does not read the last of the sequence's four rows.
fn three_steps(is_static: bool) -> OneCase {
    let outputs = [
        ("sum", tensor([3, 2], [1f32, 10., 3., 30., 6., 60.])),
        ("pair", tensor([5, 2], [1f32, 1., 2., 2., 1., 10., 4., 40., 3., 300.])),
        ("rows", row([1f32, 3., 6., 10.])),
        ("count", scalar(3i64)),
        ("ys", tensor([3, 2], [2f32, 20., 4., 40., 6., 60.])),
    ];
    counted(is_static, 3, outputs)
}
