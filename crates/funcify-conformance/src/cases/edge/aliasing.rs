//! Cases that use a value more than once. A write must not change other uses or copies of a value (scan-c1).

use super::*;

pub(super) fn cases() -> Cases {
    all([
        // A step writes the same value to two carries, which the next step must see as two independent values.
        case("one_fresh_value_into_two_carries", |g| {
            let zero = g.input("zero", "f32[2]");
            let ((a, b), ys) = scan((zero, zero), g.input("xs", "f32[T,2]"), |(a, b), x| {
                let fresh = a + b + x;
                ((fresh, fresh), a * 10.0 + b)
            });
            outputs! { a, b, ys }
        })
        .on([row([0f32, 0.]), tensor([3, 2], [1f32, 10., 2., 20., 3., 30.])])
        .gives([
            ("a", row([11f32, 110.])),
            ("b", row([11f32, 110.])),
            ("ys", tensor([3, 2], [0f32, 0., 11., 110., 44., 440.])),
        ]),
        // A step writes the same value to two states, to a carry, twice to a full buffer, and twice to the ys.
        case("one_fresh_value_into_every_kind", |g| {
            let zero = g.input("zero", "f32[]");
            let mut loop_ = Recurrence::new();
            let buffer = loop_.mit_mot(g.input("rows", "f32[4]"), [0, 1], [1, 0]);
            let (s, m) = (loop_.sit_sot(zero), loop_.mit_sot(g.input("init", "f32[2]"), [-2]));
            let c = loop_.carry(zero);
            let done = loop_.run(|step| {
                let ([x0, x1], [s1], [m2], c1) = (step.read(&buffer), step.read(&s), step.read(&m), step.read(&c));
                let fresh = x0 + x1 + s1 + m2 + c1;
                step.write(&buffer, [fresh, fresh]);
                step.write(&s, fresh);
                step.write(&m, fresh);
                step.write(&c, fresh);
                (fresh, fresh)
            });
            let (y, z) = done.ys;
            outputs! { rows: done.buffer(&buffer), s: done.trace(&s), m: done.trace(&m), c: done.last(&c), y, z }
        })
        .on([scalar(0f32), row([1f32, 2., 3., 4.]), row([0f32, 1.])])
        .gives([
            ("rows", row([3f32, 13., 46., 46.])),
            ("s", row([3f32, 13., 46.])),
            ("m", row([3f32, 13., 46.])),
            ("c", scalar(46f32)),
            ("y", row([3f32, 13., 46.])),
            ("z", row([3f32, 13., 46.])),
        ]),
        // Two states and a carry have the same initial value, which is also a result. The states and the carry must
        // change independently.
        case_on("one_initial_value_of_several_states", [("init: f32[2]", row([5f32, 7.]))])
            .runs(|[init]| {
                let mut loop_ = Recurrence::new();
                let (p, q, c) = (loop_.sit_sot(init), loop_.sit_sot(init), loop_.carry(init));
                let done = loop_.steps(2).run(|step| {
                    let ([p1], [q1], c1) = (step.read(&p), step.read(&q), step.read(&c));
                    step.write(&p, p1 + 1.0);
                    step.write(&q, q1 * 2.0);
                    step.write(&c, c1 - 1.0);
                });
                outputs! { init, p: done.trace_with_init(&p), q: done.trace_with_init(&q), c: done.last(&c) }
            })
            .gives([
                ("init", row([5f32, 7.])),
                ("p", tensor([3, 2], [5f32, 7., 6., 8., 7., 9.])),
                ("q", tensor([3, 2], [5f32, 7., 10., 14., 20., 28.])),
                ("c", row([3f32, 5.])),
            ]),
        // The same tensor is used as two full buffers and as a sequence. A write to one buffer must not be visible in
        // the other buffer or in the sequence.
        case_on("one_buffer_as_operand_twice", [("rows: f32[4]", row([1f32, 2., 3., 4.]))])
            .runs(|[rows]| {
                let mut loop_ = Recurrence::new();
                let p = loop_.mit_mot(rows, [0, 1], [1]);
                let q = loop_.mit_mot(rows, [0, 1], [0]);
                let x = loop_.sequence(rows, [0, 1]);
                let done = loop_.run(|step| {
                    let ([p0, p1], [q0, q1], [x0, x1]) = (step.read(&p), step.read(&q), step.read(&x));
                    step.write(&p, [p0 + p1]);
                    step.write(&q, [q0 * q1]);
                    x0 * 10.0 + x1
                });
                outputs! { rows, p: done.buffer(&p), q: done.buffer(&q), ys: done.ys }
            })
            .gives([
                ("rows", row([1f32, 2., 3., 4.])),
                ("p", row([1f32, 3., 6., 10.])),
                ("q", row([2f32, 6., 12., 4.])),
                ("ys", row([12f32, 23., 34.])),
            ]),
        // The ys of a body are a row of a sequence, a captured value, and the carry, all unchanged.
        {
            let xs = || tensor([3, 2], [1f32, 2., 3., 4., 5., 6.]);
            case("echoes_of_a_sequence_a_capture_and_a_carry", |g| {
                let (xs, w) = (g.input("xs", "f32[3,2]"), g.input("w", "f32[2]"));
                let (last, (x, w_each, before)) = scan(g.input("init", "f32[2]"), xs, |c, x| (c + x * w, (x, w, c)));
                outputs! { last, x, w_each, before, xs, w }
            })
            .on([xs(), row([10f32, 100.]), row([0f32, 0.])])
            .gives([
                ("last", row([90f32, 1200.])),
                ("x", xs()),
                ("w_each", tensor([3, 2], [10f32, 100., 10., 100., 10., 100.])),
                ("before", tensor([3, 2], [0f32, 0., 10., 200., 40., 600.])),
                ("xs", xs()),
                ("w", row([10f32, 100.])),
            ])
        },
        // A row of a sequence and a captured value are written to states directly, without an op in between.
        case("echo_of_a_capture_as_state", |g| {
            let (xs, w, zero) = (g.input("xs", "f32[T]"), g.input("w", "f32[]"), g.input("zero", "f32[]"));
            let mut loop_ = Recurrence::new();
            let x = loop_.sequence(xs, [0]);
            let (s, m, c) = (loop_.sit_sot(zero), loop_.sit_sot(zero), loop_.carry(zero));
            let done = loop_.run(|step| {
                let ([x], [s1], [m1]) = (step.read(&x), step.read(&s), step.read(&m));
                step.write(&s, x);
                step.write(&m, w);
                step.write(&c, s1);
                s1 + m1
            });
            outputs! { s: done.trace(&s), m: done.trace(&m), c: done.last(&c), ys: done.ys, w }
        })
        .on([row([1f32, 2., 3.]), scalar(10f32), scalar(0f32)])
        .gives([
            ("s", row([1f32, 2., 3.])),
            ("m", row([10f32, 10., 10.])),
            ("c", scalar(2f32)),
            ("ys", row([0f32, 11., 12.])),
            ("w", scalar(10f32)),
        ]),
        // A body returns a carry and a state unchanged, but changes another carry.
        case_on("body_that_returns_its_carry_unchanged", [("init: f32[2]", row([1f32, 2.]))])
            .runs(|[init]| {
                let mut loop_ = Recurrence::new();
                let (unchanged, tap) = (loop_.carry(init), loop_.sit_sot(init));
                let moved = loop_.carry(init);
                let done = loop_.steps(3).run(|step| {
                    let (unchanged_1, [tap_1], moved_1) = (step.read(&unchanged), step.read(&tap), step.read(&moved));
                    step.write(&unchanged, unchanged_1);
                    step.write(&tap, tap_1);
                    step.write(&moved, moved_1 + unchanged_1 + tap_1);
                });
                outputs! { unchanged: done.last(&unchanged), tap: done.trace(&tap), moved: done.last(&moved) }
            })
            .gives([
                ("unchanged", row([1f32, 2.])),
                ("tap", tensor([3, 2], [1f32, 2., 1., 2., 1., 2.])),
                ("moved", row([7f32, 14.])),
            ]),
        // A step copies the first elements of a state to later positions of the same state. The source and the
        // destination overlap, so all elements must be read before any is written.
        case("state_with_a_part_of_itself_moved", |g| {
            let [start, places] = [g.input("start", "f32[5]"), g.input("places", "i64[2]")];
            let (last, ys) = scan(start, places, |state, place| {
                let next = state.dynamic_update(0, state.slice(0, 0..3), place);
                (next, next * 2.0)
            });
            outputs! { last: last, ys: ys }
        })
        .on([row([1f32, 2., 3., 4., 5.]), row([1i64, 2])])
        .gives([
            ("last", row([1f32, 1., 1., 1., 2.])),
            ("ys", tensor([2, 5], [2f32, 2., 4., 6., 10., 2., 2., 2., 2., 4.])),
        ]),
        // Two loops multiply by the same matrices, and the second loop starts from the result of the first.
        case("two_loops_over_the_same_matrices", |g| {
            let [start, matrices] = [g.input("start", "f32[2,2]"), g.input("matrices", "f32[3,2,2]")];
            let first = scan(start, matrices, |state, matrix| (state.matmul(matrix), ())).0;
            let (last, ys) = scan(first, matrices, |state, matrix| (state.matmul(matrix), state));
            outputs! { first: first, last: last, ys: ys }
        })
        .on([tensor([2, 2], [1f32, 0., 0., 1.]), tensor([3, 2, 2], [1f32, 1., 0., 1., 1., 0., 1., 1., 2., 0., 0., 1.])])
        .gives([
            ("first", tensor([2, 2], [4f32, 1., 2., 1.])),
            ("last", tensor([2, 2], [18f32, 5., 10., 3.])),
            ("ys", tensor([3, 2, 2], [4f32, 1., 2., 1., 4., 5., 2., 3., 9., 5., 5., 3.])),
        ]),
    ])
}
