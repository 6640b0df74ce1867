//! Cumulative sums, products, maxima and statistics.

use funcify::{DType, ScanOptions, iota, scan, scan_with, stack};

use crate::cases::{Programs, carry_as_output, outputs, program, scan_outputs};

pub(super) const PROGRAMS: Programs = &[
    &program(&["cumsum", "cumsum_f64"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, xs, |c, x| carry_as_output(c + x)))
    }),
    &program(&["cumprod"], ["init", "xs"], |[init, xs]| scan_outputs(scan(init, xs, |c, x| carry_as_output(c * x)))),
    &program(&["cummax"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, xs, |c, x| carry_as_output(c.maximum(x))))
    }),
    &program(&["cumlogsumexp"], ["init", "xs"], |[init, xs]| {
        let (_, ys) = scan(init, xs, |c, x| {
            let m = c.maximum(x).stop_gradient();
            carry_as_output(m + ((c - m).exp() + (x - m).exp()).log())
        });
        outputs! { ys }
    }),
    &program(&["reverse_cumsum"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan_with(ScanOptions::new().reverse(), init, xs, |c, x| carry_as_output(c + x)))
    }),
    // The y of a step is the sum before that step.
    &program(&["exclusive_cumsum"], ["init", "xs"], |[init, xs]| {
        let (_, ys) = scan(init, xs, |c, x| (c + x, c));
        outputs! { ys }
    }),
    // Evaluates a polynomial, starting with the highest coefficient.
    &program(&["horner", "horner_f64"], ["x", "coefficients"], |[x, coefficients]| {
        let (p, ()) = scan_with(ScanOptions::new().reverse(), x.zeros_like(), coefficients, |p, a| (p * x + a, ()));
        outputs! { p }
    }),
    // Computes a mean and a variance in a single pass (Welford's algorithm).
    &program(&["welford"], ["xs"], |[xs]| {
        let zero = xs.index(0, 0).zeros_like();
        let ((mean, m2), means) = scan((zero, zero), (iota(7, DType::I64), xs), |(mean, m2), (t, x)| {
            let d = x - mean;
            let new = mean + d / (t + 1).cast(x.dtype());
            ((new, m2 + d * (x - new)), new)
        });
        outputs! { mean, variance: m2 / 7.0, means }
    }),
    // Computes a softmax-weighted sum in a single pass. The carry consists of the maximum, the normalizer and the
    // sum.
    &program(&["online_softmax", "online_softmax_f64"], ["scores", "values"], |[scores, values]| {
        let score = scores.index(0, 0);
        let start = (score, score.ones_like(), values.index(0, 0));
        let ((m, s, a), ()) = scan(start, (scores.slice(0, 1..6), values.slice(0, 1..6)), |(m, s, a), (score, v)| {
            let new = m.maximum(score);
            let (old, now) = ((m - new).exp(), (score - new).exp());
            ((new, s * old + now, a * old + v * now), ())
        });
        outputs! { result: a / s, log_z: m + s.log() }
    }),
    &program(&["continued_fraction"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, xs, |c, x| carry_as_output(x + 1.0 / c)))
    }),
    // Multiplies a vector by 400 small matrices in log space.
    &program(&["log_space_400", "log_space_400_f64"], ["logits"], |[logits]| {
        let start = logits.index(0, 0).zeros_like() - std::f64::consts::LN_2;
        let (last, ()) = scan(start, logits, |c, x| {
            let [c0, c1] = c.unstack(0);
            let m = c0.maximum(c1).stop_gradient();
            let [e0, e1] = (c - m).exp().unstack(0);
            let mixed = stack(&[0.75 * e0 + 0.25 * e1, 0.25 * e0 + 0.75 * e1], 0);
            (m + mixed.log() + x - 1.0, ())
        });
        outputs! { final: last }
    }),
];
