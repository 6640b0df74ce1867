//! Differential equations, iterative solvers and dynamic programming.

use funcify::{DType, HostTensor, ScanOptions, Value, constant, full, iota, scan, scan_with, stack};

use crate::cases::{Programs, carry_as_output, outputs, program};

pub(super) const PROGRAMS: Programs = &[
    // The fourth-order Runge-Kutta method for the Lotka-Volterra equations.
    &program(&["rk4_lotka_volterra", "rk4_lotka_volterra_f64"], ["y0", "theta"], |[y0, theta]| {
        let [growth, eaten, fed, death] = [0, 1, 2, 3].map(|at| theta.index(0, at));
        let rate = |y: Value| {
            let (u, v) = (y.index(0, 0), y.index(0, 1));
            stack(&[growth * u - eaten * u * v, fed * u * v - death * v], 0)
        };
        let (_, trajectory) = scan_with(times(10), y0, (), |y, ()| {
            let k1 = rate(y);
            let k2 = rate(y + 0.05 * k1);
            let k3 = rate(y + 0.05 * k2);
            let k4 = rate(y + 0.1 * k3);
            let y = y + (0.1 / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4);
            (y, y)
        });
        outputs! { trajectory }
    }),
    // The SIR model of an epidemic (susceptible, infected, recovered), integrated with the explicit Euler method.
    &program(&["sir_epidemic"], ["s0", "beta", "gamma"], |[s0, beta, gamma]| {
        let (last, infected) = scan_with(times(20), s0, (), |y, ()| {
            let [s, i, r] = [0, 1, 2].map(|at| y.index(0, at));
            let (new, out) = (beta * s * i, gamma * i);
            let i = i + new - out;
            (stack(&[s - new, i, r + out], 0), i)
        });
        outputs! { final: last, infected }
    }),
    // Sinkhorn's algorithm in log space, for optimal transport with entropic regularisation between uniform marginals.
    &program(&["sinkhorn"], ["cost"], |[cost]| {
        let log3 = 3f64.ln();
        let zero = full([3], cost.dtype(), 0.0);
        let ((f, g), ()) = scan((zero, zero), iota(5, DType::I64), |(_, g), _| {
            let f = -0.5 * (((g - cost) / 0.5).logsumexp(1) + log3);
            let g = -0.5 * (((f.unsqueeze(1) - cost) / 0.5).logsumexp(0) + log3);
            ((f, g), ())
        });
        let plan = ((f.unsqueeze(1) + g - cost) / 0.5).exp();
        outputs! { plan, value: (plan * cost).sum(..) }
    }),
    // Solves `a @ x = b` by conjugate gradients.
    &program(&["conjugate_gradient"], ["a", "b"], |[a, b]| {
        let ((x, _, _), residuals) = scan_with(times(2), (b.zeros_like(), b, b), (), |(x, r, p), ()| {
            let ap = a.matmul(p);
            let rr = r.matmul(r);
            let k = rr / p.matmul(ap);
            let (x, s) = (x + k * p, r - k * ap);
            let ss = s.matmul(s);
            ((x, s, s + ss / rr * p), ss)
        });
        outputs! { x, residuals }
    }),
    // The backward Riccati recursion of a linear quadratic regulator.
    &program(&["riccati"], ["a", "b", "q", "r"], |[a, b, q, r]| {
        let (p, gains) = scan_with(times(5), q, (), |p, ()| {
            let v = p.matmul(b);
            let s = r + b.matmul(v);
            let k = v.matmul(a) / s;
            (q + a.t().matmul(p).matmul(a) - a.t().matmul(v).unsqueeze(1) * k, k)
        });
        outputs! { gains, p }
    }),
    // Value iteration for a Markov decision process.
    &program(&["value_iteration"], ["rewards", "logits"], |[rewards, logits]| {
        let p = logits.softmax(-1);
        let (v, trace) = scan_with(times(6), full([3], rewards.dtype(), 0.0), (), |v, ()| {
            carry_as_output((rewards + 0.9 * p.matmul(v)).max(1))
        });
        outputs! { v, trace }
    }),
    // Generalized advantage estimation: a reverse scan that resets at the end of each episode.
    &program(&["advantage_estimation"], ["rewards", "values", "done"], |[rewards, values, done]| {
        let (now, next) = (values.slice(0, ..6), values.slice(0, 1..7));
        let zero = constant(HostTensor::scalar(0.0).cast(rewards.dtype()));
        let (_, a) = scan_with(ScanOptions::new().reverse(), zero, (rewards, now, next, done), |a, (r, v, n, d)| {
            carry_as_output(r + 0.9 * (1.0 - d) * n - v + 0.9 * 0.8 * (1.0 - d) * a)
        });
        outputs! { advantages: a, targets: a + now }
    }),
];

fn times(length: usize) -> ScanOptions {
    ScanOptions::new().length(length)
}
