//! Loops with an early exit (scan-c6): the rows that each buffer keeps, the trip count, and ops that use the results.

use super::*;

pub(super) fn cases() -> Cases {
    let mut cases = all([
        running("until_at_the_first_step", [9., 1., 1.], [9f32].into(), 9.),
        running("until_at_the_third_step", [1., 2., 3.], [1f32, 3., 6.].into(), 6.),
        running("until_never", [1., 2., 1.], [1f32, 3., 4.].into(), 4.),
        stops_by_its_last_rows("until_with_five_rows", [1., 1., 1., 1., 2., 7.], Some(row([1f32, 2., 3., 4., 6.]))),
        stops_by_its_last_rows("until_with_three_rows_of_five", [1., 1., 9., 0., 0., 0.], None),
        // A loop with an exit condition runs no steps, because its sequence is empty.
        case("until_without_steps", |g| {
            let (last, (sums, _)) = sums(g, ScanOptions::new());
            outputs! { last, steps: size(sums.dim(0), DType::I64), sums }
        })
        .on([scalar(2f32), empty::<f32, 1>([0])])
        .gives([("last", scalar(2f32)), ("steps", scalar(0i64)), ("sums", empty::<f32, 1>([0]))]),
        every_kind_of_buffer(false),
        every_kind_of_buffer(true),
        // Finds the first negative element. The program uses only the number of steps that ran.
        case_on("until_number_of_steps", [("xs: f32[T]", row([3f32, 4., -2., -1.]))])
            .runs(|[xs]| {
                let mut loop_ = Recurrence::new();
                let x = loop_.sequence(xs, [0]);
                let done = loop_.run(|step| {
                    let [x] = step.read(&x);
                    step.until(x.lt(0.0));
                });
                outputs! { position: done.steps() - 1 }
            })
            .gives([("position", scalar(2i64))]),
        // The inner loop exits after a different number of steps in each step of the outer loop.
        case("until_in_a_loop", |g| {
            let (zero, xs) = (g.input("zero", "f32[]"), g.input("xs", "f32[T]"));
            let ((), (steps, total, ones)) = scan((), g.input("limits", "f32[S]"), |(), limit| {
                let (_, sums) = scan_until(zero, xs, |sum, x| (sum + x, sum + x, (sum + x).gt(limit)));
                ((), (size(sums.dim(0), DType::I64), sums.sum(0), sums.ones_like().sum(0)))
            });
            outputs! { steps, total, ones }
        })
        .on([scalar(0f32), row([1f32, 2., 3., 4.]), row([2f32, 100., 0., 5.])])
        .gives([
            ("steps", row([2i64, 4, 1, 3])),
            ("total", row([4f32, 20., 1., 10.])),
            ("ones", row([2f32, 4., 1., 3.])),
        ]),
        // A while loop contains a branch, which contains a loop with an early exit. The carry y takes the values 1, 2 +
        // 6 + 12 = 20, 40 and 80.
        case("until_in_a_choice", |g| {
            let xs = g.input("xs", "f32[T]");
            let product = |start: Value| scan_until(start, xs, |p, x| (p * x, p * x, (p * x).gt(10.0))).1.sum(0);
            let step = |y: Value| cond(y.lt(10.0), || product(y), || y * 2.0);
            outputs! { y: while_loop(g.input("start", "f32[]"), |y| y.lt(50.0), step) }
        })
        .on([row([2f32, 3., 2.]), scalar(1f32)])
        .gives_dynamic([("y", scalar(80f32))]),
        // The second loop runs over the trace of the first, which exits early. The trip count of the second loop is
        // therefore known only after the first loop has run.
        case("until_feeds_a_loop", |g| {
            let (_, (trace, _)) = sums(g, ScanOptions::new().reverse());
            let (_, ys) = scan(g.input("zero", "f32[]"), trace, |sum, x| (sum + x, sum + x));
            outputs! { ys }
        })
        .on([scalar(0f32), row([9f32, 1., 3., 4.]), scalar(0f32)])
        .gives([("ys", row([7f32, 11.]))]),
        // A sequence needs a row for each step that may run, even if the loop would exit earlier.
        case("until_sequence_shorter_than_the_count", |g| {
            let like = g.input("like", "f32[N]");
            let mut loop_ = Recurrence::new();
            let x = loop_.sequence(g.input("xs", "f32[T]"), [0]);
            let done = loop_.steps(like.dim(0)).run(|step| {
                let [x] = step.read(&x);
                step.until(x.gt(0.0));
                x
            });
            outputs! { ys: done.ys, like }
        })
        .on([row([0f32, 0., 0.]), row([1f32, 2.])])
        .fails("Rows"),
    ])?;
    for (reverse, last, rows) in [
        (false, 2, Some(row([3f32, 6.]))),
        (false, 4, Some(row([0f32, 1., 3., 6.]))),
        (false, 5, None),
        (true, 2, Some(row([7f32, 4.]))),
        (true, 3, Some(row([7f32, 4., 0.]))),
        (true, 4, None),
    ] {
        cases.push(trimmed(reverse, last, rows)?);
    }
    for n in [0, 2, 4] {
        cases.push(largest_count_at_run_time(false, n)?);
        cases.push(largest_count_at_run_time(true, n)?);
    }
    Ok(cases)
}

