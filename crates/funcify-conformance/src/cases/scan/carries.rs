//! Carries: trees, integers, booleans and matrices, with and without captured values.

use std::collections::BTreeMap;

use funcify::{DType, ScanOptions, constant, iota, scan, scan_with, select};

use crate::cases::{Programs, carry_as_output, outputs, program, scan_outputs};

pub(super) const PROGRAMS: Programs = &[
    &program(&["carry_unchanged"], ["init", "xs"], |[init, xs]| scan_outputs(scan(init, xs, |c, x| (c, c * x)))),
    &program(&["captured_matrix", "captured_matrix_f64"], ["init", "xs", "w"], |[init, xs, w]| {
        scan_outputs(scan(init, xs, |c, x| carry_as_output((c.matmul(w) + x).tanh())))
    }),
    // The carry is a map, the sequences are a pair, and the ys are a triple.
    &program(&["pytree_state"], ["a0", "b0", "n0", "u", "v"], |[a0, b0, n0, u, v]| {
        let start = BTreeMap::from([("a", a0), ("b", b0), ("n", n0)]);
        let (c, (y1, y2, y3)) = scan(start, (u, v), |c, (u, v)| {
            let (a, b, n) = (c["a"], c["b"], c["n"]);
            let (next_a, next_b, next_n) = (a.sin() + u * n, b * v + a.sum(..), 0.5 * n + v.sum(..));
            (BTreeMap::from([("a", next_a), ("b", next_b), ("n", next_n)]), (next_a * next_n, b.sum(..), v - next_b))
        });
        outputs! { a: c["a"], b: c["b"], n: c["n"], y1, y2, y3 }
    }),
    &program(&["swap_carries"], ["a0", "b0"], |[a0, b0]| {
        let ((a, b), ys) = scan_with(ScanOptions::new().length(5), (a0, b0), (), |(a, b), ()| ((b, 0.5 * a * b), a));
        outputs! { a, b, ys }
    }),
    // The carry counts the positive rows.
    &program(&["int_carry"], ["count0", "xs"], |[count0, xs]| {
        let (count, (counts, ys)) = scan(count0, xs, |n, x| {
            let n = n + x.gt(0).cast(DType::I64);
            (n, (n, n.cast(x.dtype()) * x))
        });
        outputs! { count, counts, ys }
    }),
    // The carry records whether any row was negative.
    &program(&["bool_carry"], ["seen0", "xs"], |[seen0, xs]| {
        let (seen, (flags, ys)) = scan(seen0, xs, |s, x| {
            let s = s | x.lt(0);
            (s, (s, select(s, x.square(), 3.0 * x)))
        });
        outputs! { seen, flags, ys }
    }),
    // The carry consists of a decaying maximum, its position, and a flag that is `true` once any row has exceeded the
    // maximum.
    &program(&["mixed_carry"], ["best0", "xs"], |[best0, xs]| {
        let start = (best0, constant(-1i64), constant(false));
        let ((best, at, any), trace) = scan(start, (iota(7, DType::I64), xs), |(best, at, any), (t, x)| {
            let up = x.gt(best);
            let new = select(up, x, 0.9 * best);
            ((new, select(up, t, at), any | up), new)
        });
        outputs! { best, at, any, trace }
    }),
    &program(&["final_carry_only"], ["init", "xs", "w"], |[init, xs, w]| {
        let (carry, ()) = scan(init, xs, |c, x| ((c.matmul(w) + x).tanh(), ()));
        outputs! { carry }
    }),
    &program(&["matrix_carry"], ["init", "a", "b", "xs"], |[init, a, b, xs]| {
        scan_outputs(scan(init, xs, |c, x| {
            let c = a.matmul(c) + x.matmul(b);
            (c, c.sum(0))
        }))
    }),
    // `w` is used before, inside and after the loop.
    &program(&["capture_inside_and_outside"], ["init", "xs", "w"], |[init, xs, w]| {
        let (carry, ()) = scan(init * w, xs, |c, x| ((w * c).sin() + x, ()));
        outputs! { result: carry * w + w.square() }
    }),
    // The carry is an index into a table.
    &program(&["pointer_chase"], ["memory", "start", "xs"], |[memory, start, xs]| {
        let (pointer, ys) = scan(start, xs, |p, x| ((2 * p + x) % 5, memory.take(0, p).square()));
        outputs! { pointer, ys }
    }),
    // Neurons fire above a threshold, and then reset to zero.
    &program(&["leaky_integrate_and_fire"], ["v0", "xs", "leak"], |[v0, xs, leak]| {
        let (v, (potentials, spikes)) = scan(v0, xs, |v, x| {
            let u = leak * v + x;
            let fired = u.gt(1);
            (select(fired, 0.0, u), (u, fired))
        });
        outputs! { v, potentials, spikes }
    }),
    // Dimensions of size 1 must be kept.
    &program(&["singleton_dimensions"], ["init", "xs", "w"], |[init, xs, w]| {
        scan_outputs(scan(init, xs, |c, x| {
            let c = (c.matmul(w) + x).sin();
            (c, c.unsqueeze(0))
        }))
    }),
    &program(&["init_from_parameters"], ["x0", "w", "b", "xs"], |[x0, w, b, xs]| {
        scan_outputs(scan((x0.matmul(w) + b).tanh(), xs, |c, x| carry_as_output(c * x + b)))
    }),
];
