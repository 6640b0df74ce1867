//! Category `taps`: recurrences with states or sequences that have several taps, and recurrences with several kinds of
//! states.

use super::recurrences::{driven, state, stencil};
use super::*;

pub(super) const PROGRAMS: Programs = &[
    &program(&["fibonacci_int"], ["start"], |[start]| {
        outputs! { trace: state(Recurrence::new().steps(12), start, [-2, -1], |[x2, x1]| x2 + x1) }
    }),
    &program(&["fibonacci_weighted", "fibonacci_weighted_f64"], ["start", "a", "b"], |[start, a, b]| {
        outputs! { trace: state(Recurrence::new().steps(8), start, [-2, -1], |[x2, x1]| a * x2 + b * x1) }
    }),
    &program(&["ar3"], ["start", "phi", "noise"], |[start, phi, noise]| {
        let trace = driven(&mut Recurrence::new(), noise, start, [-1, -2, -3], |e, [x1, x2, x3]| {
            let [phi1, phi2, phi3] = phi.unstack(0);
            phi1 * x1 + phi2 * x2 + phi3 * x3 + e
        });
        outputs! { trace }
    }),
    &program(&["ar_5_3_1", "ar_5_3_1_f64"], ["start", "phi", "noise"], |[start, phi, noise]| {
        let trace = driven(&mut Recurrence::new(), noise, start, [-5, -3, -1], |e, [x5, x3, x1]| {
            let [phi5, phi3, phi1] = phi.unstack(0);
            phi5 * x5 + phi3 * x3 + phi1 * x1 + e
        });
        outputs! { trace }
    }),
    &program(&["var2"], ["start", "a", "b", "noise"], |[start, a, b, noise]| {
        let trace = driven(&mut Recurrence::new(), noise, start, [-2, -1], |e, [x2, x1]| {
            (x1.matmul(a) + x2.matmul(b)).tanh() + e
        });
        outputs! { trace }
    }),
    // The only tap is -2, so even and odd rows form two independent recurrences.
    &program(&["lag2_only"], ["start"], |[start]| {
        outputs! { trace: state(Recurrence::new().steps(5), start, [-2], |[x2]| x2.sin() + 0.1) }
    }),
    &program(&["lag3_scalar"], ["start", "u"], |[start, u]| {
        outputs! { trace: driven(&mut Recurrence::new(), u, start, [-3], |u, [x3]| 0.5 * x3 * u + u) }
    }),
    &program(&["stencil"], ["x", "w"], |[x, w]| {
        let y = stencil(&mut Recurrence::new(), x, [-1, 0, 1], |[left, here, right]| {
            let [w0, w1, w2] = w.unstack(0);
            w0 * left + w1 * here + w2 * right.square()
        });
        outputs! { y }
    }),
    &program(&["sequence_taps_0_2"], ["x"], |[x]| {
        outputs! { y: stencil(&mut Recurrence::new(), x, [0, 2], |[here, ahead]| here * ahead.sin()) }
    }),
    // The loop reads only tap -2, but has as many steps as a loop that also reads tap 0.
    &program(&["sequence_tap_minus_2"], ["x", "init"], |[x, init]| {
        let mut loop_ = Recurrence::new();
        let x = loop_.sequence(x, [-2]);
        let c = loop_.sit_sot(init);
        let done = loop_.run(|step| {
            let ([x2], [c1]) = (step.read(&x), step.read(&c));
            step.write(&c, c1 * x2 + 1.0);
        });
        outputs! { trace: done.trace(&c) }
    }),
    // The sequence that allows fewer steps determines the trip count.
    &program(&["two_tapped_sequences"], ["u", "v"], |[u, v]| {
        let mut loop_ = Recurrence::new();
        let u = loop_.sequence(u, [-1, 0]);
        let v = loop_.sequence(v, [0, 1, 3]);
        let done = loop_.run(|step| {
            let ([u1, u0], [v0, v1, v3]) = (step.read(&u), step.read(&v));
            u1 * v0 + u0 * v1 - v3.square()
        });
        outputs! { y: done.ys }
    }),
    &program(&["arx"], ["init", "u", "a", "b"], |[init, u, a, b]| {
        let mut loop_ = Recurrence::new();
        let u = loop_.sequence(u, [-1, 1]);
        let x = loop_.sit_sot(init);
        let done = loop_.run(|step| {
            let ([before, after], [x1]) = (step.read(&u), step.read(&x));
            let [b0, b1] = b.unstack(0);
            step.write(&x, (a * x1 + b0 * before + b1 * after).tanh());
        });
        outputs! { trace: done.trace(&x) }
    }),
    &program(&["nit_sot_only"], ["x", "y", "w"], |[x, y, w]| {
        let mut loop_ = Recurrence::new();
        let (x, y) = (loop_.sequence(x, [0]), loop_.sequence(y, [0]));
        let done = loop_.run(|step| {
            let ([x], [y]) = (step.read(&x), step.read(&y));
            ((w * x * y).sum(..), x.exp() - y)
        });
        let (p, q) = done.ys;
        outputs! { p, q }
    }),
    // The loop has sequences with and without taps, a sit-sot, a mit-sot, an integer sit-sot, two nit-sots, and a
    // captured matrix.
    &program(&["all_kinds", "all_kinds_f64"], ["s0", "m0", "u", "v", "w", "k0"], |[s0, m0, u, v, w, k0]| {
        let mut loop_ = Recurrence::new();
        let u = loop_.sequence(u, [-1, 0, 1]);
        let v = loop_.sequence(v, [0]);
        let s = loop_.sit_sot(s0);
        let m = loop_.mit_sot(m0, [-3, -1]);
        let k = loop_.sit_sot(k0);
        let done = loop_.run(|step| {
            let ([um, uc, up], [v]) = (step.read(&u), step.read(&v));
            let ([s1], [m3, m1], [k1]) = (step.read(&s), step.read(&m), step.read(&k));
            let new = (s1.matmul(w) + um).tanh();
            step.write(&s, new);
            step.write(&m, 0.3 * m3 + 0.4 * m1 * uc + v);
            step.write(&k, (3 * k1 + 1) % 7);
            ((new * up).sum(..), m1 * k1.cast(m1.dtype()))
        });
        let (a, b) = done.ys;
        outputs! { s: done.trace(&s), m: done.trace(&m), k: done.trace(&k), a, b }
    }),
    &program(&["mit_sot_last_only"], ["start", "u"], |[start, u]| {
        let last = driven(&mut Recurrence::new(), u, start, [-2, -1], |u, [x2, x1]| x1.sin() * x2 + u).index(0, -1);
        outputs! { last }
    }),
    &program(&["mit_sot_backwards"], ["start", "u"], |[start, u]| {
        let trace =
            driven(Recurrence::new().backwards(), u, start, [-2, -1], |u, [x2, x1]| 0.5 * x2 - 0.3 * x1.square() + u);
        outputs! { trace }
    }),
    &program(&["sequence_taps_backwards"], ["x", "init"], |[x, init]| {
        let mut loop_ = Recurrence::new();
        let x = loop_.sequence(x, [-1, 1]);
        let c = loop_.sit_sot(init);
        let done = loop_.backwards().run(|step| {
            let ([before, after], [c1]) = (step.read(&x), step.read(&c));
            step.write(&c, 0.5 * c1 + before * after);
        });
        outputs! { trace: done.trace(&c) }
    }),
    // The Störmer-Verlet method for oscillators.
    &program(&["verlet"], ["q", "k"], |[q, k]| {
        let trace = state(Recurrence::new().steps(10), q, [-2, -1], |[x2, x1]| 2.0 * x1 - x2 - 0.04 * k * x1.sin());
        outputs! { trace }
    }),
    &program(&["delayed_logistic"], ["start", "r"], |[start, r]| {
        outputs! { trace: state(Recurrence::new().steps(6), start, [-2, -1], |[x2, x1]| r * x1 * (1.0 - x2)) }
    }),
    &program(&["mit_sot_one_step"], ["start", "a"], |[start, a]| {
        outputs! { trace: state(Recurrence::new().steps(1), start, [-3, -1], |[x3, x1]| a * x3 * x1) }
    }),
    &program(&["mit_sot_zero_steps"], ["start", "u"], |[start, u]| {
        outputs! { trace: driven(&mut Recurrence::new(), u, start, [-2, -1], |u, [x2, x1]| x1 * x2 + u) }
    }),
    &program(&["fewer_steps_than_taps"], ["start"], |[start]| {
        outputs! { trace: state(Recurrence::new().steps(2), start, [-4, -1], |[x4, x1]| x4 * x1) }
    }),
    // Each mit-sot's update reads the other mit-sot.
    &program(&["coupled_mit_sots"], ["x0", "y0", "u"], |[x0, y0, u]| {
        let mut loop_ = Recurrence::new();
        let u = loop_.sequence(u, [0]);
        let x = loop_.mit_sot(x0, [-2, -1]);
        let y = loop_.mit_sot(y0, [-3, -1]);
        let done = loop_.run(|step| {
            let ([u], [x2, x1], [y3, y1]) = (step.read(&u), step.read(&x), step.read(&y));
            let new = (x1 - y3).tanh() + u;
            step.write(&x, new);
            step.write(&y, 0.5 * y1 + x2 * new);
        });
        outputs! { x: done.trace(&x), y: done.trace(&y) }
    }),
    &program(&["biquad", "biquad_f64"], ["u", "y0", "b", "a"], |[u, y0, b, a]| {
        let mut loop_ = Recurrence::new();
        let u = loop_.sequence(u, [-2, -1, 0]);
        let y = loop_.mit_sot(y0, [-2, -1]);
        let done = loop_.run(|step| {
            let ([u2, u1, u0], [y2, y1]) = (step.read(&u), step.read(&y));
            let ([b0, b1, b2], [a1, a2]) = (b.unstack(0), a.unstack(0));
            step.write(&y, b0 * u0 + b1 * u1 + b2 * u2 - a1 * y1 - a2 * y2);
        });
        outputs! { y: done.trace(&y) }
    }),
    // The loop carries the state of a random number generator, and returns only the last state of the generator.
    &program(&["untraced_generator"], ["seed0", "init", "xs"], |[seed0, init, xs]| {
        let mut loop_ = Recurrence::new();
        let xs = loop_.sequence(xs, [0]);
        let c = loop_.sit_sot(init);
        let seed = loop_.carry(seed0);
        let done = loop_.run(|step| {
            let ([x], [c1], old) = (step.read(&xs), step.read(&c), step.read(&seed));
            let new = (old * 1103 + 12345) % 65536;
            let u = new.cast(x.dtype()) / 65536.0;
            step.write(&seed, new);
            step.write(&c, u * c1 + (1.0 - u) * x);
        });
        outputs! { state: done.last(&seed), trace: done.trace(&c) }
    }),
    &program(&["declared_but_unread_tap"], ["start", "u"], |[start, u]| {
        outputs! { trace: driven(&mut Recurrence::new(), u, start, [-2, -1], |u, [_, x1]| (x1 + u).sin()) }
    }),
    // Additive exponential smoothing with a seasonal component of period 4.
    &program(
        &["seasonal_smoothing"],
        ["level0", "season0", "x", "alpha", "gamma"],
        |[level0, season0, xs, alpha, gamma]| {
            let mut loop_ = Recurrence::new();
            let x = loop_.sequence(xs, [0]);
            let level = loop_.sit_sot(level0);
            let season = loop_.mit_sot(season0, [-4]);
            let done = loop_.run(|step| {
                let ([x], [l1], [s4]) = (step.read(&x), step.read(&level), step.read(&season));
                let new = alpha * (x - s4) + (1.0 - alpha) * l1;
                step.write(&level, new);
                step.write(&season, gamma * (x - new) + (1.0 - gamma) * s4);
                l1 + s4
            });
            let forecast = done.ys;
            let sse = (xs - forecast).square().sum(0);
            outputs! { level: done.trace(&level), season: done.trace(&season), forecast, sse }
        },
    ),
    &program(&["second_state_uses_new_first"], ["init", "u"], |[init, u]| {
        let mut loop_ = Recurrence::new();
        let u = loop_.sequence(u, [0]);
        let (a, b) = (loop_.sit_sot(init), loop_.sit_sot(init));
        let done = loop_.run(|step| {
            let ([u], [a1], [b1]) = (step.read(&u), step.read(&a), step.read(&b));
            let new = (a1 + u).tanh();
            step.write(&a, new);
            step.write(&b, b1 * new + a1);
        });
        outputs! { a: done.trace(&a), b: done.trace(&b) }
    }),
    // The initial rows of one state are computed from the initial rows of the other state.
    &program(&["overlapping_initial_rows"], ["start", "u"], |[start, u]| {
        let mut loop_ = Recurrence::new();
        let u = loop_.sequence(u, [0]);
        let x = loop_.mit_sot(start, [-2, -1]);
        let y = loop_.mit_sot(start * start.index(0, 0), [-2, -1]);
        let done = loop_.run(|step| {
            let ([u], [_, x1], [y2, _]) = (step.read(&u), step.read(&x), step.read(&y));
            step.write(&x, x1 * 0.5 + u);
            step.write(&y, y2.sin() + x1);
        });
        outputs! { x: done.trace(&x), y: done.trace(&y) }
    }),
    // The batch axis is axis 0 of the initial rows and of the sequence.
    &program(&["vmap_mit_sot"], ["start", "u", "a"], |[start, u, a]| {
        let trace = vmap((start, u), |(start, u)| {
            driven(&mut Recurrence::new(), u, start, [-2, -1], |u, [x2, x1]| (a * x1).tanh() - x2 * u)
        });
        outputs! { trace }
    }),
];
