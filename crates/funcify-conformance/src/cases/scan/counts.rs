//! The number of steps: given without sequences, zero, one, many; the index of a step.

use funcify::{DType, ScanOptions, iota, scan, scan_with};

use super::traced;
use crate::cases::{Programs, outputs};

pub(super) const PROGRAMS: Programs = &[
    (&["reverse_step_index"], |g| {
        let [init, xs] = g.get(["init", "xs"]);
        let (carry, ys) = scan_with(ScanOptions::new().reverse(), init, (iota(5, DType::I64), xs), |c, (t, x)| {
            traced(0.5 * c + (t + 1).cast(x.dtype()) * x)
        });
        outputs! { carry, ys }
    }),
    (&["geometric_no_xs"], |g| {
        let [init, a] = g.get(["init", "a"]);
        let (carry, ys) = scan_with(ScanOptions::new().length(7), init, (), |c, ()| traced(a * c + 1.0));
        outputs! { carry, ys }
    }),
    (&["step_index"], |g| {
        let [init, xs] = g.get(["init", "xs"]);
        let (carry, ys) = scan(init, (iota(6, DType::I64), xs), |c, (t, x)| {
            let c = c + (t + 1).cast(x.dtype()) * x;
            (c, t.cast(x.dtype()) * c)
        });
        outputs! { carry, ys }
    }),
    (&["step_index_no_xs"], |g| {
        let [init, a] = g.get(["init", "a"]);
        let (carry, ys) = scan(init, iota(6, DType::I64), |c, t| {
            let t = t.cast(a.dtype());
            (c + (-a * t).exp(), c * t)
        });
        outputs! { carry, ys }
    }),
    (&["zero_steps"], |g| {
        let [init, xs, w] = g.get(["init", "xs", "w"]);
        let (carry, ys) = scan(init, xs, |c, x| traced(w * c + x));
        outputs! { carry, ys }
    }),
    (&["zero_steps_no_xs"], |g| {
        let [init, w] = g.get(["init", "w"]);
        let (carry, ys) = scan_with(ScanOptions::new().length(0), init, (), |c, ()| traced(c.matmul(w).tanh()));
        outputs! { carry, ys }
    }),
    (&["one_step"], |g| {
        let [init, xs, w] = g.get(["init", "xs", "w"]);
        let (carry, ys) = scan(init, xs, |c, x| {
            let new = (c.matmul(w) + x).tanh();
            (new, new * c)
        });
        outputs! { carry, ys }
    }),
    (&["one_step_no_xs"], |g| {
        let [init] = g.get(["init"]);
        let (carry, ys) = scan_with(ScanOptions::new().length(1), init, (), |c, ()| (c.sin(), c.cos()));
        outputs! { carry, ys }
    }),
    (&["elementwise_300"], |g| {
        let [init, xs, a] = g.get(["init", "xs", "a"]);
        let (carry, ys) = scan(init, xs, |c, x| traced((a * c + x).tanh()));
        outputs! { carry, ys }
    }),
    (&["scalar_2000", "scalar_2000_f64"], |g| {
        let [init, xs, a, b] = g.get(["init", "xs", "a", "b"]);
        let (carry, ys) = scan(init, xs, |c, x| traced(a * c + b * c.sin() + 0.1 * x));
        outputs! { carry, mean: ys.mean(0) }
    }),
];
