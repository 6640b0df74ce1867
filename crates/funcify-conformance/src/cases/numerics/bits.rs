//! The bits of floats: signs, neighbours, fractions and exponents. Where a tolerance would hide an error, results are
//! compared as integers, or as multiples of the smallest positive number of the type.

use funcify::{DType, HostTensor, Scalar, Value, concat, grad};

use super::{Cases, FLOATS, INF, INTEGERS, NAN, all, answer_cases, bools, floats, highest, ints};

pub(super) fn cases() -> Cases {
    Ok([bitcasts()?, signs()?, neighbours()?, parts()?, scales()?, slopes()?, products()?].concat())
}

const WORDS: [DType; 2] = [DType::I32, DType::U32];
const WIDE: [DType; 2] = [DType::F32, DType::F64];
const HALVES: [DType; 2] = [DType::F16, DType::BF16];

/// Returns the integer type for comparing the bits of floats of type `dtype`.
fn bits_of(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::I64 } else { DType::I32 }
}

fn bitcasts() -> Cases {
    // NaNs of both signs with payloads, infinities, subnormals, zeros of both signs, and pi.
    let words = [0x7fc1_2345, 0xffc0_0001, 0x7f80_0000, 0xff80_0000, 1, 0x8040_0000, 0, 0x8000_0000, 0x4049_0fdb];
    let longs = words.map(|word: i64| word << 32 | if word == 0x7f80_0000 { 0 } else { 7 });
    let one = |x| [x];
    let numbers = |d| [floats(d, [1.0, -2.5, -0.0, INF, -INF])];
    let single = [0x3f80_0000u32, 0xc020_0000, 0x8000_0000, 0x7f80_0000, 0xff80_0000];
    let double = [0x3ff0u64, 0xc004, 0x8000, 0x7ff0, 0xfff0].map(|high| (high << 48) as i64);
    all([
        answer_cases(
            "bits_stay",
            &WORDS,
            |d| one(ints(d, words)),
            |[x]| x.bitcast(DType::F32).bitcast(x.dtype()),
            |d| ints(d, words),
        ),
        answer_cases(
            "bits_stay",
            &[DType::I64],
            |d| one(ints(d, longs)),
            |[x]| x.bitcast(DType::F64).bitcast(DType::I64),
            |d| ints(d, longs),
        ),
        answer_cases(
            "bits_of_floats",
            &[DType::F32],
            numbers,
            |[x]| x.bitcast(DType::U32),
            |_| HostTensor::from(single),
        ),
        answer_cases(
            "bits_of_floats",
            &[DType::F64],
            numbers,
            |[x]| x.bitcast(DType::I64),
            |_| HostTensor::from(double),
        ),
        answer_cases(
            "bits_as_floats",
            &[DType::U32],
            |_| one(HostTensor::from(single)),
            |[x]| x.bitcast(DType::F32),
            |_| floats(DType::F32, [1.0, -2.5, -0.0, INF, -INF]),
        ),
        answer_cases(
            "bits_as_integers",
            &[DType::U32],
            |d| one(ints(d, words)),
            |[x]| x.bitcast(DType::I32),
            |_| ints(DType::I32, words),
        ),
    ])
}

fn signs() -> Cases {
    let both = |d| [floats(d, [1., -1., 0., -0., NAN, -NAN, INF, -INF])];
    let negative = |_| bools([false, true, false, true, false, true, false, true]);
    let pair = |d| [floats(d, [3., -3., 0., INF, -2.]), floats(d, [-1., 1., -0., -INF, -5.])];
    let of_nan = |d| [floats(d, [NAN, -NAN, 1., 1.]), floats(d, [-1., 0., -NAN, NAN])];
    all([
        answer_cases("signbit", &FLOATS, both, |[x]| x.signbit(), negative),
        answer_cases("copysign", &FLOATS, pair, |[x, y]| x.copysign(y), |d| floats(d, [-3., 3., -0., -INF, -2.])),
        answer_cases(
            "copysign_of_nan",
            &FLOATS,
            of_nan,
            |[x, y]| x.copysign(y).signbit(),
            |_| bools([true, false, true, false]),
        ),
    ])
}

