//! Exponentials, logarithms and related functions, generic over [`Arithmetic`]: they run on vectors, or are translated
//! to machine code.
//!
//! The table shows the largest error that the tests allow, in units in the last place of the result. The tests compare
//! f32 and f64 results with those of the standard library's f64 functions.
//!
//! | function | f32 | f64 | method |
//! |---|---|---|---|
//! | `exp` | 1.0 | 1.0 | 2^n times a polynomial; supports subnormal results |
//! | `expm1` | 1.5 | 2.0 | 2^n times a polynomial, plus 2^n - 1 |
//! | `tanh` | 2.5 | 3.0 | -t / (t + 2) with t = expm1(-2 abs(x)) |
//! | `sigmoid` | 2.5 | 3.0 | computed from exp(-abs(x)), which never overflows |
//! | `log` | 1.0 | 1.0 | fdlibm's series of f / (2 + f) |
//! | `log1p` | 2.0 | 2.0 | log(1 + x), corrected for the rounding error of 1 + x |
//! | `sin`, `cos` | 2.5 | 2.0 | range reduction by pi / 2 in four parts; the standard library for large angles |
//!
//! Special values follow the definitions in `funcify-core`: NaN yields NaN, functions with f(0) = 0 preserve the sign
//! of zero, and results that overflow are infinite.

use super::arithmetic::Arithmetic;
use super::special_tables::SpecialTable;
use crate::float::Float;

/// The constants that the functions of this module use, for an element type.
pub trait MathTable: SpecialTable {
    /// ln 2, split into high bits and low bits.
    const LN_2: [Self; 2];
    /// 1 / ln 2.
    const LOG2_E: Self;
    /// The argument of exp below which the result is 0, and the argument above which it is infinite.
    const EXP_RANGE: [Self; 2];
    /// The coefficients of (exp(r) - 1 - r) / r^2 for abs(r) up to ln 2 / 2, in ascending order.
    const EXP_SERIES: &'static [Self];
    /// ln 2 for `log`, split into a part whose products with exponents are exact, and the remainder.
    const LOG_LN_2: [Self; 2];
    /// The coefficients of the series that `log` evaluates, as a polynomial in (f / (2 + f))^2 with f = c - 1 (see
    /// `decompose`).
    const LOG_SERIES: &'static [Self];
    /// The bits of sqrt(1/2). For f64, the lower 32 bits are 0.
    const ROOT_HALF: u64;
    /// The smallest normal number.
    const MIN_NORMAL: Self;
    /// The coefficients of (sin(r) - r) / r^3 for abs(r) up to pi / 4, as a polynomial in r^2.
    const SIN_SERIES: &'static [Self];
    /// The coefficients of (cos(r) - 1 + r^2 / 2) / r^4 for abs(r) up to pi / 4, as a polynomial in r^2.
    const COS_SERIES: &'static [Self];
    /// pi / 2, split into four parts. For angles below [`MAX_FAST_ANGLE`](MathTable::MAX_FAST_ANGLE), the product of
    /// the quadrant number with each part except the last is exact.
    const HALF_PI: [Self; 4];
    /// The maximum magnitude of angles for which `sin` and `cos` are vectorized.
    const MAX_FAST_ANGLE: Self;
}

impl MathTable for f32 {
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const EXP_RANGE: [f32; 2] = [-105.0, 90.0];
    const EXP_SERIES: &'static [f32] =
        &[0.5, 1.666_666_5e-1, 4.166_579_6e-2, 8.333_452e-3, 1.398_199_9e-3, 1.987_569_1e-4];
    const LOG_LN_2: [f32; 2] = [0.693_138_1, 9.058_001e-6];
    const LOG_SERIES: &'static [f32] = &[0.666_666_6, 0.400_009_72, 0.284_987_87, 0.242_790_79];
    const ROOT_HALF: u64 = 0x3f35_04f3;
    const MIN_NORMAL: f32 = f32::MIN_POSITIVE;
    const SIN_SERIES: &'static [f32] = &[-1.666_665_5e-1, 8.332_161e-3, -1.951_529_6e-4];
    const COS_SERIES: &'static [f32] = &[4.166_664_6e-2, -1.388_731_6e-3, 2.443_315_7e-5];
    const HALF_PI: [f32; 4] = [1.570_678_7, 1.176_148_65e-4, 9.920_313e-10, 6.223_372e-14];
    const MAX_FAST_ANGLE: f32 = 1500.0;
}

