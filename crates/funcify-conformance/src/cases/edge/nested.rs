//! Nested loops: captures from several levels, and inner trip counts that depend on the outer loop.

use super::*;

pub(super) fn cases() -> Cases {
    all([
        // The inner body captures the input `w` and the outer carry. The outer body captures `v`, and uses both results
        // of the inner loop. For row 0 of `xs`, the inner sums are 1, 11, 31, and the outer carry changes from 0 to
        // 31 * 2 = 62. For row 1, the inner sums are 5, 15, 35, and the outer carry changes from 62 to 62 + 35 * 2.
        case("captures_at_two_levels", |g| {
            let (xs, zs) = (g.input("xs", "f32[T]"), g.input("zs", "f32[S]"));
            let (w, v, zero) = (g.input("w", "f32[]"), g.input("v", "f32[]"), g.input("zero", "f32[]"));
            let (last, ys) = scan(zero, xs, |outer, x| {
                let (sum, inner) = scan(x, zs, |sum, z| (sum + z * w, sum + outer));
                (outer + sum * v, inner)
            });
            outputs! { last, ys }
        })
        .on([row([1f32, 5.]), row([1f32, 2.]), scalar(10f32), scalar(2f32), scalar(0f32)])
        .gives([("last", scalar(132f32)), ("ys", tensor([2, 2], [1f32, 11., 67., 77.]))]),
        // Each step of a scan runs an inner loop over a full buffer and a state, both of which have several taps. The
        // inner loop starts with the scan's carry as the buffer, and with the two elements of the scan's row as the
        // initial rows of the state. The buffer changes from 1, 1, 1 to 1, 2, 3 and then to 1, 3, 6. The new rows of
        // the state are 0+1+1 and 1+2+2 in the first step, and 2+0+1 and 0+3+3 in the second.
        case("loop_of_taps_in_a_scan", |g| {
            let (rows, xs) = (g.input("rows", "f32[3]"), g.input("xs", "f32[T,2]"));
            let (last, ys) = scan(rows, xs, |rows, x| {
                let mut loop_ = Recurrence::new();
                let buffer = loop_.mit_mot(rows, [0, 1], [1]);
                let state = loop_.mit_sot(x, [-2, -1]);
                let done = loop_.run(|step| {
                    let ([x0, x1], [older, old]) = (step.read(&buffer), step.read(&state));
                    step.write(&buffer, [x0 + x1]);
                    step.write(&state, older + old + x0);
                });
                (done.buffer(&buffer), done.trace(&state))
            });
            outputs! { last, ys }
        })
        .on([row([1f32, 1., 1.]), tensor([2, 2], [0f32, 1., 2., 0.])])
        .gives([("last", row([1f32, 3., 6.])), ("ys", tensor([2, 2], [2f32, 5., 3., 6.]))]),
        // The trip count of the inner loop is an element of the outer loop's sequence. The inner loop computes a power
        // of 3.
        {
            let expected =
                [("total", scalar(40f32)), ("powers", row([1f32, 3., 27., 9.])), ("counts", row([0f32, 1., 3., 2.]))];
            case("inner_length_from_the_outer_row", |g| {
                let (counts, base) = (g.input("counts", "i64[T]"), g.input("base", "f32[]"));
                let (total, ys) = scan(base.zeros_like(), counts, |total, count| {
                    let mut loop_ = Recurrence::new();
                    let product = loop_.carry(base.ones_like());
                    let done = loop_.steps_value(count).run(|step| {
                        let next = step.read(&product) * base;
                        step.write(&product, next);
                    });
                    let power = done.last(&product);
                    (total + power, (power, count.cast(DType::F32)))
                });
                let (powers, counts) = ys;
                outputs! { total, powers, counts }
            })
            .on([row([0i64, 1, 3, 2]), scalar(3f32)])
            .gives_dynamic(expected)
        },
        // The trip count of the inner loop is a carry of the outer loop: 2 in the first step, and 3 in the second.
        // Unrolling turns both trip counts into constants. The mean in each outer step must divide by the trip count
        // that the inner loop has in that step.
        case("inner_length_from_a_swapped_carry", |g| {
            let (zero, xs) = (g.input("zero", "f32[]"), g.input("xs", "f32[2]"));
            let (_, means) = scan((constant(2i64), constant(3i64)), xs, |(now, next), x| {
                ((next, now), repeated(Recurrence::new().steps_value(now), zero, |old| old + x).mean(0))
            });
            outputs! { means }
        })
        .on([scalar(0f32), row([10f32, 100.])])
        .gives([("means", row([15f32, 200.]))]),
    ])
}
