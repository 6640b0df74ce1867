//! Layers and losses that a loop computes in chunks or row by row.

use funcify::{HostTensor, Recurrence, constant, full, scan};

use crate::cases::recurrences::stencil;
use crate::cases::{Programs, outputs, program};

pub(super) const PROGRAMS: Programs = &[
    // Cross entropy computed in chunks of rows.
    &program(
        &["chunked_cross_entropy", "chunked_cross_entropy_f64"],
        ["x", "w", "b", "target"],
        |[x, w, b, target]| {
            let zero = constant(HostTensor::scalar(0.0).cast(x.dtype()));
            let (acc, ()) = scan(zero, (x.reshape([4, 2, 3]), target.reshape([4, 2])), |acc, (x, t)| {
                let z = x.matmul(w.t()) + b;
                let nll = z.logsumexp(1) - z.gather(1, t.unsqueeze(1)).squeeze(1);
                (acc + nll.mean(0), ())
            });
            outputs! { loss: acc / 4.0 }
        },
    ),
    // A causal convolution of width 3: a loop without state reads the sequence with the taps -2, -1 and 0.
    &program(&["causal_convolution"], ["x", "w", "b"], |[x, w, b]| {
        let (y, gated) = stencil(&mut Recurrence::new(), x, [-2, -1, 0], |[x2, x1, x0]| {
            let y = x2.matmul(w.index(0, 0)) + x1.matmul(w.index(0, 1)) + x0.matmul(w.index(0, 2)) + b;
            (y, y * y.sigmoid())
        });
        outputs! { y, g: gated }
    }),
    // Attention computed in chunks of keys, with a running maximum.
    &program(&["chunked_attention"], ["q", "k", "v"], |[q, k, v]| {
        let start = (full([4], q.dtype(), -1000.0), full([4], q.dtype(), 0.0), full([4, 3], q.dtype(), 0.0));
        let ((_, s, a), ()) = scan(start, (k.reshape([3, 2, 2]), v.reshape([3, 2, 3])), |(m, s, a), (k, v)| {
            let z = q.matmul(k.t());
            let next = m.maximum(z.max(1)).stop_gradient();
            let (e, scale) = ((z - next.unsqueeze(1)).exp(), (m - next).exp());
            ((next, s * scale + e.sum(1), a * scale.unsqueeze(1) + e.matmul(v)), ())
        });
        outputs! { y: a / s.unsqueeze(1) }
    }),
];
