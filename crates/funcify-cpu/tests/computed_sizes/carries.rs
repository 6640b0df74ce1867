//! Tests carries that swap registers.

use funcify::{
    DType, GradOptions, Graph, HostTensor, Recurrence, Scalar, ScanOptions, bind_size, concat, iota, scan,
    scan_until_with, scan_with, while_loop,
};

use super::{built, check, ints, numbers, sized};

/// Suspicion (loops.rs): carries that swap between two registers: exchanged carries, delays, several carries with the
/// same next value, traces of carries, odd and even numbers of steps, sequences of several parts, both directions.
#[test]
fn carries_that_are_exchanged() {
    for (reverse, lanes) in [(false, 40), (true, 40), (false, 194)] {
        let graph = built(Graph::build("exchanged", |g| {
            let ty = |rows: &str| format!("f32[{rows}{lanes}]");
            let (a, b) = (g.input("a", ty("").as_str()), g.input("b", ty("").as_str()));
            let xs = concat(&[g.input("xs", ty("T,").as_str()), g.input("ys", ty("3,").as_str())], 0);
            let options = if reverse { ScanOptions::new().reverse() } else { ScanOptions::new() };
            scan_with(options, (a, b, a, b), xs, |(a, b, c, _), x| {
                let other = if lanes == 40 { a.reverse(0) } else { a };
                let next = (other * 0.5 + x).sin();
                // The second and the last carry get the same value, which is also a row of a trace.
                ((b, next, c + a * 0.25, next), (next, c, a))
            })
        }));
        let calls = [0, 1, 2, 3, 6]
            .map(|rows| vec![numbers(&[lanes]), numbers(&[lanes]), numbers(&[rows, lanes]), numbers(&[3, lanes])]);
        check(&graph, &calls);
    }
}

/// A fault to look for: the same for integers, which swap from two elements on, and which are too large for floats. Their traces
/// are chosen before the next values are known to be integers.
#[test]
fn integer_carries_that_are_exchanged() {
    let graph = built(Graph::build("integers", |g| {
        let (a, b, x) = (g.input("a", "i64[3]"), g.input("b", "i64[3]"), g.input("x", "f32[3]"));
        scan((a, b, a, x), g.input("xs", "i64[T,3]"), |(a, b, c, x), row| {
            let next = a * 3 + row;
            let small = (c + row) % 1000;
            ((b, next, small, (x * 0.5 + small.cast(DType::F32) * 0.001).sin()), (next, small, b))
        })
    }));
    let of = |rows: usize| {
        let xs = HostTensor::from_fn(DType::I64, &[rows, 3], |at| Scalar::Int((at[0] * 7 + at[1] * 3) as i64 - 5));
        vec![ints(&[1 << 40, -7, i64::MAX]), ints(&[5, 1 << 60, 0]), numbers(&[3]), xs]
    };
    check(&graph, &[of(0), of(1), of(2), of(5), of(6)]);
}

/// A fault to look for: swapped carries around and inside of nested loops: an inner loop with swapped carries, one that ends early,
/// and one of a computed number of steps, in a body that is planned twice.
#[test]
fn exchanged_carries_in_nested_loops() {
    let graph = built(Graph::build("nested", |g| {
        let (a, b, counts) = (g.input("a", "f32[40]"), g.input("b", "f32[40]"), g.input("counts", "i64[T]"));
        scan((a, b), counts, |(a, b), count| {
            let exchanged = scan_with(ScanOptions::new().length(5), (a, b), (), |(p, q), ()| {
                ((q, (p * 0.5 + q.reverse(0)).sin()), ())
            });
            let (p, q) = exchanged.0;
            let start = (a, count.zeros_like());
            let ((early, _), rows) = scan_until_with(ScanOptions::new().length(6), start, (), |(s, k), ()| {
                let next = s.reverse(0) * 0.9 + 0.1;
                ((next, k + 1), next.sum(0), (k + 1).ge(count))
            });
            let (counted, _) = scan_with(sized(count), (p, early), (), |(p, s), ()| ((s, (p * 0.5).cos()), ())).0;
            ((q, p * 0.5 + early + counted), (p.sum(0), rows.sum(0)))
        })
    }));
    let of = |counts: &[i64]| vec![numbers(&[40]), numbers(&[40]), ints(counts)];
    check(&graph, &[of(&[3, 0, 7, 2]), of(&[1]), of(&[]), of(&[2, 65, 3])]);
    let gradient = built(graph.vjp(["a", "b"], GradOptions::new()));
    let cotangents = vec![numbers(&[40]), numbers(&[40]), numbers(&[3]), numbers(&[3])];
    check(&gradient, &[[of(&[3, 0, 2]), cotangents].concat()]);
}

