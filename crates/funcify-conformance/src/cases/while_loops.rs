//! Category `while`: `fori_loop`, `while_loop`, and scans with an early exit.

use funcify::prelude::*;

use super::*;

pub(super) const PROGRAMS: Programs = &[
    &program(&["newton_sqrt", "newton_sqrt_f64"], ["a"], |[a]| {
        let (x, n) = newton(a);
        outputs! { x, n }
    }),
    // One loop computes the roots of all elements, and runs until the last element has converged.
    &program(&["newton_cube_root_vector"], ["a"], |[a]| {
        let cube = |x: Value| x * x * x;
        let next = |(x, n): (Value, Value)| (x - (cube(x) - a) / (3.0 * x.square()), n + 1);
        let (x, n) = while_loop((a, zero()), |(x, _)| (cube(x) - a).abs().max(..).gt(0.01), next);
        outputs! { x, n }
    }),
    &program(&["while_zero_trips"], ["x0", "w"], |[x0, w]| {
        outputs! { x: while_loop(x0, |x| x.sum(..).lt(2.0), |x| x * w) }
    }),
    &program(&["collatz"], ["start"], |[start]| {
        let (_, steps, peak) = while_loop(
            (start, zero(), start),
            |(n, ..)| n.gt(1),
            |(n, steps, peak)| {
                let n = collatz_step(n);
                (n, steps + 1, peak.maximum(n))
            },
        );
        outputs! { steps, peak }
    }),
    &program(&["gcd"], ["a", "b"], gcd),
    &program(&["power_by_squaring", "power_by_squaring_f64"], ["base", "exponent"], |[base, exponent]| {
        let next = |(r, b, e): (Value, Value, Value)| {
            let is_odd = (e % 2).gt(0).broadcast_to(base.shape());
            (select(is_odd, r * b, r), b * b, e / 2)
        };
        let (r, ..) = while_loop((base.ones_like(), base, exponent), |(_, _, e)| e.gt(0), next);
        outputs! { r }
    }),
    // The trip count depends on the values of a captured array.
    &program(&["while_indexing_an_array"], ["xs"], |[xs]| {
        let start = (xs.index(0, 0).zeros_like(), zero());
        let (s, n) = while_loop(start, |(s, _)| s.lt(2.0), |(s, i)| (s + xs.take(0, i).square() + 0.1, i + 1));
        outputs! { s, n }
    }),
    &program(&["fixed_point"], ["x0", "w", "b"], |[x0, w, b]| {
        let start = (x0, x0.index(0, 0).ones_like(), zero());
        let next = |(x, _, n): (Value, Value, Value)| {
            let y = (x.matmul(w) + b).tanh();
            (y, (y - x).square().sum(..), n + 1)
        };
        let (x, _, n) = while_loop(start, |(_, d, _)| d.gt(0.001), next);
        outputs! { x, n }
    }),
    &program(&["power_iteration"], ["a", "v0"], |[a, v0]| {
        let zero_float = v0.index(0, 0).zeros_like();
        let (v, e, _, n) = while_loop(
            (v0, zero_float, zero_float + 1.0, zero()),
            |(_, _, d, _)| d.gt(0.01),
            |(v, e, _, n)| {
                let u = a.matmul(v);
                let f = (v * u).sum(..) / (v * v).sum(..);
                (u / (u * u).sum(..).sqrt(), f, (f - e).abs(), n + 1)
            },
        );
        outputs! { e, v, n }
    }),
    &program(&["bisection"], ["low", "high", "a"], |[low, high, a]| {
        let next = |(l, h, n): (Value, Value, Value)| {
            let m = 0.5 * (l + h);
            let up = (m * m * m).gt(a);
            (select(up, l, m), select(up, m, h), n + 1)
        };
        let (l, h, n) = while_loop((low, high, zero()), |(l, h, _)| (h - l).gt(0.01), next);
        outputs! { m: 0.5 * (l + h), n }
    }),
    // Only the condition reads the captured limit.
    &program(&["captured_condition"], ["x0", "growth", "limit"], |[x0, growth, limit]| {
        let (x, n) = while_loop((x0, zero()), |(x, _)| x.lt(limit), |(x, n)| (x * growth + 0.1, n + 1));
        outputs! { x, n }
    }),
    &program(&["integrate_to_a_time"], ["y0", "k"], |[y0, k]| {
        let start = (y0, y0.index(0, 0).zeros_like(), zero());
        let (y, t, n) = while_loop(start, |(_, t, _)| t.lt(0.85), |(y, t, n)| (y - 0.1 * k * y * y, t + 0.1, n + 1));
        outputs! { y, t, n }
    }),
    // The state consists of a float vector, an integer and a boolean.
    &program(&["while_mixed_state"], ["x0"], |[x0]| {
        let next = |(x, n, _): (Value, Value, Value)| {
            let x = 1.5 * x;
            (x, n + 1, x.abs().max(..).gt(20.0))
        };
        let (x, n, done) = while_loop((x0, zero(), constant(false)), |(_, n, done)| n.lt(10) & !done, next);
        outputs! { x, n, done }
    }),
    &program(&["fibonacci_below"], ["limit"], |[limit]| {
        let next = |(a, b, n): (Value, Value, Value)| (b, a + b, n + 1);
        let (a, _, n) = while_loop((zero(), zero() + 1, zero()), |(_, b, _)| b.lt(limit), next);
        outputs! { a, n }
    }),
    &program(&["fori_rising_factorial"], ["x"], |[x]| {
        outputs! { p: fori_loop(1, 6, x.ones_like(), |i, p| p * (x + i.cast(x.dtype()))) }
    }),
    // Both bounds of the range are inputs.
    &program(&["fori_input_bounds"], ["x", "low", "high"], |[x, low, high]| {
        outputs! { s: fori_loop(low, high, x, |i, s| s.sin() * i.cast(x.dtype()) + x) }
    }),
    &program(&["fori_zero_trips"], ["x", "w"], |[x, w]| outputs! { s: fori_loop(3, 3, x, |_, s| s * w) }),
    // Each step writes a row into a carried buffer.
    &program(&["fori_fill_buffer"], ["start", "a"], |[start, a]| {
        let zero = start.zeros_like();
        let buffer = fori_loop(1, 6, stack(&[start, zero, zero, zero, zero, zero], 0), |i, b| {
            let row = b.take(0, i - 1).sin() * a + b.index(0, 0);
            b.dynamic_update(0, row.unsqueeze(0), i)
        });
        outputs! { buffer }
    }),
    // The batch becomes one loop, which runs until all lanes are finished and keeps the results of finished lanes.
    &program(&["vmap_while"], ["a"], |[a]| {
        let (x, n) = vmap(a, newton);
        outputs! { x, n }
    }),
    &program(&["linear_search"], ["data", "target"], |[data, target]| {
        let goes_on = |i: Value| i.lt(6) & data.take(0, i.minimum(5)).ne(target);
        outputs! { position: while_loop(zero(), goes_on, |i| i + 1) }
    }),
    &program(&["while_scan_growth", "while_scan_growth_f64"], ["x0", "w"], |[x0, w]| {
        let (last, trace) = scan_until_with(at_most(20), x0, (), |x, ()| {
            let x = w * x + 0.1;
            (x, x, x.sum(..).gt(30.0))
        });
        outputs! { trace, last }
    }),
    &program(&["while_scan_stops_at_once"], ["x0", "w"], |[x0, w]| {
        let (_, trace) = scan_until_with(at_most(10), x0, (), |x, ()| (w * x, w * x, (w * x).gt(10.0)));
        outputs! { trace }
    }),
    &program(&["while_scan_never_stops"], ["x0", "w"], |[x0, w]| {
        let (_, trace) = scan_until_with(at_most(6), x0, (), |x, ()| {
            let x = (w + x).tanh();
            (x, x, x.square().sum(..).gt(10.0))
        });
        outputs! { trace }
    }),
    &program(
        &["while_scan_over_sequence", "while_scan_over_sequence_f64"],
        ["init", "xs", "w", "b"],
        |[init, xs, w, b]| {
            let start = (init, b.index(0, 0).zeros_like());
            let ((_, total), trace) = scan_until(start, xs, |(c, s): (Value, Value), x| {
                let (c, s) = ((c.matmul(w) + x).tanh() + b, s + x.sum(..));
                ((c, s), c, s.gt(4.0))
            });
            outputs! { trace, total }
        },
    ),
    &program(&["while_scan_stop_on_data"], ["xs", "init"], |[xs, init]| {
        let (_, trace) = scan_until(init, xs, |c, x| (c * x + 1.0, c * x + 1.0, x.lt(0.0)));
        outputs! { trace }
    }),
    &program(&["while_scan_mit_sot"], ["start", "r"], |[start, r]| {
        let mut loop_ = Recurrence::new();
        let state = loop_.mit_sot(start, [-2, -1]);
        let done = loop_.steps(15).run(|step| {
            let [older, old] = step.read(&state);
            let x = old + r * older;
            step.write(&state, x);
            step.until(x.gt(20.0));
            x * older
        });
        outputs! { x: done.trace(&state), y: done.ys }
    }),
    // The ys are floats, integers and booleans. The sum over one of the ys covers only the steps that ran.
    &program(&["while_scan_several_outputs"], ["x0", "w"], |[x0, w]| {
        let (_, (xs, squares, counts, even)) = scan_until_with(at_most(25), (x0, zero()), (), |(x, n), ()| {
            let (x, n): (Value, Value) = (w * x, n + 1);
            ((x, n), (x, x.square(), n, (n % 2).lt(1)), x.gt(6.0))
        });
        outputs! { squares, counts, even, total: xs.sum(0) }
    }),
    &program(&["while_scan_last_only"], ["x0", "w"], |[x0, w]| {
        let (_, trace) = scan_until_with(at_most(30), x0, (), |x, ()| {
            let x = w * x + 0.2 * x.sin();
            (x, x, x.sum(..).gt(9.0))
        });
        outputs! { last: trace.index(0, -1) }
    }),
];

/// Returns the integer 0, the initial value of step counters.
fn zero() -> Value {
    constant(0i64)
}

/// Computes a square root with Newton's method. Returns the root and the number of steps.
pub(super) fn newton(a: Value) -> (Value, Value) {
    while_loop((a, zero()), |(x, _)| (x * x - a).abs().gt(0.01), |(x, n)| (0.5 * (x + a / x), n + 1))
}

/// Returns the next number of the Collatz sequence.
pub(super) fn collatz_step(n: Value) -> Value {
    select((n % 2).gt(0), 3 * n + 1, n / 2)
}

fn gcd([a, b]: [Value; 2]) -> Outputs {
    let (gcd, _, n) = while_loop((a, b, zero()), |(_, b, _)| b.gt(0), |(a, b, n)| (b, a % b, n + 1));
    outputs! { gcd, n }
}

fn at_most(steps: i64) -> ScanOptions {
    ScanOptions::new().length(steps)
}
