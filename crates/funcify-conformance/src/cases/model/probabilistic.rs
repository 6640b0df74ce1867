//! Filters, hidden Markov models and likelihoods.

use std::f64::consts::TAU;

use funcify::{DType, Recurrence, ScanOptions, concat, iota, scan, scan_with};

use crate::cases::{Programs, carry_as_output, outputs, program};

pub(super) const PROGRAMS: Programs = &[
    // A Kalman filter with scalar observations, and its log-likelihood.
    &program(
        &["kalman_filter", "kalman_filter_f64"],
        ["f", "h", "q", "r", "m0", "p0", "ys"],
        |[f, h, q, r, m0, p0, ys]| {
            let places = iota(2, DType::I64);
            let eye = places.unsqueeze(1).eq(places).cast(f.dtype());
            let ((_, cov, loglik), means) = scan((m0, p0, r.zeros_like()), ys, |(m, p, ll), y| {
                let (m, p) = (f.matmul(m), f.matmul(p).matmul(f.t()) + eye * q);
                let e = y - h.matmul(m);
                let ph = p.matmul(h);
                let s = h.matmul(ph) + r;
                let k = ph / s;
                let (m, p) = (m + k * e, p - k.unsqueeze(1) * h.matmul(p));
                ((m, p, ll - 0.5 * ((TAU * s).log() + e.square() / s)), m)
            });
            outputs! { means, cov, loglik }
        },
    ),
    // The forward algorithm for hidden Markov models, in log space.
    &program(&["hmm_forward", "hmm_forward_f64"], ["log_pi", "log_a", "log_b"], |[log_pi, log_a, log_b]| {
        let (last, alphas) = scan(log_pi + log_b.index(0, 0), log_b.slice(0, 1..6), |alpha, b| {
            carry_as_output((alpha.unsqueeze(1) + log_a).logsumexp(0) + b)
        });
        outputs! { loglik: last.logsumexp(0), alphas }
    }),
    // The Viterbi algorithm: a forward scan finds the best predecessor of each state, and a reverse scan follows the
    // predecessors back.
    &program(&["viterbi"], ["log_pi", "log_a", "log_b"], |[log_pi, log_a, log_b]| {
        let (d, back) = scan(log_pi + log_b.index(0, 0), log_b.slice(0, 1..6), |d, b| {
            let s = d.unsqueeze(1) + log_a;
            (s.max(0) + b, s.argmax(0))
        });
        let last = d.argmax(0);
        let (_, path) =
            scan_with(ScanOptions::new().reverse(), last, back, |state, best| carry_as_output(best.take(0, state)));
        outputs! { score: d.max(0), path: concat(&[path, last.unsqueeze(0)], 0) }
    }),
    // GARCH(1, 1): computes variances and a log-likelihood from a sequence with taps -1 and 0.
    &program(&["garch"], ["returns", "omega", "alpha", "beta", "v0"], |[returns, omega, alpha, beta, v0]| {
        let mut model = Recurrence::new();
        let x = model.sequence(returns, [-1, 0]);
        let v = model.sit_sot(v0);
        let done = model.run(|step| {
            let ([before, now], [old]) = (step.read(&x), step.read(&v));
            let new = omega + alpha * before.square() + beta * old;
            step.write(&v, new);
            -0.5 * (new.log() + now.square() / new)
        });
        outputs! { variances: done.trace(&v), loglik: done.ys.sum(..) }
    }),
];
