//! Division, overflow, powers, casts, NaN, signed zeros, domains of functions, and reductions.

use funcify::{DType, HostTensor, Value};

use super::{
    Cases, FLOATS, INF, INTEGERS, NAN, SIGNED, UNSIGNED, all, answer_cases, bools, floats, highest, ints, lowest,
};

pub(super) fn cases() -> Cases {
    let groups =
        [division()?, overflow()?, powers()?, casts()?, nan()?, zeros()?, domains()?, subnormal()?, reductions()?];
    Ok(groups.concat())
}

fn division() -> Cases {
    let signed = |d| [ints(d, [7, -7, 7, -7, 5, -5, lowest(d)]), ints(d, [2, 2, -2, -2, 0, 0, -1])];
    let unsigned = |d| [ints(d, [7, highest(d), 5]), ints(d, [2, 2, 0])];
    let real = |d| [floats(d, [1., -1., 0., 5.5, -5.5]), floats(d, [0., 0., 0., 2., 2.])];
    let real_rem =
        |d| [floats(d, [5.5, -5.5, 5.5, -5.5, 1., 1., INF, -0.]), floats(d, [2., 2., -2., -2., 0., INF, 1., 1.])];
    all([
        answer_cases("div", &SIGNED, signed, |[x, y]| x / y, |d| ints(d, [3, -3, -3, 3, -1, -1, lowest(d)])),
        answer_cases("div", &UNSIGNED, unsigned, |[x, y]| x / y, |d| ints(d, [3, highest(d) / 2, highest(d)])),
        answer_cases("div", &FLOATS, real, |[x, y]| x / y, |d| floats(d, [INF, -INF, NAN, 2.75, -2.75])),
        answer_cases("rem", &SIGNED, signed, |[x, y]| x % y, |d| ints(d, [1, -1, 1, -1, 5, -5, 0])),
        answer_cases("rem", &UNSIGNED, unsigned, |[x, y]| x % y, |d| ints(d, [1, 1, 5])),
        answer_cases(
            "rem",
            &FLOATS,
            real_rem,
            |[x, y]| x % y,
            |d| floats(d, [1.5, -1.5, 1.5, -1.5, NAN, 1., NAN, -0.]),
        ),
    ])
}

fn overflow() -> Cases {
    let largest = |d| [ints(d, [highest(d), highest(d), 3]), ints(d, [1, highest(d), 4])];
    let smallest = |d| [ints(d, [lowest(d), 2]), ints(d, [1, 1])];
    let edges = |d| [ints(d, [lowest(d), 5, -5])];
    all([
        answer_cases(
            "add_wraps",
            &INTEGERS,
            largest,
            |[x, y]| x + y,
            |d| ints(d, [lowest(d), highest(d).wrapping_mul(2), 7]),
        ),
        answer_cases("sub_wraps", &INTEGERS, smallest, |[x, y]| x - y, |d| ints(d, [highest(d), 1])),
        answer_cases("mul_wraps", &INTEGERS, largest, |[x, y]| x * y, |d| ints(d, [highest(d), 1, 12])),
        answer_cases("neg_wraps", &SIGNED, edges, |[x]| -x, |d| ints(d, [lowest(d), -5, 5])),
        answer_cases("abs_wraps", &SIGNED, edges, |[x]| x.abs(), |d| ints(d, [lowest(d), 5, 5])),
        answer_cases("neg_wraps", &UNSIGNED, |d| [ints(d, [0, 1])], |[x]| -x, |d| ints(d, [0, highest(d)])),
        answer_cases(
            "sum_wraps",
            &INTEGERS,
            |d| [ints(d, [highest(d), 1, 3])],
            |[x]| x.sum(0),
            |d| HostTensor::from(lowest(d) + 3).cast(d),
        ),
        answer_cases("f16_overflows", &[DType::F16], |d| [floats(d, [60_000.])], |[x]| x + x, |d| floats(d, [INF])),
    ])
}