/// A fault to look for: swapped carries in a loop with strips, whose matrix products are summed after the steps of a strip, and
/// with states that keep a few rows at hand.
#[test]
fn exchanged_carries_beside_sums_of_products() {
    let graph = built(Graph::build("strips", |g| {
        let (xs, w) = (g.input("xs", "f32[T,1,40]"), g.input("w", "f32[40,40]"));
        let start = w.index(0, 0).unsqueeze(0);
        let mut outer = Recurrence::new();
        let x = outer.sequence(xs, [0]);
        let recent = outer.mit_sot(w.slice(0, 0..2).unsqueeze(1), [-2, -1]);
        let sums = outer.carry((w * 0.0, start, start * 0.5));
        let done = outer.run(|step| {
            let ([x], [older, old], (sum, a, b)) = (step.read(&x), step.read(&recent), step.read(&sums));
            let next = (a.matmul(w) * 0.05 + x + older * 0.1).tanh();
            step.write(&recent, next * 0.5 + old * 0.25);
            step.write(&sums, (sum + a.t().matmul(x), b, next));
        });
        let (sum, a, b) = done.last(&sums);
        (sum, a, b, done.trace(&recent).slice(0, -1..))
    }));
    let of = |rows: usize| vec![numbers(&[rows, 1, 40]), numbers(&[40, 40])];
    check(&graph, &[of(1), of(2), of(7), of(13), of(0)]);
}

/// A fault to look for: a divided program refuses a call in which a size exceeds its capacity. All parts write the element that
/// records the refusal.
#[test]
fn a_divided_program_that_refuses() {
    let graph = built(Graph::build("divided", |g| {
        let (state, counts) = (g.input("state", "f32[194]"), g.input("counts", "i64[B]"));
        scan(state, counts, |state, count| {
            let (last, rows) = scan_with(sized(count), state, (), |s, ()| ((s * 0.5 + 0.25).sin(), s));
            let bound = while_loop((last, count), |(_, n)| n.gt(2), |(s, n)| (s * 0.75, n - 1)).0;
            (bound + rows.sum(0) * 0.01, last)
        })
    }));
    let of = |counts: &[i64]| vec![numbers(&[194]), ints(counts)];
    check(&graph, &[of(&[3, 0, 5]), of(&[2, 65]), of(&[2, -1]), of(&[64, 1])]);
    let gradient = built(graph.vjp("state", GradOptions::new()));
    check(&gradient, &[[of(&[3, 0, 5]), vec![numbers(&[194]), numbers(&[3, 194])]].concat()]);
}

/// A fault to look for: a loop compiled at run time (its operand gives the number of steps) computes sizes in its steps, ends
/// early, and is followed by loops over its trace. Plans are cached by size and reused.
#[test]
fn loops_compiled_at_run_time_with_sizes_inside() {
    let graph = built(Graph::build("late", |g| {
        let (n, xs) = (g.input("n", "i64[]"), g.input("xs", "f32[T]"));
        let mut outer = Recurrence::new();
        let state = outer.carry((xs.sum(0), n.zeros_like()));
        let done = outer.steps_value(n).run(|step| {
            let (sum, index) = step.read(&state);
            let rows = bind_size(index % 4);
            let next = (sum * 0.5 + (iota(rows.clone(), DType::F32) * 0.25).sum(0)).sin();
            step.write(&state, (next, index + 1));
            step.until(next.gt(0.99));
            (next, scan_with(ScanOptions::new().length(rows), next, (), |s, ()| (s * 0.5, s)).1.sum(0))
        });
        let (ys, sums) = done.ys;
        let all = scan(xs.sum(0), (ys, sums), |s, (y, sum)| ((s * 0.5 + y - sum).sin(), s)).1;
        (done.last(&state), ys, all.sum(0), done.steps() * 2)
    }));
    let of = |n: i64, rows: usize| vec![HostTensor::scalar(n), numbers(&[rows])];
    check(&graph, &[of(5, 3), of(0, 3), of(5, 2), of(12, 3), of(5, 3), of(-1, 3), of(100, 0)]);
}
