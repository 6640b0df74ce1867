//! Rounding, shifts, sorting, running reductions, and NaN in each.

use funcify::ops::ScatterMode;
use funcify::{DType, HostTensor, Value};

use super::{Cases, FLOATS, INF, INTEGERS, NAN, SIGNED, UNSIGNED, ask, bools, floats, highest, ints, lowest};

pub(super) fn cases() -> Cases {
    Ok([rounding()?, shifts()?, sorting()?, running()?, rows_of_infinities()?].concat())
}

fn one(program: fn(Value) -> Value) -> impl Fn([Value; 1]) -> Value {
    move |[x]| program(x)
}

fn rounding() -> Cases {
    let halves = |d| [floats(d, [0.5, 1.5, 2.5, -0.5, -1.5, 2.75, -0.25, NAN, -INF])];
    let ends = |d| [floats(d, [NAN, INF, -INF, 0., -1.])];
    Ok([
        ask("round_half_to_even", &FLOATS, halves, one(|x| x.round()), |d| {
            floats(d, [0., 2., 2., -0., -2., 3., -0., NAN, -INF])
        })?,
        ask("floor", &FLOATS, halves, one(|x| x.floor()), |d| floats(d, [0., 1., 2., -1., -2., 2., -1., NAN, -INF]))?,
        ask("ceil", &FLOATS, halves, one(|x| x.ceil()), |d| floats(d, [1., 2., 3., -0., -1., 3., -0., NAN, -INF]))?,
        ask("trunc", &FLOATS, halves, one(|x| x.trunc()), |d| floats(d, [0., 1., 2., -0., -1., 2., -0., NAN, -INF]))?,
        ask("is_nan", &FLOATS, ends, one(|x| x.is_nan()), |_| bools([true, false, false, false, false]))?,
        ask("is_finite", &FLOATS, ends, one(|x| x.is_finite()), |_| bools([false, false, false, true, true]))?,
        ask(
            "clamp_of_nan",
            &FLOATS,
            |d| [floats(d, [NAN, -3., 9.])],
            one(|x| x.clamp(-1.0, 1.0)),
            |d| floats(d, [NAN, -1., 1.]),
        )?,
    ]
    .concat())
}

/// By as many bits as there are or more, and by a negative number, nothing is left but the sign.
fn shifts() -> Cases {
    let left = |d| [ints(d, [1, 3, 1, 1]), ints(d, [3, 1, 64, 200])];
    let right = |d| [ints(d, [8, highest(d), 9]), ints(d, [3, 64, 0])];
    let signed = |d| [ints(d, [-8, -1, lowest(d), 5, -5]), ints(d, [1, 70, 100, -1, -1])];
    Ok([
        ask("shift_left", &INTEGERS, left, |[x, y]| x << y, |d| ints(d, [8, 6, 0, 0]))?,
        ask("shift_right", &INTEGERS, right, |[x, y]| x >> y, |d| ints(d, [1, 0, 9]))?,
        ask("shift_right_keeps_the_sign", &SIGNED, signed, |[x, y]| x >> y, |d| ints(d, [-4, -1, -1, 0, -1]))?,
        ask(
            "shift_right_of_high_bits",
            &UNSIGNED,
            |d| [ints(d, [highest(d)]), ints(d, [1])],
            |[x, y]| x >> y,
            |d| ints(d, [highest(d) / 2]),
        )?,
    ]
    .concat())
}

/// NaN is the greatest, -0 and 0 are equal, and equal elements keep their order, also of a descending sort.
fn sorting() -> Cases {
    let mixed = |d| [floats(d, [2., NAN, -INF, 0., -0., INF])];
    let equal = |d| [ints(d, [3, 1, 3, 1])];
    Ok([
        ask("sort", &FLOATS, mixed, one(|x| x.sort(0, false).0), |d| floats(d, [-INF, 0., -0., 2., INF, NAN]))?,
        ask("sort_descending", &FLOATS, mixed, one(|x| x.sort(0, true).0), |d| {
            floats(d, [NAN, INF, 2., 0., -0., -INF])
        })?,
        ask("argsort_is_stable", &INTEGERS, equal, one(|x| x.argsort(0, false)), |_| ints(DType::I64, [1, 3, 0, 2]))?,
        ask("argsort_descending_is_stable", &INTEGERS, equal, one(|x| x.argsort(0, true)), |_| {
            ints(DType::I64, [0, 2, 1, 3])
        })?,
    ]
    .concat())
}

fn running() -> Cases {
    let with_nan = |d| [floats(d, [1., NAN, 3.])];
    let wraps = |d| [ints(d, [highest(d), 1, 2])];
    let scattered = |d| [floats(d, [1., 2., 3.]), HostTensor::from([0i64, 1, 1]), floats(d, [NAN, 5., -5.])];
    Ok([
        ask("cummax_of_nan", &FLOATS, with_nan, one(|x| x.cummax(0, false)), |d| floats(d, [1., NAN, NAN]))?,
        ask("cumsum_of_nan", &FLOATS, with_nan, one(|x| x.cumsum(0, true)), |d| floats(d, [NAN, NAN, 3.]))?,
        ask("cumsum_wraps", &INTEGERS, wraps, one(|x| x.cumsum(0, false)), |d| {
            ints(d, [highest(d), lowest(d), lowest(d).wrapping_add(2)])
        })?,
        ask(
            "scatter_max_of_nan",
            &FLOATS,
            scattered,
            |[x, indices, updates]| x.scatter(0, indices, updates, ScatterMode::Max),
            |d| floats(d, [NAN, 5., 3.]),
        )?,
    ]
    .concat())
}

fn rows_of_infinities() -> Cases {
    let rows = |d| [HostTensor::from([[-INF, -INF], [INF, 1.], [-INF, 3.], [1000., 1000.]]).cast(d)];
    let two = 1000. + 2f64.ln();
    Ok([
        ask("logsumexp_of_infinities", &FLOATS, rows, one(|x| x.logsumexp(1)), move |d| {
            floats(d, [-INF, INF, 3., two])
        })?,
        ask("softmax_of_infinities", &FLOATS, rows, one(|x| x.softmax(1).index(1, 1)), |d| {
            floats(d, [NAN, NAN, 1., 0.5])
        })?,
    ]
    .concat())
}