fn powers() -> Cases {
    let whole = |d| [ints(d, [0, 2, 3, 1]), ints(d, [0, 3, 2, 9])];
    let negative = |d| [ints(d, [2, 1, -1, -1, -2]), ints(d, [-1, -1, -1, -2, 3])];
    let real = |d| [floats(d, [0., NAN, 1., -2., -8., 0.]), floats(d, [0., 0., NAN, 3., 0.5, -1.])];
    all([
        answer_cases("pow", &INTEGERS, whole, |[x, y]| x.pow(y), |d| ints(d, [1, 8, 9, 1])),
        answer_cases("pow_to_negative", &SIGNED, negative, |[x, y]| x.pow(y), |d| ints(d, [0, 1, -1, 1, -8])),
        answer_cases("pow", &FLOATS, real, |[x, y]| x.pow(y), |d| floats(d, [1., 1., 1., -8., NAN, INF])),
    ])
}

/// Builds the cases for casts. Casts from float to integer truncate and saturate, and casts between integers wrap. NaN
/// becomes 0 in a cast to an integer type, and `true` in a cast to `bool`.
fn casts() -> Cases {
    let out_of_range =
        |_| [HostTensor::from([1.9f32, -1.9, NAN as f32, f32::INFINITY, f32::NEG_INFINITY, 1e20, -1e20])];
    let mut all = Vec::new();
    for to in INTEGERS {
        let below = if lowest(to) == 0 { 0 } else { -1 };
        let answer = ints(to, [1, below, 0, highest(to), lowest(to), highest(to), lowest(to)]);
        let name = format!("float_to_{to}");
        all.extend(answer_cases(&name, &[DType::F32], out_of_range, move |[x]| x.cast(to), |_| answer.clone())?);
    }
    let wide = |d| [ints(d, [300, -1, 1 << 40])];
    let halfway = |_| [HostTensor::from([1. + 2f64.powi(-24), 1. + 3. * 2f64.powi(-24), 1e300])];
    let nearest = [1f32, 1. + 2f32.powi(-22), f32::INFINITY];
    let truth = |d| [floats(d, [0., -0., NAN, 0.25, -INF])];
    all.extend(answer_cases(
        "wraps_to_u8",
        &[DType::I64],
        wide,
        |[x]| x.cast(DType::U8),
        |_| ints(DType::U8, [44, 255, 0]),
    )?);
    all.extend(answer_cases(
        "wraps_to_i32",
        &[DType::I64],
        wide,
        |[x]| x.cast(DType::I32),
        |_| ints(DType::I32, [300, -1, 0]),
    )?);
    all.extend(answer_cases("rounds_to_f32", &[DType::F64], halfway, |[x]| x.cast(DType::F32), |_| nearest.into())?);
    all.extend(answer_cases(
        "to_bool",
        &FLOATS,
        truth,
        |[x]| x.cast(DType::Bool),
        |_| bools([false, false, true, true, true]),
    )?);
    Ok(all)
}

