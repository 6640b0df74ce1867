//! Category `gradient`: programs with unusual gradients (truncated, disconnected, NaN), and programs that return
//! gradients.

use funcify::{DType, Recurrence, ScanOptions, Value, concat, grad, scan, scan_with, select, value_and_grad, vmap};

use super::recurrences::stencil;
use super::{Programs, carry_as_output, outputs, program, scan_outputs};

pub(super) const PROGRAMS: Programs = &[
    &program(&["tbptt_chunks"], ["init", "xs", "w"], |[init, xs, w]| {
        let mut carry = init;
        let mut parts = Vec::new();
        for (start, limit) in [(0, 3), (3, 6), (6, 8)] {
            let enters = if start > 0 { carry.stop_gradient() } else { carry };
            let (last, ys) = scan(enters, xs.slice(0, start..limit), |c, x| carry_as_output((c.matmul(w) + x).tanh()));
            carry = last;
            parts.push(ys);
        }
        outputs! { carry, ys: concat(&parts, 0) }
    }),
    &program(&["tbptt_last_steps"], ["init", "xs", "w"], |[init, xs, w]| {
        let step = |c: Value, x: Value| ((c.matmul(w) + x).tanh(), ());
        let (middle, ()) = scan(init, xs.slice(0, ..4), step);
        let (last, ()) = scan(middle.stop_gradient(), xs.slice(0, 4..), step);
        outputs! { last }
    }),
    &program(&["stop_gradient_in_body"], ["init", "xs"], |[init, xs]| {
        scan_outputs(scan(init, xs, |c, x| carry_as_output(0.5 * c * c.stop_gradient() + x.sin())))
    }),
    &program(&["disconnected_inputs"], ["init", "xs", "threshold", "offset"], |[init, xs, threshold, offset]| {
        let (carry, n) = scan(init, xs, |c, x| {
            let c = select(x.sum(0).gt(threshold), c + x, 0.5 * c);
            (c, (c + offset).gt(0.0).cast(DType::I64).sum(0))
        });
        outputs! { carry, n }
    }),
    &program(&["cast_to_int_blocks_gradient"], ["init", "xs"], |[init, xs]| {
        let (_, (k, ys)) = scan(init, xs, |c, x| {
            let k = x.cast(DType::I64);
            let c = 0.5 * c + k.cast(x.dtype());
            (c, (k, c))
        });
        outputs! { k, ys }
    }),
    &program(&["double_where"], ["init", "w", "xs"], |[init, w, xs]| {
        scan_outputs(scan(init, xs, |c, x| {
            let ok = x.gt(0.0);
            let safe = select(ok, x, 1.0);
            let c = 0.5 * c + select(ok, safe.sqrt() * w, 0.0);
            (c, c)
        }))
    }),
    &program(&["masked_nonfinite_inputs"], ["init", "w", "xs"], |[init, w, xs]| {
        scan_outputs(scan(init, xs, |c, x| {
            let bad = x.ne(x) | x.abs().eq(f64::INFINITY);
            let c = (w * c + select(bad, x.zeros_like(), x)).tanh();
            (c, c)
        }))
    }),
    &program(&["nan_propagates"], ["init", "xs"], |[init, xs]| {
        let (_, ys) = scan(init, xs, |c, x| (c + x, c + x));
        let bad = ys.ne(ys);
        outputs! { ys, count: bad.cast(DType::I64).sum(0), clean: select(bad, ys.zeros_like(), ys).square() }
    }),
    &program(&["one_input_in_all_roles", "one_input_in_all_roles_f64"], ["x"], |[x]| {
        let (carry, ys) = scan(x, x, |c, v| carry_as_output((c * x).sin() + v));
        outputs! { carry, total: ys.sum(..) }
    }),
    &program(&["shared_weights_two_scans"], ["init", "xs", "w"], |[init, xs, w]| {
        let (a, ()) = scan(init, xs, |c, x| ((c.matmul(w) + x).tanh(), ()));
        let (b, ()) = scan_with(ScanOptions::new().reverse(), init, xs, |c, x| (x.matmul(w).tanh() * c, ()));
        outputs! { y: a * b }
    }),
    &program(&["sequence_in_taps_and_captured"], ["x", "w"], |[x, w]| {
        let [w0, w1, w2] = w.unstack(0);
        let y = stencil(&mut Recurrence::new(), x, [-1, 0, 1], |[a, b, c]| w0 * a + w1 * b + w2 * c * x.index(0, 0));
        outputs! { y, s: y.sum(0) * x.index(0, 5) }
    }),
    &program(&["derivative_reuses_output"], ["init", "w"], |[init, w]| {
        let (_, (ys, e)) = scan_with(ScanOptions::new().length(5), init, (), |c, ()| {
            let c = (-c * w).exp();
            (c, (c, c.exp()))
        });
        outputs! { ys, e }
    }),
    &program(&["gradient_as_output"], ["w", "h0", "xs"], |[w, h0, xs]| {
        let of_w = grad(w, |w| {
            let step = |h: Value, x: Value| {
                let h = (h.matmul(w) + x).tanh();
                (h, h.square().sum(0))
            };
            scan(h0, xs, step).1.sum(0)
        });
        outputs! { g: of_w, norm: of_w.square().sum(..) }
    }),
    &program(&["gradient_penalty"], ["a", "x0", "u"], |[a, x0, u]| {
        let loss = |u: Value| scan(x0, u, |x, v| ((a * x).tanh() + v * x, ())).0.square();
        let (value, of_u) = value_and_grad(u, loss);
        outputs! { objective: value + 0.1 * of_u.square().sum(0) }
    }),
    &program(&["vmap_of_gradient", "vmap_of_gradient_f64"], ["w", "h0", "xs"], |[w, h0, xs]| {
        let of_lane = |(v, xs): (Value, Value)| grad(v, |v| scan(h0, xs, |h, x| ((h * v + x).tanh(), ())).0.sum(0));
        outputs! { g: vmap((w, xs), of_lane) }
    }),
];
