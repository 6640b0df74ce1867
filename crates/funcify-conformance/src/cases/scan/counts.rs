//! Loops with zero, one and many steps, and loops without sequences. Some of the loops use the step index.

use funcify::{DType, ScanOptions, iota, scan, scan_with};

use crate::cases::{Programs, carry_as_output, outputs, program, scan_outputs};

pub(super) const PROGRAMS: Programs = &[
    &program(&["reverse_step_index"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan_with(ScanOptions::new().reverse(), init, (iota(5, DType::I64), xs), |c, (t, x)| {
            carry_as_output(0.5 * c + (t + 1).cast(x.dtype()) * x)
        }))
    }),
    &program(&["geometric_no_xs"], ["init", "a"], |[init, a]| {
        scan_outputs(scan_with(ScanOptions::new().length(7), init, (), |c, ()| carry_as_output(a * c + 1.0)))
    }),
    &program(&["step_index"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, (iota(6, DType::I64), xs), |c, (t, x)| {
            let c = c + (t + 1).cast(x.dtype()) * x;
            (c, t.cast(x.dtype()) * c)
        }))
    }),
    &program(&["step_index_no_xs"], ["init", "a"], |[init, a]| {
        scan_outputs(scan(init, iota(6, DType::I64), |c, t| {
            let t = t.cast(a.dtype());
            (c + (-a * t).exp(), c * t)
        }))
    }),
    &program(&["zero_steps"], ["init", "xs", "w"], |[init, xs, w]| {
        scan_outputs(scan(init, xs, |c, x| carry_as_output(w * c + x)))
    }),
    &program(&["zero_steps_no_xs"], ["init", "w"], |[init, w]| {
        scan_outputs(scan_with(ScanOptions::new().length(0), init, (), |c, ()| carry_as_output(c.matmul(w).tanh())))
    }),
    &program(&["one_step"], ["init", "xs", "w"], |[init, xs, w]| {
        scan_outputs(scan(init, xs, |c, x| {
            let new = (c.matmul(w) + x).tanh();
            (new, new * c)
        }))
    }),
    &program(&["one_step_no_xs"], ["init"], |[init]| {
        scan_outputs(scan_with(ScanOptions::new().length(1), init, (), |c, ()| (c.sin(), c.cos())))
    }),
    &program(&["elementwise_300"], ["init", "xs", "a"], |[init, xs, a]| {
        scan_outputs(scan(init, xs, |c, x| carry_as_output((a * c + x).tanh())))
    }),
    &program(&["scalar_2000", "scalar_2000_f64"], ["init", "xs", "a", "b"], |[init, xs, a, b]| {
        let (carry, ys) = scan(init, xs, |c, x| carry_as_output(a * c + b * c.sin() + 0.1 * x));
        outputs! { carry, mean: ys.mean(0) }
    }),
];
