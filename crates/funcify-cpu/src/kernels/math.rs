//! Exponentials, logarithms and what follows from them, on registers.
//!
//! Errors are the largest that the tests see against f64 (for f64 against the standard library), in units in the last
//! place of the result:
//!
//! | function | f32 | f64 | method |
//! |---|---|---|---|
//! | `exp` | 1.0 | 1.0 | 2^n times a polynomial; subnormal results are kept |
//! | `expm1` | 1.5 | 2.0 | 2^n times a polynomial, plus 2^n - 1 |
//! | `tanh` | 2.5 | 3.0 | -t / (t + 2) with t = expm1(-2 abs(x)) |
//! | `sigmoid` | 2.5 | 3.0 | through exp(-abs(x)), so that no exponential overflows |
//! | `log` | 1.0 | 1.0 | fdlibm's series of f / (2 + f) |
//! | `log1p` | 2.0 | 2.0 | log(1 + x), corrected by what 1 + x lost |
//! | `sin`, `cos` | 2.5 | 2.0 | pi / 2 in four parts; beyond a few turns the standard library, element by element |
//!
//! Special values follow the core's table: NaN gives NaN, signed zeros are kept where the function is odd at 0, results
//! that are too large are infinite.

use pulp::Simd;

use crate::float::Float;

/// Numbers of the methods, for one element type.
pub trait MathTable: Float {
    /// ln 2, without its low bits, and these.
    const LN_2: [Self; 2];
    /// 1 / ln 2.
    const LOG2_E: Self;
    /// Below the first exp is 0, above the second it is infinite.
    const EXP_RANGE: [Self; 2];
    /// (exp(r) - 1 - r) / r^2 for abs(r) up to ln 2 / 2, the lowest power first.
    const EXP_SERIES: &'static [Self];
    /// ln 2 for `log`, whose products with exponents are exact, and the rest.
    const LOG_LN_2: [Self; 2];
    /// The series of `log`, the lowest power first.
    const LOG_SERIES: &'static [Self];
    /// The bits of sqrt(1/2), those below the upper half 0.
    const ROOT_HALF: u64;
    /// The smallest normal number.
    const MIN_NORMAL: Self;
    /// (sin(r) - r) / r^3 for abs(r) up to pi / 4, as powers of r^2.
    const SIN_SERIES: &'static [Self];
    /// (cos(r) - 1 + r^2 / 2) / r^4 for abs(r) up to pi / 4, as powers of r^2.
    const COS_SERIES: &'static [Self];
    /// pi / 2 as a sum: products of all but the last with quadrants below [`FEW_TURNS`](MathTable::FEW_TURNS) are exact.
    const HALF_PI: [Self; 4];
    /// Up to here `sin` and `cos` work on registers.
    const FEW_TURNS: Self;
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
    const FEW_TURNS: f32 = 1500.0;
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
    const FEW_TURNS: f64 = 1e5;
}

/// c0 + c1 x + c2 x^2 + …
#[inline(always)]
fn polynomial<T: Float, S: Simd>(simd: S, x: T::Vector<S>, coefficients: &[T]) -> T::Vector<S> {
    let mut sum = T::splat(simd, T::ZERO);
    for (index, coefficient) in coefficients.iter().rev().enumerate() {
        let coefficient = T::splat(simd, *coefficient);
        sum = if index == 0 { coefficient } else { T::mul_add(simd, sum, x, coefficient) };
    }
    sum
}

/// The nearest whole number, for small ones.
#[inline(always)]
pub(crate) fn nearest<T: Float, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let rounder = T::splat(simd, T::ROUNDER);
    T::sub(simd, T::add(simd, x, rounder), rounder)
}

/// x as n ln 2 + r, and exp(r) - 1.
#[inline(always)]
fn reduced_expm1<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>) -> (T::Vector<S>, T::Vector<S>) {
    let rounder = T::splat(simd, T::ROUNDER);
    let n = T::sub(simd, T::mul_add(simd, x, T::splat(simd, T::LOG2_E), rounder), rounder);
    let r = T::mul_add(simd, n, T::neg(simd, T::splat(simd, T::LN_2[0])), x);
    let r = T::mul_add(simd, n, T::neg(simd, T::splat(simd, T::LN_2[1])), r);
    let series = polynomial::<T, S>(simd, r, T::EXP_SERIES);
    (n, T::mul_add(simd, T::mul(simd, r, r), series, r))
}

/// 2^n for whole n that give a normal number.
#[inline(always)]
fn power_of_two<T: MathTable, S: Simd>(simd: S, n: T::Vector<S>) -> T::Vector<S> {
    let bias = T::splat(simd, T::from_f64(T::EXPONENT_BIAS as f64));
    T::of_bits(simd, T::to_exponent(simd, T::add(simd, n, bias)))
}

