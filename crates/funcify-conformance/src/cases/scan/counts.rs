//! The number of steps: given without sequences, zero, one, many; the index of a step.

use funcify::{DType, ScanOptions, iota, scan, scan_with};

use crate::cases::{Programs, outputs, program, traced};

pub(super) const PROGRAMS: Programs = &[
    &program(&["reverse_step_index"], ["init", "xs"], |[init, xs]| {
        let (carry, ys) = scan_with(ScanOptions::new().reverse(), init, (iota(5, DType::I64), xs), |c, (t, x)| {
            traced(0.5 * c + (t + 1).cast(x.dtype()) * x)
        });
        outputs! { carry, ys }
    }),
    &program(&["geometric_no_xs"], ["init", "a"], |[init, a]| {
        let (carry, ys) = scan_with(ScanOptions::new().length(7), init, (), |c, ()| traced(a * c + 1.0));
        outputs! { carry, ys }
    }),
    &program(&["step_index"], ["init", "xs"], |[init, xs]| {
        let (carry, ys) = scan(init, (iota(6, DType::I64), xs), |c, (t, x)| {
            let c = c + (t + 1).cast(x.dtype()) * x;
            (c, t.cast(x.dtype()) * c)
        });
        outputs! { carry, ys }
    }),
    &program(&["step_index_no_xs"], ["init", "a"], |[init, a]| {
        let (carry, ys) = scan(init, iota(6, DType::I64), |c, t| {
            let t = t.cast(a.dtype());
            (c + (-a * t).exp(), c * t)
        });
        outputs! { carry, ys }
    }),
    &program(&["zero_steps"], ["init", "xs", "w"], |[init, xs, w]| {
        let (carry, ys) = scan(init, xs, |c, x| traced(w * c + x));
        outputs! { carry, ys }
    }),
    &program(&["zero_steps_no_xs"], ["init", "w"], |[init, w]| {
        let (carry, ys) = scan_with(ScanOptions::new().length(0), init, (), |c, ()| traced(c.matmul(w).tanh()));
        outputs! { carry, ys }
    }),
    &program(&["one_step"], ["init", "xs", "w"], |[init, xs, w]| {
        let (carry, ys) = scan(init, xs, |c, x| {
            let new = (c.matmul(w) + x).tanh();
            (new, new * c)
        });
        outputs! { carry, ys }
    }),
    &program(&["one_step_no_xs"], ["init"], |[init]| {
        let (carry, ys) = scan_with(ScanOptions::new().length(1), init, (), |c, ()| (c.sin(), c.cos()));
        outputs! { carry, ys }
    }),
    &program(&["elementwise_300"], ["init", "xs", "a"], |[init, xs, a]| {
        let (carry, ys) = scan(init, xs, |c, x| traced((a * c + x).tanh()));
        outputs! { carry, ys }
    }),
    &program(&["scalar_2000", "scalar_2000_f64"], ["init", "xs", "a", "b"], |[init, xs, a, b]| {
        let (carry, ys) = scan(init, xs, |c, x| traced(a * c + b * c.sin() + 0.1 * x));
        outputs! { carry, mean: ys.mean(0) }
    }),
];
