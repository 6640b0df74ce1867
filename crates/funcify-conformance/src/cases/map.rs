//! Category `map`: loops without carries.

use super::*;

pub(super) const PROGRAMS: Programs = &[
    &program(&["map_square", "map_square_f64"], ["xs"], |[xs]| outputs! { ys: map(xs, Value::square) }),
    // The body reads rows of two sequences, and captures a matrix.
    &program(&["map_two_inputs"], ["xs", "zs", "w"], |[xs, zs, w]| {
        let (ys, ss) = map((xs, zs), |(x, z)| (x.matmul(w).tanh() * z, x.sum(0)));
        outputs! { ys, ss }
    }),
    &program(&["map_determinant"], ["xs"], |[xs]| {
        let (ys, ts) = map(xs, |m| {
            let at = |row: i64, column: i64| m.index(0, row).index(0, column);
            (at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0), m.matmul(m))
        });
        outputs! { ys, ts }
    }),
    &program(&["map_argmax"], ["xs"], |[xs]| {
        let (at, best) = map(xs, |x| {
            let i = x.argmax(0);
            (i, x.take(0, i))
        });
        outputs! { at, best }
    }),
    &program(&["map_zero_rows"], ["xs", "w"], |[xs, w]| outputs! { ys: map(xs, |x| x * w) }),
    &program(&["map_of_scan"], ["xs", "a"], |[xs, a]| {
        let (totals, ys) = map(xs, |x| scan(a.zeros_like(), x, |c, v| carry_as_output((a * c + v).tanh())));
        outputs! { ys, totals }
    }),
    &program(&["map_of_cond"], ["xs", "w"], |[xs, w]| {
        outputs! { ys: map(xs, |x| cond(x.gt(0.0), || x.sqrt() * w, || x.square() - w)) }
    }),
    // The body runs a while loop, with a different trip count for each row.
    &program(&["map_of_while"], ["xs"], |[xs]| {
        let next = |(x, n): (Value, Value)| (0.5 * x + 0.1 * x.sqrt(), n + 1);
        let (ys, n) = map(xs, |x| while_loop((x, constant(0i64)), |(x, _)| x.gt(1.0), next));
        outputs! { ys, n }
    }),
];
