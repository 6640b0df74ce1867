//! Full buffers (mit-mot), with and without other states and carries. Within a step, reads happen before writes
//! (scan-c1). Reads see the rows that earlier steps wrote (scan-c5).

use super::*;

pub(super) fn cases() -> Cases {
    all([
        // Runs three steps over a buffer that holds the numbers 0 to 7. Each step reads x0 at tap 0 and x1 at tap 1,
        // and writes x0 + 2 x1 to tap 1.
        weighted("reads_zero_one_writes_one", [0, 1], [1]),
        // The same loop with all taps shifted by -1 has the same result.
        weighted("reads_minus_one_zero_writes_zero", [-1, 0], [0]),
        // Each step reads a, b and c at the taps 0, 2 and 1, computes f = a + 2 b + 3 c, and writes f to tap 2 and f +
        // 10 to tap 1.
        case("two_writes_in_tap_order", |g| {
            let rows =
                sweep(Recurrence::new().steps(3), g.input("rows", "f32[8]"), [0, 2, 1], [2, 1], [], |[], [a, b, c]| {
                    let f = a + b * 2.0 + c * 3.0;
                    [f, f + 10.0]
                });
            outputs! { rows }
        })
        .on([zero_to_seven()])
        .gives([("rows", row([0f32, 17., 54., 204., 194., 5., 6., 7.]))]),
        // The loop has a mit-mot and a mit-sot. The next row of the mit-sot is the sum of its two previous rows and the
        // buffer's row at tap 0. In every step but the first, that row of the buffer was written by the previous step.
        case_on("mit_mot_and_mit_sot", [("rows: f32[8]", zero_to_seven()), ("init: f32[2]", row([1f32, 1.]))])
            .runs(|[rows, init]| {
                let mut loop_ = Recurrence::new();
                let buffer = loop_.mit_mot(rows, [0, 1], [1]);
                let state = loop_.mit_sot(init, [-2, -1]);
                let done = loop_.steps(3).run(|step| {
                    let ([x0, x1], [older, old]) = (step.read(&buffer), step.read(&state));
                    step.write(&buffer, [x0 + x1 * 2.0]);
                    step.write(&state, older + old + x0);
                });
                outputs! { rows: done.buffer(&buffer), trace: done.trace(&state) }
            })
            .gives([("rows", row([0f32, 2., 6., 12., 4., 5., 6., 7.])), ("trace", row([2f32, 5., 13.]))]),
        // The loop has two mit-mots (p, q), two mit-sots (f, g), a sit-sot (s), two carries (c, d), a sequence and two
        // ys. Some states are updated from other states.
        //
        // | after step | p | q | f | g | s | c | d |
        // |---|---|---|---|---|---|---|---|
        // | none | 1 2 3 4 | 1 1 1 1 | 1 1 | 0 0 1 | 0 | 0 | 1 |
        // | 0 | 1 3 3 4 | 1 1 1 1 | 2 | 1 | 1 | 1 | 2 |
        // | 1 | 1 3 6 4 | 1 3 1 1 | 3 | 0 | 4 | 6 | 4 |
        // | 2 | 1 3 6 10 | 1 3 6 1 | 5 | 4 | 10 | 22 | 8 |
        case("every_kind_several_times", |g| {
            let (one, zero) = (g.input("one", "f32[]"), g.input("zero", "f32[]"));
            let mut loop_ = Recurrence::new();
            let x = loop_.sequence(g.input("xs", "f32[3]"), [0]);
            let p = loop_.mit_mot(g.input("p", "f32[4]"), [0, 1], [1]);
            let f = loop_.mit_sot(g.input("f", "f32[2]"), [-2, -1]);
            let q = loop_.mit_mot(g.input("q", "f32[4]"), [], [0]);
            let g_ = loop_.mit_sot(g.input("g", "f32[3]"), [-3, -2]);
            let s = loop_.sit_sot(zero);
            let (c, d) = (loop_.carry(zero), loop_.carry(one));
            let done = loop_.run(|step| {
                let ([x], [p0, p1], [f2, f1]) = (step.read(&x), step.read(&p), step.read(&f));
                let ([g3, g2], [s1]) = (step.read(&g_), step.read(&s));
                let (c1, d1) = (step.read(&c), step.read(&d));
                step.write(&p, [p0 + p1]);
                step.write(&q, [p0]);
                step.write(&f, f2 + f1);
                step.write(&g_, x * (g2 + 1.0) - g3 * 2.0);
                step.write(&s, s1 + p0);
                step.write(&c, c1 * 2.0 + p0 + s1);
                step.write(&d, d1 * 2.0);
                (c1 + d1, f1)
            });
            let (cd, old_f) = done.ys;
            let (p, q, f, g_) = (done.buffer(&p), done.buffer(&q), done.trace(&f), done.trace(&g_));
            outputs! { p, q, f, g: g_, s: done.trace(&s), c: done.last(&c), d: done.last(&d), cd, old_f }
        })
        .on([
            scalar(1f32),
            scalar(0f32),
            row([1f32, 0., 3.]),
            row([1f32, 2., 3., 4.]),
            row([1f32, 1.]),
            row([1f32, 1., 1., 1.]),
            row([0f32, 0., 1.]),
        ])
        .gives([
            ("p", row([1f32, 3., 6., 10.])),
            ("q", row([1f32, 3., 6., 1.])),
            ("f", row([2f32, 3., 5.])),
            ("g", row([1f32, 0., 4.])),
            ("s", row([1f32, 4., 10.])),
            ("c", scalar(22f32)),
            ("d", scalar(8f32)),
            ("cd", row([1f32, 3., 10.])),
            ("old_f", row([1f32, 2., 3.])),
        ]),
        // Each step adds the previous row of the buffer to the current row. The rows are matrices whose sizes are known
        // only at run time.
        case("buffer_of_matrices_with_symbolic_sizes", |g| {
            let rows =
                sweep(&mut Recurrence::new(), g.input("rows", "f32[T+1,B,2]"), [0, 1], [1], [], |[], [x0, x1]| {
                    [x0 + x1]
                });
            outputs! { rows }
        })
        .on([tensor([3, 1, 2], [1f32, 10., 2., 20., 3., 30.])])
        .gives([("rows", tensor([3, 1, 2], [1f32, 10., 3., 30., 6., 60.]))]),
    ])
}

fn zero_to_seven() -> HostTensor {
    row([0f32, 1., 2., 3., 4., 5., 6., 7.])
}

fn weighted(name: &str, reads: [i64; 2], writes: [i64; 1]) -> OneCase {
    let program = |g: &Builder| {
        let rows = sweep(Recurrence::new().steps(3), g.input("rows", "f32[8]"), reads, writes, [], |[], [x0, x1]| {
            [x0 + x1 * 2.0]
        });
        outputs! { rows }
    };
    case(name, program).on([zero_to_seven()]).gives([("rows", row([0f32, 2., 6., 12., 4., 5., 6., 7.]))])
}
