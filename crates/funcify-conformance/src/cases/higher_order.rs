//! Category `higher_order`: the programs of the cases about gradients of gradients.

use funcify::{Recurrence, ScanOptions, Value, grad, hessian, jvp, scan, scan_with, while_loop};

use super::{Inputs, Outputs, Program, outputs};

pub(super) const PROGRAMS: &[(&str, Program)] = &[
    ("square_recurrence", square_recurrence),
    ("square_recurrence_f64", square_recurrence),
    ("square_recurrence_last", square_recurrence_last),
    ("square_recurrence_last_f64", square_recurrence_last),
    ("rnn_hessian_vector", rnn_hessian_vector),
    ("rnn_hessian_vector_f64", rnn_hessian_vector),
    ("product_recurrence", product_recurrence),
    ("product_recurrence_f64", product_recurrence),
    ("nested_sine", nested_sine),
    ("reverse_scan_third_derivative", reverse_scan_third_derivative),
    ("coupled_third_derivative", coupled_third_derivative),
    ("nested_scan_third_derivative", nested_scan_third_derivative),
    ("derivatives_as_outputs", derivatives_as_outputs),
    ("derivatives_as_outputs_f64", derivatives_as_outputs),
    ("hessian_matrix", hessian_matrix),
    ("reverse_over_forward", reverse_over_forward),
    ("tangent_of_while", tangent_of_while),
];

/// The trace of repeated squares.
fn squares(start: Value, steps: usize) -> Value {
    let mut loop_ = Recurrence::new();
    let x = loop_.sit_sot(start);
    let done = loop_.steps(steps).run(|step| {
        let [before] = step.read(&x);
        step.write(&x, before.square());
    });
    done.trace(&x)
}

fn square_recurrence(g: &Inputs<'_>) -> Outputs {
    let [x0] = g.get(["x0"]);
    outputs! { trace: squares(x0, 2) }
}

fn square_recurrence_last(g: &Inputs<'_>) -> Outputs {
    let [x0] = g.get(["x0"]);
    outputs! { last: squares(x0, 3).index(0, -1) }
}

fn rnn_hessian_vector(g: &Inputs<'_>) -> Outputs {
    let [w, h0, xs, b] = g.get(["w", "h0", "xs", "b"]);
    let (_, losses) = scan(h0, xs, |h, x| {
        let h = (h.matmul(w) + x + b).tanh();
        (h, 0.5 * h.square().sum(0))
    });
    outputs! { loss: losses.sum(0) }
}

fn product_recurrence(g: &Inputs<'_>) -> Outputs {
    let [start] = g.get(["start"]);
    let mut loop_ = Recurrence::new();
    let x = loop_.mit_sot(start, [-2, -1]);
    let done = loop_.steps(4).run(|step| {
        let [x2, x1] = step.read(&x);
        step.write(&x, x2 * x1);
    });
    outputs! { trace: done.trace(&x) }
}

fn nested_sine(g: &Inputs<'_>) -> Outputs {
    let [init, w] = g.get(["init", "w"]);
    let (last, ()) = scan_with(ScanOptions::new().length(4), init, (), |c, ()| ((w * c).sin(), ()));
    outputs! { last }
}

fn reverse_scan_third_derivative(g: &Inputs<'_>) -> Outputs {
    let [init, xs, w] = g.get(["init", "xs", "w"]);
    let (_, ys) = scan_with(ScanOptions::new().reverse(), init, xs, |c, x| {
        let c = (c * x).tanh() + 0.5 * w * c.square();
        (c, c)
    });
    outputs! { ys }
}

fn coupled_third_derivative(g: &Inputs<'_>) -> Outputs {
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
}

fn nested_scan_third_derivative(g: &Inputs<'_>) -> Outputs {
    let [xs, init] = g.get(["xs", "init"]);
    let (_, ys) = scan(init, xs, |c, x| {
        let (d, ()) = scan(c, x, |d, v| (d.sin() * v + d, ()));
        (0.5 * d, 0.5 * d)
    });
    outputs! { ys }
}

fn derivatives_as_outputs(g: &Inputs<'_>) -> Outputs {
    let [x0] = g.get(["x0"]);
    let f = |x: Value| scan_with(ScanOptions::new().length(3), x, (), |c, ()| (c.square(), ())).0;
    let first = |x: Value| grad(x, f);
    let second = |x: Value| grad(x, first);
    outputs! { d1: first(x0), d2: second(x0), d3: grad(x0, second) }
}

fn hessian_matrix(g: &Inputs<'_>) -> Outputs {
    let [phi, x, e] = g.get(["phi", "x", "e"]);
    let loss = |phi: Value| {
        let [a, b] = phi.unstack(0);
        let mut loop_ = Recurrence::new();
        let v = loop_.sequence(e, [0]);
        let y = loop_.mit_sot(x, [-2, -1]);
        let done = loop_.run(|step| {
            let ([v], [y2, y1]) = (step.read(&v), step.read(&y));
            step.write(&y, (a * y1).sin() + b * y2 + v);
        });
        done.trace(&y).square().sum(0)
    };
    outputs! { hessian: hessian(phi, loss) }
}

fn reverse_over_forward(g: &Inputs<'_>) -> Outputs {
    let [w, v, h0, xs] = g.get(["w", "v", "h0", "xs"]);
    let (value, tangent) = jvp(w, v, |w| scan(h0, xs, |h, x| ((h.matmul(w) + x).tanh(), ())).0);
    outputs! { value, tangent }
}

fn tangent_of_while(g: &Inputs<'_>) -> Outputs {
    let [a, v] = g.get(["a", "v"]);
    let root = |a: Value| while_loop(a, |x| (x * x - a).abs().gt(0.01), |x| 0.5 * (x + a / x));
    let (value, tangent) = jvp(a, v, root);
    outputs! { value, tangent }
}
