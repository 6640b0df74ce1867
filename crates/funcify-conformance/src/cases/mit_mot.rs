//! Category `mit_mot`: buffers with several read and write taps.

use funcify::{Recurrence, Value, VmapOptions, stack, vmap_with};

use super::{Programs, outputs, recurrences};

pub(super) const PROGRAMS: Programs = &[
    (&["mm_gradient_of_sit_sot", "mm_gradient_of_sit_sot_f64"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [0, 1], [1], [x], |[x], [r0, r1]| [r0 * 2.0 * x + r1]) }
    }),
    (&["mm_gradient_of_gradient", "mm_gradient_of_gradient_f64"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [-1, 0], [0, -1], [x], |[x], [rm, r0]| [rm * 2.0 * x + r0, rm]) }
    }),
    (&["mm_gradient_of_mit_sot", "mm_gradient_of_mit_sot_f64"], |g| {
        let [buf, x, y] = g.get(["buf", "x", "y"]);
        outputs! { result: sweep(buf, [0, 2, 1], [2, 1], [x, y], |[x, y], [r0, r2, r1]| [r0 * x + r2, r0 * y + r1]) }
    }),
    (&["mm_write_only_next"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [0], [1], [x], |[x], [r0]| [r0.sin() + x]) }
    }),
    // Two interleaved recurrences.
    (&["mm_write_only_skip"], |g| {
        let [buf, w] = g.get(["buf", "w"]);
        outputs! { result: sweep(buf, [0], [2], [], |[], [r0]| [(w * r0).tanh()]) }
    }),
    (&["mm_read_only_neighbours"], |g| {
        let [buf, a] = g.get(["buf", "a"]);
        let result = sweep(buf, [0, 1, 2], [1], [], |[], [r0, r1, r2]| {
            let [a0, a1, a2] = a.unstack(0);
            [a0 * r0 + a1 * r1.square() + a2 * r2]
        });
        outputs! { result }
    }),
    // A sweep over the interior rows with the updated left neighbour.
    (&["mm_gauss_seidel_rows"], |g| {
        let [buf, a, b, c] = g.get(["buf", "a", "b", "c"]);
        let result =
            sweep(buf, [-1, 0, 1], [0], [], |[], [rm, r0, rp]| [(rm.matmul(a) + r0.matmul(b)).tanh() + rp.matmul(c)]);
        outputs! { result }
    }),
    (
        &["mm_overlapping_overwrite", "mm_overlapping_overwrite_f64"],
        |g| outputs! { result: sweep(g.input("buf"), [0, 1], [0, 1], [], |[], [r0, r1]| [0.5 * r1, r0 * r1]) },
    ),
    // One pass of bubble sort.
    (&["mm_bubble_pass"], |g| {
        let result = sweep(g.input("buf"), [0, 1], [0, 1], [], |[], [r0, r1]| [r0.minimum(r1), r0.maximum(r1)]);
        outputs! { result }
    }),
    (&["mm_nonlinear", "mm_nonlinear_f64"], |g| {
        let [buf, u] = g.get(["buf", "u"]);
        outputs! { result: sweep(buf, [0, 1], [1], [u], |[u], [r0, r1]| [r0.sin() * r1.square() + u]) }
    }),
    (
        &["mm_overwrite_after_use"],
        |g| outputs! { result: sweep(g.input("buf"), [0, 1], [0], [], |[], [r0, r1]| [r0 * r1]) },
    ),
    (&["mm_write_overwritten_by_later_step"], |g| {
        let [buf, a] = g.get(["buf", "a"]);
        let result = sweep(buf, [0], [2, 1], [], |[], [r0]| {
            let [a0, a1] = a.unstack(0);
            [a0 * r0, a1 * r0.sin()]
        });
        outputs! { result }
    }),
    (&["mm_reversed_tap_order"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [1, 0], [1, 0], [x], |[x], [r1, r0]| [r0 * x + r1, r0]) }
    }),
    (&["mm_mit_sot_as_mit_mot", "mm_mit_sot_as_mit_mot_f64"], |g| {
        let [buf, u] = g.get(["buf", "u"]);
        outputs! { result: sweep(buf, [-3, -1], [0], [u], |[u], [r3, r1]| [(r3 * r1).tanh() + u]) }
    }),
    (&["mm_positive_taps"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [1, 2], [2], [x], |[x], [r1, r2]| [r1 * x + r2]) }
    }),
    (&["mm_far_negative_taps"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [-5, -4], [-4], [x], |[x], [r5, r4]| [r5 * x.cos() + r4]) }
    }),
    (&["mm_one_step"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [0, 1], [1], [x], |[x], [r0, r1]| [r0 * x + r1]) }
    }),
    (&["mm_zero_steps"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [0, 1], [1], [x], |[x], [r0, r1]| [r0 * x + r1]) }
    }),
    (&["mm_in_place_map"], |g| {
        let [buf, a] = g.get(["buf", "a"]);
        outputs! { result: sweep(buf, [0], [0], [], |[], [r0]| [a * r0.square() + 1.0]) }
    }),
    (&["mm_shift_down"], |g| outputs! { result: sweep(g.input("buf"), [1], [0], [], |[], [r1]| [r1.sin()]) }),
    (&["mm_write_below_reads"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [0, 1], [-1, 1], [x], |[x], [r0, r1]| [r0 * x, r0 + r1.sin()]) }
    }),
    // A row is written through tap 2, read through tap 1, then read and replaced through tap 0.
    (&["mm_three_roles"], |g| {
        let [buf, a] = g.get(["buf", "a"]);
        let result = sweep(buf, [0, 1, 2], [2, 0], [], |[], [r0, r1, r2]| {
            let [a0, a1] = a.unstack(0);
            [a0 * r0.sin() + r1 * r2, a1 * r0 * r2]
        });
        outputs! { result }
    }),
    // Three interleaved recurrences.
    (&["mm_gap"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [0, 3], [3], [x], |[x], [r0, r3]| [r0 * x + r3]) }
    }),
    (&["mm_linear_with_lookahead"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        outputs! { result: sweep(buf, [0, 1, 2], [1], [x], |[x], [r0, r1, r2]| [x * r0 + r1 - 0.5 * r2]) }
    }),
    (&["mm_rotate_rows"], |g| {
        let [buf, w] = g.get(["buf", "w"]);
        outputs! { result: sweep(buf, [-1, 0], [0, -1], [], |[], [rm, r0]| [rm.matmul(w).tanh() * r0, r0 - rm]) }
    }),
    (&["mm_int_prefix_sum"], |g| outputs! { result: sweep(g.input("buf"), [0, 1], [1], [], |[], [r0, r1]| [r0 + r1]) }),
    // A buffer and an output of each step.
    (&["mm_with_trace"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        let mut loop_ = Recurrence::new();
        let buf = loop_.mit_mot(buf, [0, 1], [1]);
        let x = loop_.sequence(x, [0]);
        let done = loop_.run(|step| {
            let ([r0, r1], [x]) = (step.read(&buf), step.read(&x));
            step.write(&buf, [r0 * x + r1]);
            r0 * x.square()
        });
        outputs! { result: done.buffer(&buf), y: done.ys }
    }),
    (&["mm_two_buffers_and_a_state", "mm_two_buffers_and_a_state_f64"], |g| {
        let [p, q, x, y, w, c0] = g.get(["p", "q", "x", "y", "w", "c0"]);
        let mut loop_ = Recurrence::new();
        let p = loop_.mit_mot(p, [0, 1], [1]);
        let q = loop_.mit_mot(q, [0, 2, 1], [2, 1]);
        let (x, y) = (loop_.sequence(x, [0]), loop_.sequence(y, [0]));
        let c = loop_.sit_sot(c0);
        let done = loop_.run(|step| {
            let ([x], [y], [c1]) = (step.read(&x), step.read(&y), step.read(&c));
            let ([p0, p1], [q0, q2, q1]) = (step.read(&p), step.read(&q));
            step.write(&p, [(p0 * x).matmul(w) + p1]);
            step.write(&q, [q0 * y + q2, p0.sum(..) * y + q1]);
            step.write(&c, 0.5 * c1 + x * q0);
        });
        outputs! { p: done.buffer(&p), q: done.buffer(&q), trace: done.trace(&c) }
    }),
    // Two buffers that read each other.
    (&["mm_two_coupled_buffers"], |g| {
        let [p, q, x] = g.get(["p", "q", "x"]);
        let mut loop_ = Recurrence::new();
        let p = loop_.mit_mot(p, [0, 1], [1]);
        let q = loop_.mit_mot(q, [-1, 0], [0, -1]);
        let x = loop_.sequence(x, [0]);
        let done = loop_.run(|step| {
            let ([x], [p0, p1], [qm, q0]) = (step.read(&x), step.read(&p), step.read(&q));
            step.write(&p, [p0 * q0 + x * p1]);
            step.write(&q, [p1.sin() + qm, qm * q0]);
        });
        outputs! { p: done.buffer(&p), q: done.buffer(&q) }
    }),
    (&["mm_matrix_rows"], |g| {
        let [buf, a] = g.get(["buf", "a"]);
        outputs! { result: sweep(buf, [0, 1], [1], [], |[], [r0, r1]| [r0.matmul(r1) + a.matmul(r1)]) }
    }),
    (&["mm_slice_of_result"], |g| {
        let [buf] = g.get(["buf"]);
        let result = sweep(buf, [0, 1], [1], [], |[], [r0, r1]| [r0 * r1 + r0]);
        outputs! { last: result.index(0, 6), third: result.index(0, 3) }
    }),
    // The initial buffer is computed, the result is reversed.
    (&["mm_buffer_from_expression"], |g| {
        let [start, x] = g.get(["start", "x"]);
        let [first, last] = start.unstack(0);
        let zero = first.zeros_like();
        let buf = stack(&[first, zero, zero, zero, last], 0);
        let result = sweep(buf, [0, 1], [1], [x], |[x], [r0, r1]| [r0 * 2.0 * x + r1]);
        outputs! { result: result.reverse(0) }
    }),
    // A window of three rows, all read and all written.
    (&["mm_dense_window", "mm_dense_window_f64"], |g| {
        let [buf, w] = g.get(["buf", "w"]);
        let result = sweep(buf, [0, 1, 2], [2, 1, 0], [], |[], window| {
            let [v0, v1, v2] = stack(&window, 0).matmul(w).tanh().unstack(0);
            [v2, v1, v0]
        });
        outputs! { result }
    }),
    // The batch is an axis of the rows.
    (&["vmap_mit_mot"], |g| {
        let [buf, x] = g.get(["buf", "x"]);
        let options = VmapOptions::new().in_axes([Some(0), Some(1)]);
        let result = vmap_with(options, (buf, x), |(buf, x)| {
            sweep(buf, [0, 1], [1], [x], |[x], [r0, r1]| [r0 * 2.0 * x + r1.square()])
        });
        outputs! { result }
    }),
];

/// The final rows of one buffer: each step maps rows of the sequences `xs` and the rows behind the taps `reads` to
/// the rows behind the taps `writes`.
fn sweep<const R: usize, const W: usize, const X: usize>(
    buffer: Value,
    reads: [i64; R],
    writes: [i64; W],
    xs: [Value; X],
    step: impl FnOnce([Value; X], [Value; R]) -> [Value; W],
) -> Value {
    recurrences::sweep(&mut Recurrence::new(), buffer, reads, writes, xs, step)
}