fn nan() -> Cases {
    let pair = |d| [floats(d, [NAN, 1., NAN, 2.]), floats(d, [1., NAN, NAN, 1.])];
    let row = |d| [floats(d, [1., NAN, 3., NAN])];
    let scalar = |d: DType, number: f64| HostTensor::from(number).cast(d);
    let all_false = |_| bools([false, false, false, true]);
    all([
        answer_cases("max_of_nan", &FLOATS, pair, |[x, y]| x.maximum(y), |d| floats(d, [NAN, NAN, NAN, 2.])),
        answer_cases("min_of_nan", &FLOATS, pair, |[x, y]| x.minimum(y), |d| floats(d, [NAN, NAN, NAN, 1.])),
        answer_cases("reduce_max_of_nan", &FLOATS, row, |[x]| x.max(0), move |d| scalar(d, NAN)),
        answer_cases("reduce_min_of_nan", &FLOATS, row, |[x]| x.min(0), move |d| scalar(d, NAN)),
        answer_cases("argmax_of_nan", &FLOATS, row, |[x]| x.argmax(0), |_| HostTensor::scalar(1i64)),
        answer_cases("nan_is_not_equal", &FLOATS, pair, |[x, y]| x.eq(y), |_| bools([false; 4])),
        answer_cases("nan_differs", &FLOATS, pair, |[x, y]| x.ne(y), |_| bools([true; 4])),
        answer_cases("nan_is_not_greater", &FLOATS, pair, |[x, y]| x.gt(y), all_false),
        answer_cases("nan_is_not_greater_or_equal", &FLOATS, pair, |[x, y]| x.ge(y), all_false),
        answer_cases("nan_has_no_sign", &FLOATS, row, |[x]| x.sign(), |d| floats(d, [1., NAN, 1., NAN])),
        answer_cases(
            "nan_that_is_not_selected",
            &FLOATS,
            row,
            |[x]| funcify::select(x.eq(x), x, 0.0),
            |d| floats(d, [1., 0., 3., 0.]),
        ),
    ])
}

fn zeros() -> Cases {
    let both = |d| [floats(d, [0., -0.])];
    let one = |program: fn(Value) -> Value| move |[x]: [Value; 1]| program(x);
    let same = |d| floats(d, [0., -0.]);
    all([
        answer_cases("neg_of_zero", &FLOATS, both, one(|x| -x), |d| floats(d, [-0., 0.])),
        answer_cases("abs_of_zero", &FLOATS, both, one(|x| x.abs()), |d| floats(d, [0., 0.])),
        answer_cases("sign_of_zero", &FLOATS, both, one(|x| x.sign()), same),
        answer_cases("sqrt_of_zero", &FLOATS, both, one(|x| x.sqrt()), same),
        answer_cases("recip_of_zero", &FLOATS, both, one(|x| x.recip()), |d| floats(d, [INF, -INF])),
        answer_cases("tanh_of_zero", &FLOATS, both, one(|x| x.tanh()), same),
        answer_cases("sin_of_zero", &FLOATS, both, one(|x| x.sin()), same),
        answer_cases("expm1_of_zero", &FLOATS, both, one(|x| x.expm1()), same),
        answer_cases("log1p_of_zero", &FLOATS, both, one(|x| x.log1p()), same),
        answer_cases("zero_times_minus_one", &FLOATS, both, one(|x| x * -1.0), |d| floats(d, [-0., 0.])),
        answer_cases("zero_plus_zero", &FLOATS, both, one(|x| x + 0.0), |d| floats(d, [0., 0.])),
        answer_cases("zeros_are_equal", &FLOATS, both, one(|x| x.eq(0.0)), |_| bools([true, true])),
    ])
}

/// Builds the cases for functions at the ends of their domains.
fn domains() -> Cases {
    let ends = |d| [floats(d, [-INF, -1., 0., INF, NAN])];
    let one = |program: fn(Value) -> Value| move |[x]: [Value; 1]| program(x);
    all([
        answer_cases("log", &FLOATS, ends, one(|x| x.log()), |d| floats(d, [NAN, NAN, -INF, INF, NAN])),
        answer_cases("log1p", &FLOATS, ends, one(|x| x.log1p()), |d| floats(d, [NAN, -INF, 0., INF, NAN])),
        answer_cases("sqrt", &FLOATS, ends, one(|x| x.sqrt()), |d| floats(d, [NAN, NAN, 0., INF, NAN])),
        answer_cases("rsqrt", &FLOATS, ends, one(|x| x.rsqrt()), |d| floats(d, [NAN, NAN, INF, 0., NAN])),
        answer_cases("exp", &FLOATS, ends, one(|x| x.exp()), |d| floats(d, [0., (-1f64).exp(), 1., INF, NAN])),
        answer_cases("tanh", &FLOATS, ends, one(|x| x.tanh()), |d| floats(d, [-1., (-1f64).tanh(), 0., 1., NAN])),
        answer_cases(
            "sigmoid",
            &FLOATS,
            |d| [floats(d, [-INF, 0., INF, NAN])],
            one(|x| x.sigmoid()),
            |d| floats(d, [0., 0.5, 1., NAN]),
        ),
    ])
}