/// Computes cumulative sums until one exceeds 5. Returns the last sum, and all sums with their squares.
fn sums(g: &Builder, options: ScanOptions) -> (Value, (Value, Value)) {
    scan_until_with(options, g.input("init", "f32[]"), g.input("xs", "f32[T]"), |sum, x| {
        let sum = sum + x;
        (sum, (sum, sum * sum), sum.gt(5.0))
    })
}

/// Builds a case that computes the [`sums`] of a sequence. The step that meets the exit condition is still completed,
/// and all traces include its row.
fn running(name: &str, xs: [f32; 3], expected: HostTensor, last: f32) -> OneCase {
    let program = |g: &Builder| {
        let (last, (sums, squares)) = sums(g, ScanOptions::new());
        outputs! { last, steps: size(sums.dim(0), DType::I64), sums, squares }
    };
    let steps = scalar(expected.shape()[0] as i64);
    let squares = expected.to_f64_vec().into_iter().map(|sum| (sum * sum) as f32).collect();
    let squares = HostTensor::from_vec(squares, expected.shape().to_vec()).ok_or("as many squares as sums")?;
    let outputs = [("last", scalar(last)), ("steps", steps), ("squares", squares), ("sums", expected)];
    case(name, program).on([scalar(0f32), row(xs)]).gives(outputs)
}

/// Builds a case that slices the last five rows of a trace. The initial row is not part of the trace, so the call must
/// fail if fewer than five steps ran.
fn stops_by_its_last_rows(name: &str, xs: [f32; 6], expected: Option<HostTensor>) -> OneCase {
    let program = |g: &Builder| {
        let mut loop_ = Recurrence::new();
        let x = loop_.sequence(g.input("xs", "f32[T]"), [0]);
        let sum = loop_.sit_sot(g.input("init", "f32[]"));
        let done = loop_.run(|step| {
            let ([x], [old]) = (step.read(&x), step.read(&sum));
            step.write(&sum, old + x);
            step.until((old + x).gt(5.0));
        });
        outputs! { rows: done.trace(&sum).slice(0, -5..) }
    };
    let ends = case(name, program).on([row(xs), scalar(0f32)]);
    match expected {
        Some(rows) => ends.gives([("rows", rows)]),
        None => ends.fails("Type"),
    }
}