/// exp(x). 2^n is the product of two powers, so that subnormal and infinite results are rounded once.
#[inline(always)]
pub(crate) fn exp<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let [low, high] = T::EXP_RANGE;
    let x = T::at_most(simd, T::splat(simd, high), T::at_least(simd, T::splat(simd, low), x));
    let (n, fraction) = reduced_expm1::<T, S>(simd, x);
    let (first, second) = T::powers_of_two(simd, n);
    T::mul(simd, T::mul_add(simd, first, fraction, first), second)
}

/// exp(x) - 1 for x between -50 and 40.
#[inline(always)]
fn middle_expm1<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let (n, fraction) = reduced_expm1::<T, S>(simd, x);
    let power = power_of_two::<T, S>(simd, n);
    T::mul_add(simd, power, fraction, T::sub(simd, power, T::splat(simd, T::ONE)))
}

/// exp(x) - 1.
#[inline(always)]
pub(crate) fn expm1<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let bounded = T::at_least(simd, T::splat(simd, T::from_f64(-50.0)), x);
    let y = middle_expm1::<T, S>(simd, bounded);
    let y = T::select(simd, T::less(simd, T::splat(simd, T::from_f64(40.0)), x), exp::<T, S>(simd, x), y);
    T::select(simd, T::equal(simd, x, T::splat(simd, T::ZERO)), x, y)
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let magnitude = T::abs(simd, x);
    let doubled = T::mul(simd, magnitude, T::splat(simd, T::from_f64(-2.0)));
    let t = middle_expm1::<T, S>(simd, T::at_least(simd, T::splat(simd, T::from_f64(-50.0)), doubled));
    let y = T::div(simd, T::sub(simd, T::splat(simd, T::ZERO), t), T::add(simd, t, T::splat(simd, T::from_f64(2.0))));
    T::with_sign(simd, y, x)
}

/// 1 / (1 + exp(-x)).
#[inline(always)]
pub(crate) fn sigmoid<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let one = T::splat(simd, T::ONE);
    let decay = exp::<T, S>(simd, T::neg(simd, T::abs(simd, x)));
    let numerator = T::select(simd, T::less(simd, x, T::splat(simd, T::ZERO)), decay, one);
    T::div(simd, numerator, T::add(simd, one, decay))
}

/// The natural logarithm of a positive, finite number.
#[inline(always)]
fn positive_log<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let bias = T::from_f64(T::EXPONENT_BIAS as f64);
    // A subnormal number becomes a normal one.
    let lift = 2 + T::FRACTION_BITS as i32;
    let small = T::less(simd, x, T::splat(simd, T::MIN_NORMAL));
    let x = T::select(simd, small, T::mul(simd, x, T::splat(simd, T::from_f64(2f64.powi(lift)))), x);
    let bias =
        T::select(simd, small, T::splat(simd, T::from_f64(bias.to_f64() + f64::from(lift))), T::splat(simd, bias));
    // x = 2^e m with m between sqrt(1/2) and sqrt(2).
    let one = T::EXPONENT_BIAS << T::FRACTION_BITS;
    let bits = T::add_words(simd, T::bits(simd, x), T::splat_word(simd, one - T::ROOT_HALF));
    let e = T::sub(simd, T::exponent_field(simd, bits), bias);
    let fraction = T::and(simd, bits, T::splat_word(simd, (1 << T::FRACTION_BITS) - 1));
    let m = T::of_bits(simd, T::add_words(simd, fraction, T::splat_word(simd, T::ROOT_HALF)));
    let f = T::sub(simd, m, T::splat(simd, T::ONE));
    let s = T::div(simd, f, T::add(simd, f, T::splat(simd, T::from_f64(2.0))));
    let z = T::mul(simd, s, s);
    let series = T::mul(simd, z, polynomial::<T, S>(simd, z, T::LOG_SERIES));
    let half_square = T::mul(simd, T::mul(simd, f, f), T::splat(simd, T::from_f64(0.5)));
    let small_terms =
        T::mul_add(simd, s, T::add(simd, half_square, series), T::mul(simd, e, T::splat(simd, T::LOG_LN_2[1])));
    let rest = T::sub(simd, T::sub(simd, half_square, small_terms), f);
    T::sub(simd, T::mul(simd, e, T::splat(simd, T::LOG_LN_2[0])), rest)
}

/// The natural logarithm.
#[inline(always)]
pub(crate) fn log<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let y = positive_log::<T, S>(simd, x);
    // Infinity and NaN are their own logarithms.
    let y = T::select(simd, T::less(simd, x, T::splat(simd, T::INFINITY)), y, x);
    let y = T::select(simd, T::equal(simd, x, T::splat(simd, T::ZERO)), T::neg(simd, T::splat(simd, T::INFINITY)), y);
    T::select(simd, T::less(simd, x, T::splat(simd, T::ZERO)), T::splat(simd, T::NAN), y)
}