impl MathTable for f64 {
    const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
    const LOG2_E: f64 = std::f64::consts::LOG2_E;
    const EXP_RANGE: [f64; 2] = [-746.0, 711.0];
    const EXP_SERIES: &'static [f64] = &[
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
        1.0 / 40320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0,
        1.0 / 39_916_800.0,
        1.0 / 479_001_600.0,
        1.0 / 6_227_020_800.0,
    ];
    const LOG_LN_2: [f64; 2] = Self::LN_2;
    const LOG_SERIES: &'static [f64] = &[
        6.666_666_666_666_735e-1,
        3.999_999_999_940_942e-1,
        2.857_142_874_366_239e-1,
        2.222_219_843_214_978_4e-1,
        1.818_357_216_161_805e-1,
        1.531_383_769_920_937_3e-1,
        1.479_819_860_511_658_6e-1,
    ];
    const ROOT_HALF: u64 = 0x3fe6_a09e_0000_0000;
    const MIN_NORMAL: f64 = f64::MIN_POSITIVE;
    const SIN_SERIES: &'static [f64] = &[
        -1.666_666_666_666_663_2e-1,
        8.333_333_333_322_49e-3,
        -1.984_126_982_985_795e-4,
        2.755_731_370_707_006_8e-6,
        -2.505_076_025_340_686_3e-8,
        1.589_690_995_211_55e-10,
    ];
    const COS_SERIES: &'static [f64] = &[
        4.166_666_666_666_66e-2,
        -1.388_888_888_887_411e-3,
        2.480_158_728_947_673e-5,
        -2.755_731_435_139_066_3e-7,
        2.087_572_321_298_175e-9,
        -1.135_964_755_778_819_5e-11,
    ];
    const HALF_PI: [f64; 4] =
        [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_711_166_5e-21, 8.478_427_660_368_9e-32];
    const MAX_FAST_ANGLE: f64 = 1e5;
}

/// Evaluates the polynomial c0 + c1 x + c2 x^2 + ...
#[inline(always)]
pub(super) fn polynomial<T: Float, M: Arithmetic<T>>(m: M, x: M::Vector, coefficients: &[T]) -> M::Vector {
    let mut sum = m.splat(T::ZERO);
    for (index, coefficient) in coefficients.iter().rev().enumerate() {
        let coefficient = m.splat(*coefficient);
        sum = if index == 0 { coefficient } else { m.mul_add(sum, x, coefficient) };
    }
    sum
}

/// Rounds x to the nearest integer, with ties to even, for abs(x) less than half of
/// [`WHOLE`](crate::float::Constants::WHOLE).
#[inline(always)]
pub fn nearest<T: Float, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let rounder = m.splat(T::ROUNDER);
    m.sub(m.add(x, rounder), rounder)
}

/// Decomposes x into n ln 2 + r, and returns n and exp(r) - 1.
#[inline(always)]
fn reduced_expm1<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> (M::Vector, M::Vector) {
    let rounder = m.splat(T::ROUNDER);
    let n = m.sub(m.mul_add(x, m.splat(T::LOG2_E), rounder), rounder);
    let r = m.mul_add(n, m.neg(m.splat(T::LN_2[0])), x);
    let r = m.mul_add(n, m.neg(m.splat(T::LN_2[1])), r);
    let series = polynomial(m, r, T::EXP_SERIES);
    (n, m.mul_add(m.mul(r, r), series, r))
}

/// Returns 2^n, which must be a normal number, for an integer n.
#[inline(always)]
pub(super) fn power_of_two<T: MathTable, M: Arithmetic<T>>(m: M, n: M::Vector) -> M::Vector {
    let bias = m.splat(T::from_f64(T::EXPONENT_BIAS as f64));
    m.of_bits(m.to_exponent(m.add(n, bias)))
}

