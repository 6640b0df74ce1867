//! Category `higher_order`: programs that test higher-order derivatives.

use funcify::{Recurrence, ScanOptions, Value, grad, hessian, jvp, scan, scan_with, while_loop};

use super::recurrences::{driven, repeated, state};
use super::{Programs, carry_as_output, outputs, program};

pub(super) const PROGRAMS: Programs = &[
    &program(&["square_recurrence", "square_recurrence_f64"], ["x0"], |[x0]| outputs! { trace: squares(x0, 2) }),
    &program(&["square_recurrence_last", "square_recurrence_last_f64"], ["x0"], |[x0]| {
        outputs! { last: squares(x0, 3).index(0, -1) }
    }),
    &program(&["rnn_hessian_vector", "rnn_hessian_vector_f64"], ["w", "h0", "xs", "b"], |[w, h0, xs, b]| {
        let (_, losses) = scan(h0, xs, |h, x| {
            let h = (h.matmul(w) + x + b).tanh();
            (h, 0.5 * h.square().sum(0))
        });
        outputs! { loss: losses.sum(0) }
    }),
    &program(&["product_recurrence", "product_recurrence_f64"], ["start"], |[start]| {
        outputs! { trace: state(Recurrence::new().steps(4), start, [-2, -1], |[x2, x1]| x2 * x1) }
    }),
    &program(&["nested_sine"], ["init", "w"], |[init, w]| {
        let (last, ()) = scan_with(ScanOptions::new().length(4), init, (), |c, ()| ((w * c).sin(), ()));
        outputs! { last }
    }),
    &program(&["reverse_scan_third_derivative"], ["init", "xs", "w"], |[init, xs, w]| {
        let (_, ys) = scan_with(ScanOptions::new().reverse(), init, xs, |c, x| {
            carry_as_output((c * x).tanh() + 0.5 * w * c.square())
        });
        outputs! { ys }
    }),
    &program(&["coupled_third_derivative"], ["a0", "b0", "u"], |[a0, b0, u]| {
        let mut loop_ = Recurrence::new();
        let v = loop_.sequence(u, [0]);
        let (a, b) = (loop_.sit_sot(a0), loop_.sit_sot(b0));
        let done = loop_.run(|step| {
            let ([before], [other]) = (step.read(&a), step.read(&b));
            let [v] = step.read(&v);
            step.write(&a, before * other + v);
            step.write(&b, before.sin());
        });
        outputs! { a: done.trace(&a), last: done.trace(&b).index(0, -1) }
    }),
    &program(&["nested_scan_third_derivative"], ["xs", "init"], |[xs, init]| {
        let (_, ys) = scan(init, xs, |c, x| {
            let (d, ()) = scan(c, x, |d, v| (d.sin() * v + d, ()));
            (0.5 * d, 0.5 * d)
        });
        outputs! { ys }
    }),
    &program(&["derivatives_as_outputs", "derivatives_as_outputs_f64"], ["x0"], |[x0]| {
        let f = |x: Value| scan_with(ScanOptions::new().length(3), x, (), |c, ()| (c.square(), ())).0;
        let first = |x: Value| grad(x, f);
        let second = |x: Value| grad(x, first);
        outputs! { d1: first(x0), d2: second(x0), d3: grad(x0, second) }
    }),
    &program(&["hessian_matrix"], ["phi", "x", "e"], |[phi, x, e]| {
        let loss = |phi: Value| {
            let [a, b] = phi.unstack(0);
            driven(&mut Recurrence::new(), e, x, [-2, -1], |v, [y2, y1]| (a * y1).sin() + b * y2 + v).square().sum(0)
        };
        outputs! { hessian: hessian(phi, loss) }
    }),
    &program(&["reverse_over_forward"], ["w", "v", "h0", "xs"], |[w, v, h0, xs]| {
        let (value, tangent) = jvp(w, v, |w| scan(h0, xs, |h, x| ((h.matmul(w) + x).tanh(), ())).0);
        outputs! { value, tangent }
    }),
    &program(&["tangent_of_while"], ["a", "v"], |[a, v]| {
        let root = |a: Value| while_loop(a, |x| (x * x - a).abs().gt(0.01), |x| 0.5 * (x + a / x));
        let (value, tangent) = jvp(a, v, root);
        outputs! { value, tangent }
    }),
];

/// Squares a value `steps` times, and returns the result of each step.
fn squares(start: Value, steps: usize) -> Value {
    repeated(Recurrence::new().steps(steps), start, |before| before.square())
}
