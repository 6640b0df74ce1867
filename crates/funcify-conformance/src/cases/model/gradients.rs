//! Programs that compute gradients: optimizers, a Hamiltonian system, and a loss whose forward loop also computes its
//! gradients.

use funcify::{ScanOptions, Value, grad, scan, scan_with, value_and_grad};

use crate::cases::{Programs, outputs, program};

pub(super) const PROGRAMS: Programs = &[
    // Cross entropy in chunks. The forward loop also computes the gradients of each chunk.
    &program(&["chunked_cross_entropy_gradients"], ["x", "w", "b", "target"], |[x, w, b, target]| {
        let start = (w.zeros_like(), b.zeros_like(), b.index(0, 0).zeros_like());
        let chunks = (x.reshape([4, 2, 3]), target.reshape([4, 2]));
        let ((gw, gb, acc), gx) = scan(start, chunks, |(gw, gb, acc), (x, t)| {
            let (loss, (dx, dw, db)) = value_and_grad((x, w, b), |(x, w, b)| {
                let z = x.matmul(w.t()) + b;
                (z.logsumexp(1) - z.gather(1, t.unsqueeze(1)).squeeze(1)).sum(0) / 2.0
            });
            ((gw + dw, gb + db, acc + loss), dx)
        });
        outputs! { loss: acc / 4.0, grad_w: gw / 4.0, grad_b: gb / 4.0, grad_x: gx.reshape([8, 3]) / 4.0 }
    }),
    &program(
        &["unrolled_gradient_descent", "unrolled_gradient_descent_f64"],
        ["x", "y", "w0", "lr"],
        |[x, y, w0, lr]| {
            let loss = |w: Value| 0.5 * (x.matmul(w) - y).square().sum(0) / 5.0 + 0.05 * w.square().square().sum(0);
            let (w, losses) = scan_with(ScanOptions::new().length(4), w0, (), |w, ()| {
                let (loss, of_w) = value_and_grad(w, loss);
                (w - lr * of_w, loss)
            });
            outputs! { w, losses }
        },
    ),
    // The Adam optimizer. The loop carries the powers of the decay rates.
    &program(&["unrolled_adam"], ["w0", "target", "lr"], |[w0, target, lr]| {
        let (zero, one) = (w0.zeros_like(), lr.ones_like());
        let options = ScanOptions::new().length(5);
        let ((w, ..), ws) = scan_with(options, (w0, zero, zero, one, one), (), |(w, m, v, p1, p2), ()| {
            let of_w = grad(w, |w| (w - target).cosh().sum(0));
            let (m, v) = (0.9 * m + 0.1 * of_w, 0.99 * v + 0.01 * of_w.square());
            let (p1, p2) = (0.9 * p1, 0.99 * p2);
            let w = w - lr * (m / (1.0 - p1)) / ((v / (1.0 - p2)).sqrt() + 1e-3);
            ((w, m, v, p1, p2), w)
        });
        outputs! { w, ws }
    }),
    // The leapfrog method for a Hamiltonian system. Each step differentiates the potential.
    &program(&["leapfrog"], ["q0", "p0", "a"], |[q0, p0, a]| {
        let potential = |q: Value| 0.5 * (q * a.matmul(q)).sum(0) + 0.1 * q.square().square().sum(0);
        let ((q, p), energy) = scan_with(ScanOptions::new().length(6), (q0, p0), (), |(q, p), ()| {
            let p = p - 0.1 * grad(q, potential);
            let q = q + 0.2 * p;
            let (value, of_q) = value_and_grad(q, potential);
            let p = p - 0.1 * of_q;
            ((q, p), 0.5 * (p * p).sum(0) + value)
        });
        outputs! { q, p, energy }
    }),
];