/// Computes exp(x). Multiplies by 2^n in two steps, because 2^n itself may overflow or be subnormal. A subnormal result
/// is rounded only once, in the second step.
#[inline(always)]
pub fn exp<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let [low, high] = T::EXP_RANGE;
    let x = m.at_most(m.splat(high), m.at_least(m.splat(low), x));
    let (n, fraction) = reduced_expm1(m, x);
    let (first, second) = m.powers_of_two(n);
    m.mul(m.mul_add(first, fraction, first), second)
}

/// Computes exp(x) - 1 for x between -50 and 40.
#[inline(always)]
pub(super) fn middle_expm1<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (n, fraction) = reduced_expm1(m, x);
    let power = power_of_two(m, n);
    m.mul_add(power, fraction, m.sub(power, m.splat(T::ONE)))
}

/// Computes exp(x) - 1.
#[inline(always)]
pub fn expm1<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let bounded = m.at_least(m.splat(T::from_f64(-50.0)), x);
    let y = middle_expm1(m, bounded);
    let y = m.select(m.less(m.splat(T::from_f64(40.0)), x), exp(m, x), y);
    m.select(m.equal(x, m.splat(T::ZERO)), x, y)
}

/// Computes the hyperbolic tangent.
#[inline(always)]
pub fn tanh<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let magnitude = m.abs(x);
    let doubled = m.mul(magnitude, m.splat(T::from_f64(-2.0)));
    let t = middle_expm1(m, m.at_least(m.splat(T::from_f64(-50.0)), doubled));
    let y = m.div(m.sub(m.splat(T::ZERO), t), m.add(t, m.splat(T::from_f64(2.0))));
    m.with_sign(y, x)
}

/// Computes 1 / (1 + exp(-x)).
#[inline(always)]
pub fn sigmoid<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let one = m.splat(T::ONE);
    let decay = exp(m, m.neg(m.abs(x)));
    let numerator = m.select(m.less(x, m.splat(T::ZERO)), decay, one);
    m.div(numerator, m.add(one, decay))
}

/// Decomposes a positive, finite number x into 2^e c, with c between sqrt(1/2) and sqrt(2), and returns e and c.
#[inline(always)]
pub(super) fn decompose<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> (M::Vector, M::Vector) {
    let bias = T::from_f64(T::EXPONENT_BIAS as f64);
    // Scale subnormal numbers up, so that they become normal.
    let lift = 2 + T::FRACTION_BITS as i32;
    let small = m.less(x, m.splat(T::MIN_NORMAL));
    let x = m.select(small, m.mul(x, m.splat(T::from_f64(2f64.powi(lift)))), x);
    let bias = m.select(small, m.splat(T::from_f64(bias.to_f64() + f64::from(lift))), m.splat(bias));
    let one = T::EXPONENT_BIAS << T::FRACTION_BITS;
    let bits = m.add_words(m.bits(x), m.splat_word(one - T::ROOT_HALF));
    let e = m.sub(m.exponent_field(bits), bias);
    let fraction = m.and(bits, m.splat_word((1 << T::FRACTION_BITS) - 1));
    (e, m.of_bits(m.add_words(fraction, m.splat_word(T::ROOT_HALF))))
}

/// Computes the natural logarithm of a positive, finite number.
#[inline(always)]
pub(super) fn positive_log<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (e, c) = decompose(m, x);
    let f = m.sub(c, m.splat(T::ONE));
    let s = m.div(f, m.add(f, m.splat(T::from_f64(2.0))));
    let z = m.mul(s, s);
    let series = m.mul(z, polynomial(m, z, T::LOG_SERIES));
    let half_square = m.mul(m.mul(f, f), m.splat(T::from_f64(0.5)));
    let small_terms = m.mul_add(s, m.add(half_square, series), m.mul(e, m.splat(T::LOG_LN_2[1])));
    let rest = m.sub(m.sub(half_square, small_terms), f);
    m.sub(m.mul(e, m.splat(T::LOG_LN_2[0])), rest)
}

