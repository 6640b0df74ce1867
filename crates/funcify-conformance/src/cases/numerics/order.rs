//! Rounding, shifts, sorting, cumulative reductions and maxima, including NaN and zeros of both signs.

use funcify::ops::ScatterMode;
use funcify::{DType, HostTensor, Scalar, Value, scan, stack};

use super::{
    Cases, FLOATS, INF, INTEGERS, NAN, SIGNED, UNSIGNED, all, answer_cases, bools, floats, highest, ints, lowest,
};

pub(super) fn cases() -> Cases {
    Ok([rounding()?, shifts()?, sorting()?, running()?, extremes_of_zeros()?, rows_of_infinities()?].concat())
}

fn one(program: fn(Value) -> Value) -> impl Fn([Value; 1]) -> Value {
    move |[x]| program(x)
}

fn rounding() -> Cases {
    let halves = |d| [floats(d, [0.5, 1.5, 2.5, -0.5, -1.5, 2.75, -0.25, NAN, -INF])];
    let ends = |d| [floats(d, [NAN, INF, -INF, 0., -1.])];
    all([
        answer_cases("round_half_to_even", &FLOATS, halves, one(|x| x.round()), |d| {
            floats(d, [0., 2., 2., -0., -2., 3., -0., NAN, -INF])
        }),
        answer_cases("floor", &FLOATS, halves, one(|x| x.floor()), |d| {
            floats(d, [0., 1., 2., -1., -2., 2., -1., NAN, -INF])
        }),
        answer_cases("ceil", &FLOATS, halves, one(|x| x.ceil()), |d| {
            floats(d, [1., 2., 3., -0., -1., 3., -0., NAN, -INF])
        }),
        answer_cases("trunc", &FLOATS, halves, one(|x| x.trunc()), |d| {
            floats(d, [0., 1., 2., -0., -1., 2., -0., NAN, -INF])
        }),
        answer_cases("is_nan", &FLOATS, ends, one(|x| x.is_nan()), |_| bools([true, false, false, false, false])),
        answer_cases("is_finite", &FLOATS, ends, one(|x| x.is_finite()), |_| bools([false, false, false, true, true])),
        answer_cases(
            "clamp_of_nan",
            &FLOATS,
            |d| [floats(d, [NAN, -3., 9.])],
            one(|x| x.clamp(-1.0, 1.0)),
            |d| floats(d, [NAN, -1., 1.]),
        ),
    ])
}

/// Builds the cases for shifts. A shift by the bit width or more, or by a negative number, returns 0. A right shift of
/// a negative integer by such an amount returns -1.
fn shifts() -> Cases {
    let left = |d| [ints(d, [1, 3, 1, 1]), ints(d, [3, 1, 64, 200])];
    let right = |d| [ints(d, [8, highest(d), 9]), ints(d, [3, 64, 0])];
    let signed = |d| [ints(d, [-8, -1, lowest(d), 5, -5]), ints(d, [1, 70, 100, -1, -1])];
    all([
        answer_cases("shift_left", &INTEGERS, left, |[x, y]| x << y, |d| ints(d, [8, 6, 0, 0])),
        answer_cases("shift_right", &INTEGERS, right, |[x, y]| x >> y, |d| ints(d, [1, 0, 9])),
        answer_cases("shift_right_keeps_the_sign", &SIGNED, signed, |[x, y]| x >> y, |d| ints(d, [-4, -1, -1, 0, -1])),
        answer_cases(
            "shift_right_of_high_bits",
            &UNSIGNED,
            |d| [ints(d, [highest(d)]), ints(d, [1])],
            |[x, y]| x >> y,
            |d| ints(d, [highest(d) / 2]),
        ),
    ])
}

/// Builds the cases for sorting, which is stable in ascending and in descending order. NaN counts as greater than all
/// numbers, and -0 and 0 are equal.
fn sorting() -> Cases {
    let mixed = |d| [floats(d, [2., NAN, -INF, 0., -0., INF])];
    let equal = |d| [ints(d, [3, 1, 3, 1])];
    all([
        answer_cases("sort", &FLOATS, mixed, one(|x| x.sort(0, false).0), |d| floats(d, [-INF, 0., -0., 2., INF, NAN])),
        answer_cases("sort_descending", &FLOATS, mixed, one(|x| x.sort(0, true).0), |d| {
            floats(d, [NAN, INF, 2., 0., -0., -INF])
        }),
        answer_cases("argsort_is_stable", &INTEGERS, equal, one(|x| x.argsort(0, false)), |_| {
            ints(DType::I64, [1, 3, 0, 2])
        }),
        answer_cases("argsort_descending_is_stable", &INTEGERS, equal, one(|x| x.argsort(0, true)), |_| {
            ints(DType::I64, [0, 2, 1, 3])
        }),
    ])
}

