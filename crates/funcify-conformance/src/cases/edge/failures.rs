//! Calls that every backend must reject with a typed error (scan-c3, scan-c6).

use super::*;

pub(super) fn cases() -> Cases {
    let mut cases = all([
        // The trip count T - 3 is negative, because T = 1.
        case("negative_symbolic_count", |g| {
            let xs = g.input("xs", "f32[T]");
            outputs! { xs, trace: counting(g, xs.dim(0) - 3) }
        })
        .on([row([1f32]), scalar(0f32)])
        .fails("StepCount"),
        // The taps -1 and 1 need two more rows than steps, but the sequence has only one row.
        case_on("fewer_rows_than_taps", [("xs: f32[T]", row([1f32]))])
            .runs(|[xs]| {
                let ys = stencil(&mut Recurrence::new(), xs, [-1, 1], |[before, after]| before + after);
                outputs! { ys }
            })
            .fails("StepCount"),
        // The loop runs N = 5 steps, but its sequence has T = 3 rows.
        case("sequence_shorter_than_a_symbolic_count", |g| {
            let like = g.input("like", "f32[N]");
            let mut loop_ = Recurrence::new();
            let x = loop_.sequence(g.input("xs", "f32[T]"), [0]);
            let done = loop_.steps(like.dim(0)).run(|step| step.read(&x)[0] * 2.0);
            outputs! { ys: done.ys, like }
        })
        .on([row([0f32, 0., 0., 0., 0.]), row([1f32, 2., 3.])])
        .fails("Rows"),
        // The taps 0 and 1 need N + 1 = 6 rows, but the buffer has 3.
        case("buffer_shorter_than_a_symbolic_count", |g| {
            let like = g.input("like", "f32[N]");
            let rows = sweep(
                Recurrence::new().steps(like.dim(0)),
                g.input("rows", "f32[T]"),
                [0, 1],
                [1],
                [],
                |[], [x0, x1]| [x0 + x1],
            );
            outputs! { rows, like }
        })
        .on([row([0f32, 0., 0., 0., 0.]), row([1f32, 2., 3.])])
        .fails("Rows"),
        // Reads row 3 of a trace that has only two rows.
        part_of_a_trace("row_of_a_shorter_trace", |ys| ys.index(0, 3)),
        // Reads row -5 of a trace that has only two rows.
        part_of_a_trace("row_before_the_first", |ys| ys.index(0, -5)),
        // Reads rows 1 to 3 of a trace that has only two rows.
        part_of_a_trace("slice_of_a_shorter_trace", |ys| ys.slice(0, 1..4)),
        // The convolution's kernel has five elements, but the operand's spatial axis has only T = 3.
        {
            let (x, kernel) = (tensor([1, 1, 3], [1f32, 2., 3.]), tensor([1, 1, 5], [1f32; 5]));
            case_on("window_over_a_shorter_axis", [("x: f32[1,1,T]", x), ("kernel: f32[1,1,5]", kernel)])
                .runs(|[x, kernel]| outputs! { y: x.conv(kernel, funcify::ops::ConvOptions::<1>::default()).sum(..) })
                .fails("Type")
        },
        // Two sequences are declared with T rows, but have 3 and 2 rows.
        case("sequences_of_different_lengths", |g| {
            let xs = (g.input("xs", "f32[T]"), g.input("zs", "f32[T]"));
            let ((), ys) = scan((), xs, |(), (x, z)| ((), x * z));
            outputs! { ys }
        })
        .on([row([1f32, 2., 3.]), row([1f32, 2.])])
        .fails("Call"),
        // The symbol K is 2 in the captured matrix, but 3 in the rows of the sequence.
        case("body_sizes_that_disagree", |g| {
            let w = g.input("w", "f32[K,K]");
            let (last, ()) = scan(g.input("init", "f32[K]"), g.input("xs", "f32[T,K]"), |h, x| (h.matmul(w) + x, ()));
            outputs! { last }
        })
        .on([tensor([2, 2], [1f32, 0., 0., 1.]), row([0f32, 0.]), tensor([1, 3], [1f32, 2., 3.])])
        .fails("Call"),
        // No T satisfies 2 * T = 5.
        case_on("polynomial_without_a_solution", [("xs: f32[2*T]", row([1f32, 2., 3., 4., 5.]))])
            .runs(|[xs]| outputs! { y: xs * 2.0 })
            .fails("Call"),
        // The input `xs` is declared with three rows, but its argument has two.
        case("fixed_size_that_differs", doubled).on([row([1f32, 2.]), row([1f32])]).fails("Call"),
        // The input `zs` is declared as a vector, but its argument is a matrix.
        case("wrong_rank", doubled).on([row([1f32, 2., 3.]), tensor([1, 1], [1f32])]).fails("Call"),
        // The input `zs` is declared as floats, but its argument holds integers.
        case("wrong_dtype", doubled).on([row([1f32, 2., 3.]), row([1i64])]).fails("Call"),
        // The program has two inputs, but the call passes only one argument.
        case("too_few_arguments", doubled).on([row([1f32, 2., 3.])]).fails("Call"),
    ])?;
    for is_static in [false, true] {
        cases.push(counted("negative_count", is_static, -2, "StepCount")?);
        cases.push(counted("sequence_shorter_than_a_count", is_static, 4, "Rows")?);
    }
    Ok(cases)
}

/// Builds a case that must fail because the trip count `n` is negative, or because the sequence has only three rows.
/// `n` is a static input if `is_static` is set, and an ordinary input otherwise.
fn counted(name: &str, is_static: bool, n: i64, kind: &'static str) -> OneCase {
    let program = |g: &Builder| {
        let n = if is_static { g.static_input("n", DType::I64) } else { g.input("n", "i64[]") };
        let mut loop_ = Recurrence::new();
        let x = loop_.sequence(g.input("xs", "f32[T]"), [0]);
        let done = loop_.steps_value(n).run(|step| step.read(&x)[0] * 2.0);
        outputs! { ys: done.ys }
    };
    let given = if is_static { "by_static_input" } else { "by_operand" };
    case(format!("{name}_{given}"), program).on([scalar(n), row([1f32, 2., 3.])]).dynamic(!is_static).fails(kind)
}

/// Returns the trace of a state that increases by 1 in each of `steps` steps.
fn counting(g: &Builder, steps: funcify::Dim) -> Value {
    repeated(Recurrence::new().steps(steps), g.input("init", "f32[]"), |old| old + 1.0)
}

/// Builds a case in which `part` reads rows that are out of range for a trace with two rows.
fn part_of_a_trace(name: &str, part: impl FnOnce(Value) -> Value) -> OneCase {
    case_on(name, [("init: f32[]", scalar(0f32)), ("xs: f32[T]", row([1f32, 2.]))])
        .runs(|[init, xs]| {
            let (_, ys) = scan(init, xs, |sum, x| (sum + x, sum + x));
            outputs! { part: part(ys) }
        })
        .fails("Type")
}

fn doubled(g: &Builder) -> Outputs {
    outputs! { y: g.input("xs", "f32[3]") * 2.0, z: g.input("zs", "f32[T]") * 3.0 }
}