/// Computes the natural logarithm.
#[inline(always)]
pub fn log<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let y = positive_log(m, x);
    // Return infinity and NaN unchanged.
    let y = m.select(m.less(x, m.splat(T::INFINITY)), y, x);
    let y = m.select(m.equal(x, m.splat(T::ZERO)), m.neg(m.splat(T::INFINITY)), y);
    m.select(m.less(x, m.splat(T::ZERO)), m.splat(T::NAN), y)
}

/// Computes log(1 + x).
#[inline(always)]
pub fn log1p<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let one = m.splat(T::ONE);
    let sum = m.add(x, one);
    let lost = m.div(m.sub(x, m.sub(sum, one)), sum);
    let y = m.add(positive_log(m, sum), lost);
    let y = m.select(m.less(x, m.splat(T::INFINITY)), y, x);
    let y = m.select(m.equal(x, m.splat(T::ZERO)), x, y);
    let minus_one = m.neg(one);
    let y = m.select(m.equal(x, minus_one), m.neg(m.splat(T::INFINITY)), y);
    m.select(m.less(x, minus_one), m.splat(T::NAN), y)
}

/// Returns 0 for an even integer, and 1 or -1 for an odd one.
#[inline(always)]
pub(super) fn parity<T: Float, M: Arithmetic<T>>(m: M, n: M::Vector) -> M::Vector {
    let pairs = nearest(m, m.mul(n, m.splat(T::from_f64(0.5))));
    m.sub(n, m.add(pairs, pairs))
}

/// Computes the sine (`quarter` 0) or the cosine (`quarter` 1) of x, for abs(x) up to
/// [`MAX_FAST_ANGLE`](MathTable::MAX_FAST_ANGLE).
#[inline(always)]
pub fn sin_of_few_turns<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector, quarter: f64) -> M::Vector {
    let zero = m.splat(T::ZERO);
    let half = m.splat(T::from_f64(0.5));
    let n = nearest(m, m.mul(x, m.splat(T::from_f64(std::f64::consts::FRAC_2_PI))));
    let mut r = x;
    for part in T::HALF_PI {
        r = m.mul_add(n, m.neg(m.splat(part)), r);
    }
    let square = m.mul(r, r);
    let sine = m.mul(square, polynomial(m, square, T::SIN_SERIES));
    // Select r itself if it is zero, because the series would lose the sign of -0.
    let sine = m.select(m.equal(r, m.splat(T::ZERO)), r, m.mul_add(sine, r, r));
    let cosine = m.mul(m.mul(square, square), polynomial(m, square, T::COS_SERIES));
    let cosine = m.add(m.sub(m.splat(T::ONE), m.mul(square, half)), cosine);
    let quadrant = m.add(n, m.splat(T::from_f64(quarter)));
    let odd = m.abs(parity(m, quadrant));
    let y = m.select(m.equal(odd, zero), sine, cosine);
    let half_turns = m.mul(m.sub(quadrant, odd), half);
    m.select(m.equal(parity(m, half_turns), zero), y, m.neg(y))
}

/// Rounds x, of any magnitude, to the nearest integer, with ties to even.
#[inline(always)]
pub fn round<T: Float, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let whole = m.splat(T::WHOLE);
    let magnitude = m.abs(x);
    let rounded = m.sub(m.add(magnitude, whole), whole);
    m.select(m.less(magnitude, whole), m.with_sign(rounded, x), x)
}

/// Rounds x toward zero.
#[inline(always)]
pub fn trunc<T: Float, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let magnitude = m.abs(x);
    let rounded = round(m, magnitude);
    let less = m.sub(rounded, m.splat(T::ONE));
    m.with_sign(m.select(m.less(magnitude, rounded), less, rounded), x)
}

/// Returns the largest integer that is at most x.
#[inline(always)]
pub fn floor<T: Float, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let rounded = round(m, x);
    let less = m.sub(rounded, m.splat(T::ONE));
    m.select(m.less(x, rounded), less, rounded)
}

/// Returns the smallest integer that is at least x.
#[inline(always)]
pub fn ceil<T: Float, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    m.neg(floor(m, m.neg(x)))
}
