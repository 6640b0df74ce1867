//! State space models and linear attention.

use funcify::{Value, associative_scan, concat, full, scan};

use crate::cases::associative::affine;
use crate::cases::{Programs, carry_as_output, outputs, program};

pub(super) const PROGRAMS: Programs = &[
    // A diagonal state space layer.
    &program(&["s5_sequential", "s5_sequential_f64"], ["u", "a", "b", "c", "d"], |[u, a, b, c, d]| {
        let decay = (-softplus(a)).exp();
        let (last, states) = scan(a.zeros_like(), u.matmul(b), |x, v| carry_as_output(decay * x + v));
        outputs! { y: states.matmul(c) + d * u, last }
    }),
    // A state space layer whose step size, input matrix and output matrix depend on the data.
    &program(
        &["selective_ssm_sequential", "selective_ssm_sequential_f64"],
        ["u", "dt", "a_log", "bs", "cs", "skip"],
        |[u, dt, a_log, bs, cs, skip]| {
            let delta = softplus(dt);
            let decay = (-delta.unsqueeze(2) * a_log.exp()).exp();
            let drive = (delta * u).unsqueeze(2) * bs.unsqueeze(1);
            let (_, y) = scan(a_log.zeros_like(), (decay, drive, cs), |h, (a, b, c)| {
                let h = a * h + b;
                (h, (h * c).sum(1))
            });
            outputs! { y: y + skip * u }
        },
    ),
    // The layer `s5_sequential`, with states computed by an associative scan.
    &program(&["s5_associative", "s5_associative_f64"], ["u", "a", "b", "c", "d"], |[u, a, b, c, d]| {
        let drive = u.matmul(b);
        let decay = (-softplus(a)).exp().broadcast_to(drive.shape());
        let states = associative_scan((decay, drive), affine).1;
        outputs! { y: states.matmul(c) + d * u, last: states.index(0, -1) }
    }),
    // A diagonal state space layer with complex states, stored as real and imaginary parts.
    &program(&["s5_complex"], ["u", "rate", "phase", "br", "bi", "cr", "ci"], |[u, rate, phase, br, bi, cr, ci]| {
        let (r, re, im) = ((-softplus(rate)).exp(), u.matmul(br), u.matmul(bi));
        let [decay_re, decay_im] = [r * phase.cos(), r * phase.sin()].map(|part| part.broadcast_to(re.shape()));
        let product = |(r1, i1): (Value, Value), (r2, i2): (Value, Value)| (r1 * r2 - i1 * i2, r1 * i2 + i1 * r2);
        let elements = ((decay_re, decay_im), (re, im));
        let (_, (re, im)) = associative_scan(elements, |(l1, v1), (l2, v2)| {
            let (re, im) = product(l2, v1);
            (product(l2, l1), (re + v2.0, im + v2.1))
        });
        outputs! { y: 2.0 * (re.matmul(cr) - im.matmul(ci)) }
    }),
    // The layer `selective_ssm_sequential`, with states computed by an associative scan.
    &program(
        &["selective_ssm_associative", "selective_ssm_associative_f64"],
        ["u", "dt", "a_log", "bs", "cs", "skip"],
        |[u, dt, a_log, bs, cs, skip]| {
            let delta = softplus(dt);
            let decay = (-delta.unsqueeze(2) * a_log.exp()).exp();
            let drive = (delta * u).unsqueeze(2) * bs.unsqueeze(1);
            let states = associative_scan((decay, drive), affine).1;
            outputs! { y: (states * cs.unsqueeze(1)).sum(2) + skip * u }
        },
    ),
    // A gated recurrent unit whose gates do not depend on the state.
    &program(&["min_gru"], ["x", "wz", "wh", "h0"], |[x, wz, wh, h0]| {
        let (z, candidate) = (x.matmul(wz).sigmoid(), x.matmul(wh).tanh());
        let (decay, drive) = (1.0 - z, z * candidate);
        let first = decay.index(0, 0) * h0 + drive.index(0, 0);
        let drive = concat(&[first.unsqueeze(0), drive.slice(0, 1..)], 0);
        outputs! { ys: associative_scan((decay, drive), affine).1 }
    }),
    // Linear attention with a matrix state and one gate per row of the state.
    &program(&["gated_linear_attention"], ["q", "k", "v", "g"], |[q, k, v, gate]| {
        let (state, o) = scan(full([3, 2], q.dtype(), 0.0), (q, k, v, gate), |s, (q, k, v, gate)| {
            let s = gate.sigmoid().unsqueeze(1) * s + outer(k, v);
            (s, q.matmul(s))
        });
        outputs! { o, state }
    }),
    // The delta rule: each step updates the matrix state so that the value stored for the step's key moves towards the
    // step's value.
    &program(&["delta_rule"], ["q", "k", "v", "beta"], |[q, k, v, beta]| {
        let (_, o) = scan(full([3, 2], q.dtype(), 0.0), (q, k, v, beta), |s, (q, k, v, b)| {
            let s = s + b.sigmoid() * outer(k, v - k.matmul(s));
            (s, q.matmul(s))
        });
        outputs! { o }
    }),
    // A weighted average of values. A running maximum keeps the exponentials in the numerator and denominator finite.
    &program(&["stable_weighted_average"], ["k", "v", "decay", "bonus"], |[k, v, decay, bonus]| {
        let zero = bonus.zeros_like();
        let (_, y) = scan((zero, zero, bonus.full_like(-100.0)), (k, v), |(a, b, m), (k, v)| {
            let p = m.maximum(bonus + k);
            let (e1, e2) = ((m - p).exp(), (bonus + k - p).exp());
            let y = (e1 * a + e2 * v) / (e1 * b + e2);
            let next = (m - decay).maximum(k);
            let (e1, e2) = ((m - decay - next).exp(), (k - next).exp());
            ((e1 * a + e2 * v, e1 * b + e2, next), y)
        });
        outputs! { y }
    }),
];

/// Computes `log(1 + exp(x))` without overflow.
fn softplus(x: Value) -> Value {
    x.maximum(0.0) + (-x.abs()).exp().log1p()
}

/// Computes the outer product of two vectors.
fn outer(a: Value, b: Value) -> Value {
    a.unsqueeze(1) * b
}