/// Returns the exponent of a type's smallest positive number, the exponent of its epsilon, and its largest number.
fn range(dtype: DType) -> (i32, i32, f64) {
    match dtype {
        DType::F16 => (-24, -10, 65504.0),
        DType::BF16 => (-133, -7, 2f64.powi(128) - 2f64.powi(120)),
        DType::F32 => (-149, -23, f32::MAX.into()),
        _ => (-1074, -52, f64::MAX),
    }
}

/// Computes 2 to the power of `exponent`. Splitting the power avoids overflow if the result is subnormal.
fn power(exponent: i32) -> f64 {
    2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}

fn neighbours() -> Cases {
    let pair = |d: DType| {
        let (_, _, largest) = range(d);
        [floats(d, [1., 1., 0., -0., 0., largest, -INF, NAN, 2.]), floats(d, [2., 0., 1., -1., -0., INF, 0., 1., NAN])]
    };
    // The bits of neighbouring positive floats, read as integers, differ by 1.
    let exact = |d: DType| {
        let [x, _] = pair(d);
        let bits: Vec<i64> = match d {
            DType::F64 => x.to_f64_vec().iter().map(|x| x.to_bits() as i64).collect(),
            _ => x.to_f64_vec().iter().map(|x| i64::from((*x as f32).to_bits() as i32)).collect(),
        };
        let lowest = if d == DType::F64 { i64::MIN } else { i32::MIN.into() };
        let steps = [bits[0] + 1, bits[1] - 1, 1, lowest + 1, lowest, bits[5] + 1, bits[6] - 1];
        ints(bits_of(d), steps)
    };
    let first = |x: Value| x.slice(0, ..7).bitcast(bits_of(x.dtype()));
    // The operands are close to zero, where the distance to a neighbour is a small multiple of the smallest positive
    // number.
    let near = |d: DType| {
        let (smallest, epsilon, _) = range(d);
        let (unit, normal) = (2f64.powi(smallest), 2f64.powi(smallest - epsilon));
        [floats(d, [0., unit, -unit, normal, normal, 2. * normal, 3. * unit]), floats(d, [1., 0., 1., 1., 0., 1., 0.])]
    };
    let scaled = |[x, toward]: [Value; 2]| {
        let (smallest, ..) = range(x.dtype());
        let wide = |x: Value| x.cast(DType::F32).ldexp(-i64::from(smallest));
        wide(x.nextafter(toward)) - wide(x)
    };
    let largest = |d: DType| [floats(d, [range(d).2, -INF, 1., NAN, 1.]), floats(d, [INF, 0., 2., 1., NAN])];
    all([
        answer_cases("nextafter", &WIDE, pair, move |[x, y]| first(x.nextafter(y)), exact),
        answer_cases("nextafter_near_zero", &HALVES, near, scaled, |_| {
            floats(DType::F32, [1., -1., 1., 1., -1., 2., -1.])
        }),
        answer_cases(
            "nextafter_at_the_ends",
            &FLOATS,
            largest,
            // The difference between 1 and its neighbour is below the tolerance, so the case also returns this
            // difference.
            |[x, y]| concat(&[x.nextafter(y), (x.nextafter(y) - x).slice(0, 2..3)], 0),
            |d| {
                let (_, epsilon, largest) = range(d);
                floats(d, [INF, -largest, 1., NAN, NAN, 2f64.powi(epsilon)])
            },
        ),
    ])
}

fn parts() -> Cases {
    let numbers = |d: DType| {
        let (smallest, _, largest) = range(d);
        [floats(d, [8., -0.75, 0., -0., INF, -INF, NAN, power(smallest), largest])]
    };
    let last = |d: DType| 1.0 - 2f64.powi(range(d).1 - 1);
    all([
        answer_cases(
            "fraction",
            &FLOATS,
            numbers,
            |[x]| x.frexp().0,
            move |d| floats(d, [0.5, -0.75, 0., -0., INF, -INF, NAN, 0.5, last(d)]),
        ),
        answer_cases(
            "exponent",
            &FLOATS,
            numbers,
            |[x]| x.frexp().1,
            |d| {
                let (smallest, _, largest) = range(d);
                ints(DType::I32, [4, 0, 0, 0, 0, 0, 0, i64::from(smallest) + 1, largest.log2().round() as i64])
            },
        ),
    ])
}