/// Builds the cases for functions with subnormal results, at points x where exp(-x) overflows or almost overflows. The
/// results are scaled by a power of 2 into the normal range. The expected values were computed by mpmath with 60
/// digits.
fn subnormal() -> Cases {
    let double = |_| [HostTensor::from([-710.0750664438754, -712.0, -709.0])];
    let scaled = [50097073.143904634, 7308434.045697423, 146793821.87553743];
    let one = |program: fn(Value) -> Value| move |[x]: [Value; 1]| program(x);
    let negative = scaled.map(|number| -number);
    all([
        answer_cases("sigmoid_is_subnormal", &[DType::F64], double, one(|x| x.sigmoid().ldexp(1050)), |_| {
            scaled.into()
        }),
        answer_cases("softplus_is_subnormal", &[DType::F64], double, one(|x| x.softplus().ldexp(1050)), |_| {
            scaled.into()
        }),
        answer_cases(
            "log_sigmoid_is_subnormal",
            &[DType::F64],
            double,
            one(|x| (-x).log_sigmoid().ldexp(1050)),
            |_| negative.into(),
        ),
    ])
}

/// Builds the cases for reductions. A reduction over no elements returns its identity element. `argmax` returns the
/// index of the first maximum.
fn reductions() -> Cases {
    let nothing = |d| [HostTensor::from_fn(d, &[2, 0], |_| unreachable!("the tensor has no elements"))];
    let two = |program: fn(Value) -> Value| move |[x]: [Value; 1]| program(x);
    all([
        answer_cases("sum_of_nothing", &FLOATS, nothing, two(|x| x.sum(1)), |d| floats(d, [0., 0.])),
        answer_cases("sum_of_nothing", &INTEGERS, nothing, two(|x| x.sum(1)), |d| ints(d, [0, 0])),
        answer_cases("prod_of_nothing", &FLOATS, nothing, two(|x| x.prod(1)), |d| floats(d, [1., 1.])),
        answer_cases("prod_of_nothing", &INTEGERS, nothing, two(|x| x.prod(1)), |d| ints(d, [1, 1])),
        answer_cases("max_of_nothing", &FLOATS, nothing, two(|x| x.max(1)), |d| floats(d, [-INF, -INF])),
        answer_cases("max_of_nothing", &INTEGERS, nothing, two(|x| x.max(1)), |d| ints(d, [lowest(d), lowest(d)])),
        answer_cases("min_of_nothing", &FLOATS, nothing, two(|x| x.min(1)), |d| floats(d, [INF, INF])),
        answer_cases("min_of_nothing", &INTEGERS, nothing, two(|x| x.min(1)), |d| ints(d, [highest(d), highest(d)])),
        answer_cases("mean_of_nothing", &FLOATS, nothing, two(|x| x.mean(1)), |d| floats(d, [NAN, NAN])),
        answer_cases("any_of_nothing", &[DType::Bool], nothing, two(|x| x.any(1)), |_| bools([false, false])),
        answer_cases("all_of_nothing", &[DType::Bool], nothing, two(|x| x.all(1)), |_| bools([true, true])),
        answer_cases(
            "argmax_takes_the_first",
            &INTEGERS,
            |d| [ints(d, [1, 5, 3, 5])],
            two(|x| x.argmax(0)),
            |_| HostTensor::scalar(1i64),
        ),
        answer_cases(
            "infinities_cancel",
            &FLOATS,
            |d| [floats(d, [INF, -INF])],
            two(|x| x.sum(0)),
            |d| HostTensor::from(NAN).cast(d),
        ),
    ])
}