/// log(1 + x).
#[inline(always)]
pub(crate) fn log1p<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let one = T::splat(simd, T::ONE);
    let sum = T::add(simd, x, one);
    let lost = T::div(simd, T::sub(simd, x, T::sub(simd, sum, one)), sum);
    let y = T::add(simd, positive_log::<T, S>(simd, sum), lost);
    let y = T::select(simd, T::less(simd, x, T::splat(simd, T::INFINITY)), y, x);
    let y = T::select(simd, T::equal(simd, x, T::splat(simd, T::ZERO)), x, y);
    let minus_one = T::neg(simd, one);
    let y = T::select(simd, T::equal(simd, x, minus_one), T::neg(simd, T::splat(simd, T::INFINITY)), y);
    T::select(simd, T::less(simd, x, minus_one), T::splat(simd, T::NAN), y)
}

/// What is left of a whole number when the nearest even one is taken away: 0, 1 or -1.
#[inline(always)]
fn oddness<T: Float, S: Simd>(simd: S, n: T::Vector<S>) -> T::Vector<S> {
    let pairs = nearest::<T, S>(simd, T::mul(simd, n, T::splat(simd, T::from_f64(0.5))));
    T::sub(simd, n, T::add(simd, pairs, pairs))
}

/// The sine (`quarter` 0) or the cosine (`quarter` 1) of x, for abs(x) up to [`FEW_TURNS`](MathTable::FEW_TURNS).
#[inline(always)]
pub(crate) fn sin_of_few_turns<T: MathTable, S: Simd>(simd: S, x: T::Vector<S>, quarter: f64) -> T::Vector<S> {
    let zero = T::splat(simd, T::ZERO);
    let half = T::splat(simd, T::from_f64(0.5));
    let n = nearest::<T, S>(simd, T::mul(simd, x, T::splat(simd, T::from_f64(std::f64::consts::FRAC_2_PI))));
    let mut r = x;
    for part in T::HALF_PI {
        r = T::mul_add(simd, n, T::neg(simd, T::splat(simd, part)), r);
    }
    let square = T::mul(simd, r, r);
    let sine = T::mul(simd, square, polynomial::<T, S>(simd, square, T::SIN_SERIES));
    // At 0 the series would lose the sign.
    let sine = T::select(simd, T::equal(simd, r, T::splat(simd, T::ZERO)), r, T::mul_add(simd, sine, r, r));
    let cosine = T::mul(simd, T::mul(simd, square, square), polynomial::<T, S>(simd, square, T::COS_SERIES));
    let cosine = T::add(simd, T::sub(simd, T::splat(simd, T::ONE), T::mul(simd, square, half)), cosine);
    let quadrant = T::add(simd, n, T::splat(simd, T::from_f64(quarter)));
    let odd = T::abs(simd, oddness::<T, S>(simd, quadrant));
    let y = T::select(simd, T::equal(simd, odd, zero), sine, cosine);
    let half_turns = T::mul(simd, T::sub(simd, quadrant, odd), half);
    T::select(simd, T::equal(simd, oddness::<T, S>(simd, half_turns), zero), y, T::neg(simd, y))
}

/// The nearest whole number, the even one of two.
#[inline(always)]
pub(crate) fn round<T: Float, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let whole = T::splat(simd, T::WHOLE);
    let magnitude = T::abs(simd, x);
    let rounded = T::sub(simd, T::add(simd, magnitude, whole), whole);
    T::select(simd, T::less(simd, magnitude, whole), T::with_sign(simd, rounded, x), x)
}

/// The whole number next to x toward zero.
#[inline(always)]
pub(crate) fn trunc<T: Float, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let magnitude = T::abs(simd, x);
    let rounded = round::<T, S>(simd, magnitude);
    let less = T::sub(simd, rounded, T::splat(simd, T::ONE));
    T::with_sign(simd, T::select(simd, T::less(simd, magnitude, rounded), less, rounded), x)
}

/// The largest whole number that is not above x.
#[inline(always)]
pub(crate) fn floor<T: Float, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    let rounded = round::<T, S>(simd, x);
    let less = T::sub(simd, rounded, T::splat(simd, T::ONE));
    T::select(simd, T::less(simd, x, rounded), less, rounded)
}

/// The smallest whole number that is not below x.
#[inline(always)]
pub(crate) fn ceil<T: Float, S: Simd>(simd: S, x: T::Vector<S>) -> T::Vector<S> {
    T::neg(simd, floor::<T, S>(simd, T::neg(simd, x)))
}
