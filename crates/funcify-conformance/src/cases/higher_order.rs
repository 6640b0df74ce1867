//! Category `higher_order`: the programs of the cases about gradients of gradients.

use funcify::{Recurrence, ScanOptions, Value, grad, hessian, jvp, scan, scan_with, while_loop};

use super::recurrences::{driven, repeated, state};
use super::{Programs, outputs};

pub(super) const PROGRAMS: Programs = &[
    (&["square_recurrence", "square_recurrence_f64"], |g| outputs! { trace: squares(g.input("x0"), 2) }),
    (
        &["square_recurrence_last", "square_recurrence_last_f64"],
        |g| outputs! { last: squares(g.input("x0"), 3).index(0, -1) },
    ),
    (&["rnn_hessian_vector", "rnn_hessian_vector_f64"], |g| {
        let [w, h0, xs, b] = g.get(["w", "h0", "xs", "b"]);
        let (_, losses) = scan(h0, xs, |h, x| {
            let h = (h.matmul(w) + x + b).tanh();
            (h, 0.5 * h.square().sum(0))
        });
        outputs! { loss: losses.sum(0) }
    }),
    (&["product_recurrence", "product_recurrence_f64"], |g| {
        let [start] = g.get(["start"]);
        outputs! { trace: state(Recurrence::new().steps(4), start, [-2, -1], |[x2, x1]| x2 * x1) }
    }),
    (&["nested_sine"], |g| {
        let [init, w] = g.get(["init", "w"]);
        let (last, ()) = scan_with(ScanOptions::new().length(4), init, (), |c, ()| ((w * c).sin(), ()));
        outputs! { last }
    }),
    (&["reverse_scan_third_derivative"], |g| {
        let [init, xs, w] = g.get(["init", "xs", "w"]);
        let (_, ys) = scan_with(ScanOptions::new().reverse(), init, xs, |c, x| {
            let c = (c * x).tanh() + 0.5 * w * c.square();
            (c, c)
        });
        outputs! { ys }
    }),
    (&["coupled_third_derivative"], |g| {
        let [a0, b0, u] = g.get(["a0", "b0", "u"]);
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
    (&["nested_scan_third_derivative"], |g| {
        let [xs, init] = g.get(["xs", "init"]);
        let (_, ys) = scan(init, xs, |c, x| {
            let (d, ()) = scan(c, x, |d, v| (d.sin() * v + d, ()));
            (0.5 * d, 0.5 * d)
        });
        outputs! { ys }
    }),
    (&["derivatives_as_outputs", "derivatives_as_outputs_f64"], |g| {
        let [x0] = g.get(["x0"]);
        let f = |x: Value| scan_with(ScanOptions::new().length(3), x, (), |c, ()| (c.square(), ())).0;
        let first = |x: Value| grad(x, f);
        let second = |x: Value| grad(x, first);
        outputs! { d1: first(x0), d2: second(x0), d3: grad(x0, second) }
    }),
    (&["hessian_matrix"], |g| {
        let [phi, x, e] = g.get(["phi", "x", "e"]);
        let loss = |phi: Value| {
            let [a, b] = phi.unstack(0);
            driven(&mut Recurrence::new(), e, x, [-2, -1], |v, [y2, y1]| (a * y1).sin() + b * y2 + v).square().sum(0)
        };
        outputs! { hessian: hessian(phi, loss) }
    }),
    (&["reverse_over_forward"], |g| {
        let [w, v, h0, xs] = g.get(["w", "v", "h0", "xs"]);
        let (value, tangent) = jvp(w, v, |w| scan(h0, xs, |h, x| ((h.matmul(w) + x).tanh(), ())).0);
        outputs! { value, tangent }
    }),
    (&["tangent_of_while"], |g| {
        let [a, v] = g.get(["a", "v"]);
        let root = |a: Value| while_loop(a, |x| (x * x - a).abs().gt(0.01), |x| 0.5 * (x + a / x));
        let (value, tangent) = jvp(a, v, root);
        outputs! { value, tangent }
    }),
];

/// The trace of repeated squares.
fn squares(start: Value, steps: usize) -> Value {
    repeated(Recurrence::new().steps(steps), start, |before| before.square())
}