fn running() -> Cases {
    let with_nan = |d| [floats(d, [1., NAN, 3.])];
    let wraps = |d| [ints(d, [highest(d), 1, 2])];
    let scattered = |d| [floats(d, [1., 2., 3.]), HostTensor::from([0i64, 1, 1]), floats(d, [NAN, 5., -5.])];
    all([
        answer_cases("cummax_of_nan", &FLOATS, with_nan, one(|x| x.cummax(0, false)), |d| floats(d, [1., NAN, NAN])),
        answer_cases("cumsum_of_nan", &FLOATS, with_nan, one(|x| x.cumsum(0, true)), |d| floats(d, [NAN, NAN, 3.])),
        answer_cases("cumsum_wraps", &INTEGERS, wraps, one(|x| x.cumsum(0, false)), |d| {
            ints(d, [highest(d), lowest(d), lowest(d).wrapping_add(2)])
        }),
        answer_cases(
            "scatter_max_of_nan",
            &FLOATS,
            scattered,
            |[x, indices, updates]| x.scatter(0, indices, updates, ScatterMode::Max),
            |d| floats(d, [NAN, 5., 3.]),
        ),
    ])
}

/// Builds the cases for maxima and minima of zeros. `maximum` and `minimum` treat -0 as less than 0. Comparisons and
/// `argmax` treat the two zeros as equal.
fn extremes_of_zeros() -> Cases {
    // Test reductions only on f64. Burn's `wgpu` device has no f64, and its reductions do not order -0 before 0.
    const HOST: [DType; 1] = [DType::F64];
    let pair = |d| [floats(d, [-0., 0., -0., 0.]), floats(d, [0., -0., -0., 0.])];
    // A tensor that does not fit in a SIMD register. Its elements are zeros of the same sign, except for one near the
    // end, which has the other sign.
    let lone = |d, zero: f64| [HostTensor::from_fn(d, &[37], |i| Scalar::Float(if i[0] == 35 { -zero } else { zero }))];
    let turns = |d| [floats(d, [-0., 0., -0.])];
    let scattered = |d| [floats(d, [-0., 0., -0.]), HostTensor::from([0i64, 1, 1, 2]), floats(d, [0., -0., -0., -0.])];
    let carried = |largest: bool| {
        move |x: Value| {
            scan(x.index(0, 0), x, |before, x| {
                let extreme = if largest { before.maximum(x) } else { before.minimum(x) };
                (extreme, extreme)
            })
            .1
        }
    };
    let scalar = |d, zero: f64| HostTensor::from(zero).cast(d);
    all([
        answer_cases("max_of_zeros", &FLOATS, pair, |[x, y]| x.maximum(y), |d| floats(d, [0., 0., -0., 0.])),
        answer_cases("min_of_zeros", &FLOATS, pair, |[x, y]| x.minimum(y), |d| floats(d, [-0., -0., -0., 0.])),
        answer_cases("clamp_of_zeros", &FLOATS, pair, |[x, _]| x.clamp(0., 1.), |d| floats(d, [0.; 4])),
        answer_cases("reduce_max_of_zeros", &HOST, move |d| lone(d, -0.), one(|x| x.max(0)), move |d| scalar(d, 0.)),
        answer_cases("reduce_min_of_zeros", &HOST, move |d| lone(d, 0.), one(|x| x.min(0)), move |d| scalar(d, -0.)),
        answer_cases(
            "reduce_max_of_columns",
            &HOST,
            pair,
            |[x, y]| stack(&[x, y], 0).max(0),
            |d| floats(d, [0., 0., -0., 0.]),
        ),
        answer_cases("cummax_of_zeros", &HOST, turns, one(|x| x.cummax(0, false)), |d| floats(d, [-0., 0., 0.])),
        answer_cases("cummin_of_zeros", &HOST, turns, one(|x| x.cummin(0, true)), |d| floats(d, [-0., -0., -0.])),
        answer_cases("carried_max_of_zeros", &HOST, turns, move |[x]| carried(true)(x), |d| floats(d, [-0., 0., 0.])),
        answer_cases(
            "carried_min_of_zeros",
            &HOST,
            turns,
            move |[x]| carried(false)(-x),
            |d| floats(d, [0., -0., -0.]),
        ),
        answer_cases(
            "scatter_max_of_zeros",
            &HOST,
            scattered,
            |[x, indices, updates]| x.scatter(0, indices, updates, ScatterMode::Max),
            |d| floats(d, [0., 0., -0.]),
        ),
        answer_cases(
            "scatter_min_of_zeros",
            &HOST,
            scattered,
            |[x, indices, updates]| x.scatter(0, indices, updates, ScatterMode::Min),
            |d| floats(d, [-0., -0., -0.]),
        ),
        answer_cases("argmax_of_zeros", &FLOATS, turns, one(|x| x.argmax(0)), |_| HostTensor::scalar(0i64)),
        answer_cases("argmin_of_zeros", &FLOATS, turns, one(|x| (-x).argmin(0)), |_| HostTensor::scalar(0i64)),
    ])
}

fn rows_of_infinities() -> Cases {
    let rows = |d| [HostTensor::from([[-INF, -INF], [INF, 1.], [-INF, 3.], [1000., 1000.]]).cast(d)];
    let two = 1000. + 2f64.ln();
    all([
        answer_cases("logsumexp_of_infinities", &FLOATS, rows, one(|x| x.logsumexp(1)), move |d| {
            floats(d, [-INF, INF, 3., two])
        }),
        answer_cases("softmax_of_infinities", &FLOATS, rows, one(|x| x.softmax(1).index(1, 1)), |d| {
            floats(d, [NAN, NAN, 1., 0.5])
        }),
    ])
}
