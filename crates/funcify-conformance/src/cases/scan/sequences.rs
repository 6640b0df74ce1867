//! Sequences: axes, direction, views, integers and booleans, and computed sequences.

use funcify::{DType, ScanOptions, iota, scan, scan_with, select};

use crate::cases::{Programs, carry_as_output, outputs, program, scan_outputs};

pub(super) const PROGRAMS: Programs = &[
    &program(&["reverse_decay", "reverse_decay_f64"], ["init", "xs", "w"], |[init, xs, w]| {
        scan_outputs(scan_with(ScanOptions::new().reverse(), init, xs, |c, x| (0.9 * c + (w * x).tanh(), c * x)))
    }),
    &program(&["unused_sequence"], ["init", "xs", "unused"], |[init, xs, unused]| {
        scan_outputs(scan(init, (xs, unused), |c, (x, _)| carry_as_output(c * x.cos())))
    }),
    &program(&["scan_axis1"], ["init", "xs"], |[init, xs]| {
        let (carry, ys) = scan_with(ScanOptions::new().axis(1), init, xs, |c, x| {
            let c = 0.5 * c + x;
            (c, c.sin())
        });
        outputs! { carry, ys: ys.move_axis(0, 1) }
    }),
    &program(&["scan_last_axis_reverse"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan_with(ScanOptions::new().reverse().axis(2), init, xs, |c, x| {
            carry_as_output(c.matmul(x).tanh())
        }))
    }),
    // Looks up rows of a table at the indices in a sequence.
    &program(&["embedding_sum"], ["table", "ids", "init"], |[table, ids, init]| {
        scan_outputs(scan(init, ids, |c, i| carry_as_output(0.5 * c + table.take(0, i))))
    }),
    // A reverse scan runs over the ys of a forward scan.
    &program(&["chained_scans"], ["init", "xs"], |[init, xs]| {
        let (carry, forward) = scan(init, xs, |c, x| carry_as_output((c + x).tanh()));
        let (last, backward) =
            scan_with(ScanOptions::new().reverse(), carry, (forward, xs), |c, (f, x)| carry_as_output(0.5 * c + f * x));
        outputs! { final: last, forward, backward }
    }),
    // The sequences in a batch have different lengths. Time is axis 1.
    &program(&["masked_lengths", "masked_lengths_f64"], ["h0", "xs", "lengths", "w"], |[h0, xs, lengths, w]| {
        let (last, ys) = scan(h0, (iota(5, DType::I64), xs.move_axis(1, 0)), |h, (t, x)| {
            let alive = t.lt(lengths).unsqueeze(1);
            let new = select(alive, (h.matmul(w) + x).tanh(), h);
            (new, select(alive, new, 0.0))
        });
        outputs! { final: last, ys: ys.move_axis(0, 1) }
    }),
    // The rows are scalars, which broadcast against a vector.
    &program(&["broadcast_scalar_rows"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, xs, |c, x| carry_as_output(c * x + x.square())))
    }),
    &program(&["transposed_sequence"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, xs.t(), |c, x| carry_as_output(0.5 * c * x + 1.0)))
    }),
    &program(&["strided_sequence"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, xs.slice_step(0, 1..9, 2), |c, x| carry_as_output((c + x).tanh())))
    }),
    &program(&["broadcast_sequence"], ["init", "row", "scale"], |[init, row, scale]| {
        let (_, ys) = scan(init, scale.unsqueeze(1) * row, |c, x| carry_as_output(c.sin() + x));
        outputs! { ys }
    }),
    &program(&["bool_sequence"], ["init", "xs", "keep"], |[init, xs, keep]| {
        scan_outputs(scan(init, (keep, xs), |c, (k, x)| carry_as_output(select(k, c.sin() + x, c))))
    }),
];
