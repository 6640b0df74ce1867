//! Category `nested`: loops inside loops.

use funcify::prelude::*;

use super::while_loops::{collatz_step, newton};
use super::{Programs, carry_as_output, outputs, program, scan_outputs};

pub(super) const PROGRAMS: Programs = &[
    // The inner loop has no sequences, only a carry and a captured value.
    &program(&["scan_in_scan_fixed", "scan_in_scan_fixed_f64"], ["init", "w"], |[init, w]| {
        let times = |length: usize| ScanOptions::new().length(length);
        scan_outputs(scan_with(times(3), init, (), |c, ()| {
            let (c, ()) = scan_with(times(4), c, (), |d, ()| ((w * d).tanh() + 0.1 * d, ()));
            (c, c)
        }))
    }),
    // The inner scan runs over a row of the outer sequence.
    &program(&["scan_in_scan_slices", "scan_in_scan_slices_f64"], ["init", "xs", "w"], |[init, xs, w]| {
        let (carry, zs) = scan(init, xs, |c, x| {
            let (d, z) = scan(c.zeros_like(), x, |d, v| {
                let d = (d + w * v).tanh();
                (d, d * c)
            });
            (c + d, z)
        });
        outputs! { carry, zs }
    }),
    // A carry is passed through three nested scans.
    &program(&["scan_three_levels"], ["init", "xs", "w"], |[init, xs, w]| {
        let level3 = |c: Value, x: Value| ((c * w).sin() + x, ());
        let level2 = |c: Value, x: Value| {
            let (c, ()) = scan(c, x, level3);
            (c, c)
        };
        let level1 = |c: Value, x: Value| {
            let (c, ys) = scan(c, x, level2);
            (c, (ys, c.square()))
        };
        let (carry, (ys, zs)) = scan(init, xs, level1);
        outputs! { carry, ys, zs }
    }),
    // A forward scan contains a reverse scan over a captured sequence.
    &program(&["inner_reverse_scan"], ["init", "xs", "ws"], |[init, xs, ws]| {
        let (carry, es) = scan(init, xs, |c, x| {
            scan_with(ScanOptions::new().reverse(), c + x, ws, |d, v| carry_as_output(0.5 * d * v + x))
        });
        outputs! { carry, es }
    }),
    // An inner loop with two taps starts from a row of the outer sequence.
    &program(&["inner_mit_sot"], ["start", "a", "b"], |[start, a, b]| {
        scan_outputs(scan(a.zeros_like(), start, |c, s| {
            let mut inner = Recurrence::new();
            let y = inner.mit_sot(s, [-2, -1]);
            let done = inner.steps(4).run(|step| {
                let [y2, y1] = step.read(&y);
                step.write(&y, a * y2 + b * y1.sin());
            });
            let trace = done.trace(&y);
            (0.5 * c + trace.index(0, -1), trace)
        }))
    }),
    // In each step, a map runs over the elements of the carry and of the row. The body of the map also captures the
    // whole carry.
    &program(&["map_in_scan"], ["init", "xs", "w"], |[init, xs, w]| {
        let (_, ys) = scan(init, xs, |c, x| {
            let ((), c) = scan((), (c, x), |(), (c_j, x_j)| ((), (c_j * x_j).tanh() + (c * w).sum(..)));
            (c, c)
        });
        outputs! { ys }
    }),
    // Each step of the outer scan runs an inner scan over one chunk of rows. The nested scans are equivalent to a
    // single scan over all rows.
    &program(&["chunked_scan", "chunked_scan_f64"], ["init", "xs", "w"], |[init, xs, w]| {
        let step = |c: Value, x: Value| carry_as_output((c.matmul(w) + x).tanh());
        let (carry, ys) = scan(init, xs.reshape([3, 2, 2]), |c, chunk| scan(c, chunk, step));
        outputs! { carry, ys: ys.reshape([6, 2]) }
    }),
    // Computes `c = a @ b` by writing the rows of `c` into a carried buffer.
    &program(&["matmul_by_loops"], ["a", "b"], |[a, b]| {
        let (c, ()) = scan(full([3, 3], a.dtype(), 0.0), iota(3, DType::I64), |c, i| {
            let (row, ()) = scan(full([3], a.dtype(), 0.0), iota(2, DType::I64), |row, k| {
                (row + a.take(0, i).take(0, k) * b.take(0, k), ())
            });
            (c.dynamic_update(0, row.unsqueeze(0), i), ())
        });
        outputs! { c }
    }),
    // Each step computes prefix products with an associative scan.
    &program(&["associative_scan_in_scan"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, xs, |c, x| {
            let y = c * associative_scan(x, |a, b| a * b);
            (y.sum(0) / 4.0, y)
        }))
    }),
    // Only some steps of the outer loop run the inner loop.
    &program(&["scan_in_cond_in_scan"], ["init", "xs", "w"], |[init, xs, w]| {
        let (_, ys) = scan(init, xs, |c, x| {
            let run = || scan(c, x, |d, v| ((d + v * w).tanh(), ())).0;
            let c = cond(x.sum(..).gt(0.0), run, || 0.5 * c);
            (c, c)
        });
        outputs! { ys }
    }),
    // The while loop has a different trip count in each step of the scan.
    &program(&["while_in_scan"], ["xs"], |[xs]| {
        let (_, (ys, n)) = scan(xs.index(0, 0).zeros_like(), xs, |c, a| {
            let (x, n) = newton(a);
            let c = 0.5 * c + x;
            (c, (c, n))
        });
        outputs! { ys, n }
    }),
    &program(&["scan_in_while"], ["x0", "ws"], |[x0, ws]| {
        let next = |(x, n): (Value, Value)| (scan(x, ws, |x, w| (x * w + 0.05, ())).0, n + 1);
        let (x, n) = while_loop((x0, constant(0i64)), |(x, _)| x.sum(..).lt(12.0), next);
        outputs! { x, n }
    }),
    // The trip count of the inner loop depends on the state of the outer loop.
    &program(&["while_in_while"], ["limit"], |[limit]| {
        let outer = |(i, total): (Value, Value)| {
            let (_, total) = while_loop((i, total), |(n, _)| n.gt(1), |(n, total)| (collatz_step(n), total + 1));
            (i + 1, total)
        };
        let (_, total) = while_loop((constant(1i64), constant(0i64)), |(i, _)| i.le(limit), outer);
        outputs! { total }
    }),
    // The trip count of the inner loop is the loop variable of the outer loop.
    &program(&["triangular_loop"], ["xs", "w"], |[xs, w]| {
        let s = fori_loop(1, 5, w.zeros_like(), |i, s| {
            let d = fori_loop(0, i, xs.take(0, i), |j, d| (d + xs.take(0, j) * w).sin());
            s + d * i.cast(xs.dtype())
        });
        outputs! { s }
    }),
    // The Levenshtein distance between two strings of integers, computed row by row.
    &program(&["edit_distance"], ["a", "b"], |[a, b]| {
        let (last, ()) = scan(iota(5, DType::I64), a, |row, ch| {
            let first = row.index(0, 0) + 1;
            let (_, rest) = scan(first, (row.slice(0, 1..5), row.slice(0, ..4), b), |left, (up, diagonal, other)| {
                let differ = select(ch.eq(other), 0, 1);
                let new = (left + 1).minimum(up + 1).minimum(diagonal + differ);
                (new, new)
            });
            (concat(&[first.unsqueeze(0), rest], 0), ())
        });
        outputs! { distance: last.index(0, 4), last }
    }),
    // Dynamic time warping with a smooth minimum, computed row by row.
    &program(&["soft_dtw"], ["xs", "ys", "gamma"], |[xs, ys, gamma]| {
        let softmin = |a: Value, b: Value, c: Value| {
            let m = a.minimum(b).minimum(c).stop_gradient();
            let total = ((m - a) / gamma).exp() + ((m - b) / gamma).exp() + ((m - c) / gamma).exp();
            m - gamma * total.log()
        };
        let zero = gamma.zeros_like();
        let big = gamma.full_like(1000.0);
        let (last, ()) = scan(stack(&[zero, big, big, big, big], 0), xs, |row, x| {
            let (_, rest) = scan(big, (row.slice(0, 1..5), row.slice(0, ..4), ys), |left, (up, diagonal, y)| {
                carry_as_output((x - y).square().sum(..) + softmin(diagonal, up, left))
            });
            (concat(&[big.unsqueeze(0), rest], 0), ())
        });
        outputs! { distance: last.index(0, 4) }
    }),
];