/// Builds a case with a loop that runs three of five steps. The loop has ys, a state with one initial row, a state with
/// two, a full buffer, and a carry. A forward loop runs steps 0, 1, 2. A reverse loop runs steps 4, 3, 2, and its
/// initial rows follow the rows that it writes.
fn every_kind_of_buffer(down: bool) -> OneCase {
    let (order, before, two_before, written) =
        if down { (", order=down", "t+1", "t+2", "t") } else { ("", "t-1", "t-2", "t+1") };
    let program = format!(
        "fn @edge(%xs: f32[T], %one: f32[1], %two: f32[2], %rows: f32[T+1], %zero: f32[]) {{
            %ys: f32[$1], %a: f32[$1+1], %b: f32[$1+2], %m: f32[T+1], %c: f32[] = scan @step {{steps=T, until=$1{order}}} {{
                seq %x: f32[] = %xs[t]
                nit-sot %ys
                sit-sot %a1: f32[] = %a[{before}] from %one
                mit-sot %b2: f32[], %b1: f32[] = %b[{two_before}], %b[{before}] from %two
                mit-mot %m0: f32[], %m1: f32[] = %m[t], %m[t+1] from %rows
                carry %before: f32[] = %c from %zero
                %y: f32[] = mul %x, %x
                %na: f32[] = add %a1, %x
                %nb: f32[] = add %b2, %x
                %nm: f32[] = add %m0, %m1
                %nc: f32[] = add %before, %b1
                %six: f32[] = constant 6.0
                %stop: bool[] = gt %na, %six
                %ys[t] = %y
                %a[t] = %na
                %b[t] = %nb
                %m[{written}] = %nm
                %c = %nc
                until %stop
            }}
            return ys=%ys, a=%a, b=%b, m=%m, c=%c
        }}"
    );
    let xs = if down { [50f32, 60., 5., 2., 1.] } else { [1f32, 2., 5., 60., 50.] };
    let inputs = vec![row(xs), row([-1f32]), row([10f32, 20.]), row([1f32; 6]), scalar(0f32)];
    let outputs = match down {
        // The rows of b are 10, 20, 11, 22, 16. In each step, the carry c accumulates the previous row of b: 20 + 11 +
        // 22 = 53.
        false => [
            ("ys", row([1f32, 4., 25.])),
            ("a", row([-1f32, 0., 2., 7.])),
            ("b", row([10f32, 20., 11., 22., 16.])),
            ("m", row([1f32, 2., 3., 4., 1., 1.])),
            ("c", scalar(53f32)),
        ],
        // In execution order, the rows of b are 20, 10, 21, 12, 26. In each step, the carry c accumulates the previous
        // row of b: 10 + 21 + 12 = 43.
        true => [
            ("ys", row([25f32, 4., 1.])),
            ("a", row([7f32, 2., 0., -1.])),
            ("b", row([26f32, 12., 21., 10., 20.])),
            ("m", row([1f32, 1., 4., 3., 2., 1.])),
            ("c", scalar(43f32)),
        ],
    };
    let name = if down { "until_down_every_kind_of_buffer" } else { "until_every_kind_of_buffer" };
    text(name, &program).on(inputs).gives(outputs)
}

/// Builds a case that returns the last `last` rows of a state's trace, including the initial row. The call must fail if
/// the trace has fewer than `last` rows. The forward loop exits when a sum exceeds 5, after 3 steps. The reverse loop
/// exits when a sum exceeds 6, after 2 steps.
fn trimmed(reverse: bool, last: usize, expected: Option<HostTensor>) -> OneCase {
    let (down, tap, limit) = if reverse { (", order=down", "t+1", "6.0") } else { ("", "t-1", "5.0") };
    let program = format!(
        "fn @edge(%xs: f32[T], %init: f32[1]) {{
        %rows: f32[{last}] last {last} = scan @step {{steps=T, until=$1{down}}} {{
            seq %x: f32[] = %xs[t]
            sit-sot %old: f32[] = %rows[{tap}] from %init
            %new: f32[] = add %old, %x
            %limit: f32[] = constant {limit}
            %stop: bool[] = gt %new, %limit
            %rows[t] = %new
            until %stop
        }}
        return rows=%rows
    }}"
    );
    let name = format!("until_{}trimmed_{last}", if reverse { "down_" } else { "" });
    let ends = text(name, &program).on([row([1f32, 2., 3., 4.]), row([0f32])]);
    match expected {
        Some(rows) => ends.gives([("rows", rows)]),
        None => ends.fails("Rows"),
    }
}

/// Builds a case with a loop whose maximum trip count is the input `n`. Without this limit, the loop would exit after 3
/// steps.
fn largest_count_at_run_time(is_static: bool, n: usize) -> OneCase {
    let program = |g: &Builder| {
        let n = if is_static { g.static_input("n", DType::I64) } else { g.input("n", "i64[]") };
        let mut loop_ = Recurrence::new();
        let state = loop_.carry(g.input("init", "f32[2]"));
        let done = loop_.steps_value(n).run(|step| {
            let x = step.read(&state) * 2.0;
            step.write(&state, x);
            step.until(x.sum(0).gt(20.0));
            x
        });
        outputs! { last: done.last(&state), steps: done.steps(), ys: done.ys }
    };
    let rows = [[2f32, 4.], [4., 8.], [8., 16.]];
    let ran = n.min(3);
    let ys = HostTensor::from_vec(rows[..ran].concat(), [ran, 2]).ok_or("two elements a row")?;
    let last = if ran == 0 { row([1f32, 2.]) } else { tensor([2], rows[ran - 1]) };
    let outputs = [("last", last), ("steps", scalar(ran as i64)), ("ys", ys)];
    let inputs = [scalar(n as i64), row([1f32, 2.])];
    let given = if is_static { "static_input" } else { "operand" };
    case(format!("until_by_{given}_{n}"), program).on(inputs).dynamic(!is_static).gives(outputs)
}
