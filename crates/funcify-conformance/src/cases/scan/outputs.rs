//! The ys of scans: aliases, constants, other dtypes and ranks, and slices of a trace.

use funcify::{DType, scan, stack};

use crate::cases::{Programs, carry_as_output, outputs, program, scan_outputs};

pub(super) const PROGRAMS: Programs = &[
    &program(&["ys_independent_of_carry"], ["init", "xs", "w"], |[init, xs, w]| {
        scan_outputs(scan(init, xs, |c, x| (0.5 * c + x.sum(..), w * x.square())))
    }),
    // The ys contain the next carry twice, and the previous carry once.
    &program(&["ys_alias_carry"], ["init", "xs", "w"], |[init, xs, w]| {
        let (carry, (first, second, old)) = scan(init, xs, |c, x| {
            let new = (w * c + x).tanh();
            (new, (new, new, c))
        });
        outputs! { carry, first, second, old }
    }),
    &program(&["ys_alias_xs"], ["init", "xs"], |[init, xs]| scan_outputs(scan(init, xs, |c, x| (c * x, x)))),
    &program(&["constant_ys"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, xs, |c, x| {
            let two = x.index(0, 0).ones_like() * 2.0;
            (c + x, stack(&[two, two - 3.0], 0))
        }))
    }),
    // The body has two ys, but the program returns only one of them.
    &program(&["unused_result"], ["init", "xs", "w"], |[init, xs, w]| {
        let (carry, (ys, _)) = scan(init, xs, |c, x| {
            let ghost = x.matmul(w);
            let c = 0.5 * c + x;
            (c, (c.square(), ghost))
        });
        outputs! { carry, ys }
    }),
    &program(&["last_ys_only"], ["init", "xs", "w"], |[init, xs, w]| {
        let (_, ys) = scan(init, xs, |c, x| carry_as_output((w * c + x).sin()));
        outputs! { last: ys.index(0, -1) }
    }),
    &program(&["slice_of_ys"], ["init", "xs"], |[init, xs]| {
        let (_, ys) = scan(init, xs, |c, x| carry_as_output(0.8 * c + x.square()));
        outputs! { middle: ys.slice(0, 2..5), single: ys.index(0, -2), strided: ys.slice_step(0, 1..8, 3) }
    }),
    &program(&["reduced_ys"], ["init", "xs"], |[init, xs]| {
        let (_, ys) = scan(init, xs, |c, x| carry_as_output((c + x).tanh()));
        outputs! { total: ys.square().sum(..), mean: ys.mean(0) }
    }),
    // The carry is a scalar, but the ys are matrices.
    &program(&["outer_ys"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, xs, |c, x| {
            let c = c + x.sum(..);
            (c, c * x.unsqueeze(1) * x.unsqueeze(0))
        }))
    }),
    // The carry is a float, but some ys are integers.
    &program(&["int_ys"], ["init", "xs"], |[init, xs]| {
        let (carry, (winner, positive, best)) = scan(init, xs, |c, x| {
            let c = 0.5 * c + x;
            let i = c.argmax(0);
            (c, (i, c.gt(0).cast(DType::I64).sum(0), c.take(0, i)))
        });
        outputs! { carry, winner, positive, best }
    }),
];