fn scales() -> Cases {
    let by = |exponents: [i64; 7]| move |d| [floats(d, [1., -3., 0., -0., INF, NAN, 1.5]), ints(DType::I32, exponents)];
    let plain = by([3, -1, 5, -5, 1, -1, i32::MAX.into()]);
    // The results are close to the smallest positive number. They must be rounded only once, with ties to even.
    let down = |d: DType| {
        let (smallest, epsilon, _) = range(d);
        let exponents = [0, 0, -1, -1, -1, -2, -epsilon - 1].map(|more| i64::from(smallest + more));
        [floats(d, [1., 3., 1., 3., 1.25, 3., 2.6 * power(epsilon)]), ints(DType::I32, exponents)]
    };
    let exact = |[x, exponent]: [Value; 2]| x.ldexp(exponent).bitcast(bits_of(x.dtype()));
    let multiples = |[x, exponent]: [Value; 2]| {
        let (smallest, ..) = range(x.dtype());
        x.ldexp(exponent).cast(DType::F32).ldexp(-i64::from(smallest))
    };
    all([
        answer_cases("ldexp", &FLOATS, plain, |[x, e]| x.ldexp(e), |d| floats(d, [8., -1.5, 0., -0., INF, NAN, INF])),
        answer_cases("ldexp_is_rounded_once", &WIDE, down, exact, |d| ints(bits_of(d), [1, 3, 0, 2, 1, 1, 1])),
        answer_cases("ldexp_is_rounded_once", &HALVES, down, multiples, |_| {
            floats(DType::F32, [1., 3., 0., 2., 1., 1., 1.])
        }),
    ])
}

/// Builds the cases for the derivatives of `frexp`, `ldexp` and `copysign`. These derivatives are the same as in JAX.
/// The derivative is 2^-exponent for the fraction of `frexp`, and 2^exponent for `ldexp`. For `copysign`, the
/// derivative with respect to the magnitude operand is the derivative of `abs(x)`, multiplied by the new sign. The
/// derivative with respect to the sign operand is 0.
fn slopes() -> Cases {
    let numbers = |d| [floats(d, [12., -0.75, 0.])];
    let pair = |d| [floats(d, [2., -2., 0.]), floats(d, [-1., -0., -1.])];
    all([
        answer_cases(
            "slope_of_fraction",
            &FLOATS,
            numbers,
            |[x]| grad(x, |x| x.frexp().0.sum(0)),
            |d| floats(d, [0.0625, 1., 1.]),
        ),
        answer_cases(
            "slope_of_ldexp",
            &FLOATS,
            numbers,
            |[x]| grad(x, |x| x.ldexp(x.frexp().1).sum(0)),
            |d| floats(d, [16., 1., 1.]),
        ),
        answer_cases(
            "slope_of_copysign",
            &FLOATS,
            pair,
            |[x, y]| grad(x, |x| x.copysign(y).sum(0)),
            |d| floats(d, [-1., 1., -0.]),
        ),
        answer_cases(
            "slope_by_the_sign",
            &FLOATS,
            pair,
            |[x, y]| grad(y, |y| x.copysign(y).sum(0)),
            |d| floats(d, [0., 0., 0.]),
        ),
    ])
}

/// Builds the cases for matrix products of integers, in which both the products and their sums wrap.
fn products() -> Cases {
    let largest = |d| [ints(d, [highest(d), highest(d), 2]), ints(d, [highest(d), 2, highest(d)])];
    let answer = |d| {
        let sum = highest(d).wrapping_mul(highest(d)).wrapping_add(highest(d).wrapping_mul(4));
        HostTensor::from_fn(d, &[], |_| Scalar::Int(sum))
    };
    answer_cases("matmul_wraps", &INTEGERS, largest, |[x, y]| x.matmul(y), answer)
}
