//! Category `map`: loops without a carry.

use funcify::{Value, cond, constant, map, scan, while_loop};

use super::{Inputs, Outputs, Program, outputs};

pub(super) const PROGRAMS: &[(&str, Program)] = &[
    ("map_square", map_square),
    ("map_square_f64", map_square),
    ("map_two_inputs", map_two_inputs),
    ("map_determinant", map_determinant),
    ("map_argmax", map_argmax),
    ("map_zero_rows", map_zero_rows),
    ("map_of_scan", map_of_scan),
    ("map_of_cond", map_of_cond),
    ("map_of_while", map_of_while),
];

fn map_square(g: &Inputs<'_>) -> Outputs {
    let [xs] = g.get(["xs"]);
    outputs! { ys: map(xs, Value::square) }
}

/// Two sequences and a captured matrix.
fn map_two_inputs(g: &Inputs<'_>) -> Outputs {
    let [xs, zs, w] = g.get(["xs", "zs", "w"]);
    let (ys, ss) = map((xs, zs), |(x, z)| (x.matmul(w).tanh() * z, x.sum(0)));
    outputs! { ys, ss }
}

fn map_determinant(g: &Inputs<'_>) -> Outputs {
    let [xs] = g.get(["xs"]);
    let (ys, ts) = map(xs, |m| {
        let at = |row: i64, column: i64| m.index(0, row).index(0, column);
        (at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0), m.matmul(m))
    });
    outputs! { ys, ts }
}

fn map_argmax(g: &Inputs<'_>) -> Outputs {
    let [xs] = g.get(["xs"]);
    let (at, best) = map(xs, |x| {
        let i = x.argmax(0);
        (i, x.take(0, i))
    });
    outputs! { at, best }
}

fn map_zero_rows(g: &Inputs<'_>) -> Outputs {
    let [xs, w] = g.get(["xs", "w"]);
    outputs! { ys: map(xs, |x| x * w) }
}

/// A scan over each row.
fn map_of_scan(g: &Inputs<'_>) -> Outputs {
    let [xs, a] = g.get(["xs", "a"]);
    let (totals, ys) = map(xs, |x| {
        scan(a.zeros_like(), x, |c, v| {
            let c = (a * c + v).tanh();
            (c, c)
        })
    });
    outputs! { ys, totals }
}

/// A choice for each row.
fn map_of_cond(g: &Inputs<'_>) -> Outputs {
    let [xs, w] = g.get(["xs", "w"]);
    outputs! { ys: map(xs, |x| cond(x.gt(0.0), || x.sqrt() * w, || x.square() - w)) }
}

/// A loop for each row, whose trip counts differ.
fn map_of_while(g: &Inputs<'_>) -> Outputs {
    let [xs] = g.get(["xs"]);
    let next = |(x, n): (Value, Value)| (0.5 * x + 0.1 * x.sqrt(), n + 1);
    let (ys, n) = map(xs, |x| while_loop((x, constant(0i64)), |(x, _)| x.gt(1.0), next));
    outputs! { ys, n }
}
