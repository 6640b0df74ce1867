//! Category `mit_mot`: buffers that a step reads and writes at several taps.

use funcify::{Recurrence, Value, VmapOptions, stack, vmap_with};

use super::{Programs, outputs, program, recurrences};

pub(super) const PROGRAMS: Programs = &[
    &program(&["mm_gradient_of_sit_sot", "mm_gradient_of_sit_sot_f64"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [0, 1], [1], [x], |[x], [r0, r1]| [r0 * 2.0 * x + r1]) }
    }),
    &program(&["mm_gradient_of_gradient", "mm_gradient_of_gradient_f64"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [-1, 0], [0, -1], [x], |[x], [rm, r0]| [rm * 2.0 * x + r0, rm]) }
    }),
    &program(&["mm_gradient_of_mit_sot", "mm_gradient_of_mit_sot_f64"], ["buf", "x", "y"], |[buf, x, y]| {
        outputs! { result: sweep(buf, [0, 2, 1], [2, 1], [x, y], |[x, y], [r0, r2, r1]| [r0 * x + r2, r0 * y + r1]) }
    }),
    &program(&["mm_write_only_next"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [0], [1], [x], |[x], [r0]| [r0.sin() + x]) }
    }),
    // A step reads tap 0 and writes tap 2, so even and odd rows form two independent recurrences.
    &program(&["mm_write_only_skip"], ["buf", "w"], |[buf, w]| {
        outputs! { result: sweep(buf, [0], [2], [], |[], [r0]| [(w * r0).tanh()]) }
    }),
    &program(&["mm_read_only_neighbours"], ["buf", "a"], |[buf, a]| {
        let result = sweep(buf, [0, 1, 2], [1], [], |[], [r0, r1, r2]| {
            let [a0, a1, a2] = a.unstack(0);
            [a0 * r0 + a1 * r1.square() + a2 * r2]
        });
        outputs! { result }
    }),
    // Each step updates an interior row, using the updated row above.
    &program(&["mm_gauss_seidel_rows"], ["buf", "a", "b", "c"], |[buf, a, b, c]| {
        let result =
            sweep(buf, [-1, 0, 1], [0], [], |[], [rm, r0, rp]| [(rm.matmul(a) + r0.matmul(b)).tanh() + rp.matmul(c)]);
        outputs! { result }
    }),
    &program(&["mm_overlapping_overwrite", "mm_overlapping_overwrite_f64"], ["buf"], |[buf]| {
        outputs! { result: sweep(buf, [0, 1], [0, 1], [], |[], [r0, r1]| [0.5 * r1, r0 * r1]) }
    }),
    // One pass of bubble sort.
    &program(&["mm_bubble_pass"], ["buf"], |[buf]| {
        let result = sweep(buf, [0, 1], [0, 1], [], |[], [r0, r1]| [r0.minimum(r1), r0.maximum(r1)]);
        outputs! { result }
    }),
    &program(&["mm_nonlinear", "mm_nonlinear_f64"], ["buf", "u"], |[buf, u]| {
        outputs! { result: sweep(buf, [0, 1], [1], [u], |[u], [r0, r1]| [r0.sin() * r1.square() + u]) }
    }),
    &program(&["mm_overwrite_after_use"], ["buf"], |[buf]| {
        outputs! { result: sweep(buf, [0, 1], [0], [], |[], [r0, r1]| [r0 * r1]) }
    }),
    &program(&["mm_write_overwritten_by_later_step"], ["buf", "a"], |[buf, a]| {
        let result = sweep(buf, [0], [2, 1], [], |[], [r0]| {
            let [a0, a1] = a.unstack(0);
            [a0 * r0, a1 * r0.sin()]
        });
        outputs! { result }
    }),
    &program(&["mm_reversed_tap_order"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [1, 0], [1, 0], [x], |[x], [r1, r0]| [r0 * x + r1, r0]) }
    }),
    &program(&["mm_mit_sot_as_mit_mot", "mm_mit_sot_as_mit_mot_f64"], ["buf", "u"], |[buf, u]| {
        outputs! { result: sweep(buf, [-3, -1], [0], [u], |[u], [r3, r1]| [(r3 * r1).tanh() + u]) }
    }),
    &program(&["mm_positive_taps"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [1, 2], [2], [x], |[x], [r1, r2]| [r1 * x + r2]) }
    }),
    &program(&["mm_far_negative_taps"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [-5, -4], [-4], [x], |[x], [r5, r4]| [r5 * x.cos() + r4]) }
    }),
    &program(&["mm_one_step"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [0, 1], [1], [x], |[x], [r0, r1]| [r0 * x + r1]) }
    }),
    &program(&["mm_zero_steps"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [0, 1], [1], [x], |[x], [r0, r1]| [r0 * x + r1]) }
    }),
    &program(&["mm_in_place_map"], ["buf", "a"], |[buf, a]| {
        outputs! { result: sweep(buf, [0], [0], [], |[], [r0]| [a * r0.square() + 1.0]) }
    }),
    &program(&["mm_shift_down"], ["buf"], |[buf]| outputs! { result: sweep(buf, [1], [0], [], |[], [r1]| [r1.sin()]) }),
    &program(&["mm_write_below_reads"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [0, 1], [-1, 1], [x], |[x], [r0, r1]| [r0 * x, r0 + r1.sin()]) }
    }),
    // Each row is first read and overwritten through tap 2, then read through tap 1, and finally read and overwritten
    // through tap 0.
    &program(&["mm_three_roles"], ["buf", "a"], |[buf, a]| {
        let result = sweep(buf, [0, 1, 2], [2, 0], [], |[], [r0, r1, r2]| {
            let [a0, a1] = a.unstack(0);
            [a0 * r0.sin() + r1 * r2, a1 * r0 * r2]
        });
        outputs! { result }
    }),
    // A step reads tap 0 and writes tap 3, so the rows form three independent recurrences.
    &program(&["mm_gap"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [0, 3], [3], [x], |[x], [r0, r3]| [r0 * x + r3]) }
    }),
    &program(&["mm_linear_with_lookahead"], ["buf", "x"], |[buf, x]| {
        outputs! { result: sweep(buf, [0, 1, 2], [1], [x], |[x], [r0, r1, r2]| [x * r0 + r1 - 0.5 * r2]) }
    }),
    &program(&["mm_rotate_rows"], ["buf", "w"], |[buf, w]| {
        outputs! { result: sweep(buf, [-1, 0], [0, -1], [], |[], [rm, r0]| [rm.matmul(w).tanh() * r0, r0 - rm]) }
    }),
    &program(&["mm_int_prefix_sum"], ["buf"], |[buf]| {
        outputs! { result: sweep(buf, [0, 1], [1], [], |[], [r0, r1]| [r0 + r1]) }
    }),
    // The loop returns both a buffer and ys.
    &program(&["mm_with_trace"], ["buf", "x"], |[buf, x]| {
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
    &program(
        &["mm_two_buffers_and_a_state", "mm_two_buffers_and_a_state_f64"],
        ["p", "q", "x", "y", "w", "c0"],
        |[p, q, x, y, w, c0]| {
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
        },
    ),
    // Each buffer's update reads the other buffer.
    &program(&["mm_two_coupled_buffers"], ["p", "q", "x"], |[p, q, x]| {
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
    &program(&["mm_matrix_rows"], ["buf", "a"], |[buf, a]| {
        outputs! { result: sweep(buf, [0, 1], [1], [], |[], [r0, r1]| [r0.matmul(r1) + a.matmul(r1)]) }
    }),
    &program(&["mm_slice_of_result"], ["buf"], |[buf]| {
        let result = sweep(buf, [0, 1], [1], [], |[], [r0, r1]| [r0 * r1 + r0]);
        outputs! { last: result.index(0, 6), third: result.index(0, 3) }
    }),
    // The initial buffer is the result of other ops, and the final buffer is reversed.
    &program(&["mm_buffer_from_expression"], ["start", "x"], |[start, x]| {
        let [first, last] = start.unstack(0);
        let zero = first.zeros_like();
        let buf = stack(&[first, zero, zero, zero, last], 0);
        let result = sweep(buf, [0, 1], [1], [x], |[x], [r0, r1]| [r0 * 2.0 * x + r1]);
        outputs! { result: result.reverse(0) }
    }),
    // Each step reads and writes all rows of a window of three rows.
    &program(&["mm_dense_window", "mm_dense_window_f64"], ["buf", "w"], |[buf, w]| {
        let result = sweep(buf, [0, 1, 2], [2, 1, 0], [], |[], window| {
            let [v0, v1, v2] = stack(&window, 0).matmul(w).tanh().unstack(0);
            [v2, v1, v0]
        });
        outputs! { result }
    }),
    // The batch axis is axis 0 of the buffer, and axis 1 of the sequence.
    &program(&["vmap_mit_mot"], ["buf", "x"], |[buf, x]| {
        let options = VmapOptions::new().in_axes([Some(0), Some(1)]);
        let result = vmap_with(options, (buf, x), |(buf, x)| {
            sweep(buf, [0, 1], [1], [x], |[x], [r0, r1]| [r0 * 2.0 * x + r1.square()])
        });
        outputs! { result }
    }),
];

/// Runs a loop over a buffer, and returns its final rows. Each step maps a row of each sequence in `xs` and the
/// buffer's rows at the taps `reads` to the rows at the taps `writes`.
fn sweep<const R: usize, const W: usize, const X: usize>(
    buffer: Value,
    reads: [i64; R],
    writes: [i64; W],
    xs: [Value; X],
    step: impl FnOnce([Value; X], [Value; R]) -> [Value; W],
) -> Value {
    recurrences::sweep(&mut Recurrence::new(), buffer, reads, writes, xs, step)
}
