//! Implements the tangent, the inverse trigonometric, hyperbolic and error functions, the cube root and powers. All
//! functions are generic over [`Arithmetic`].
//!
//! To compute rounding errors, these functions use a fused multiply-add, which rounds only once. On processors without
//! this instruction, the kernels apply the functions of the standard library and of [`funcify_core::ops::special`]
//! element by element.
//!
//! Like the table in [`math`](super::math), the following table shows the largest error that the tests allow for each
//! function, in units in the last place (ULP) of the result.
//!
//! | function | f32 | f64 | method |
//! |---|---|---|---|
//! | `erf` | 2.0 | 3.0 | x times a polynomial in x^2 up to 1; above, 1 - exp of a polynomial |
//! | `erfc` | 2.5 | 4.0 | exp(-x^2) with extra precision, times a polynomial in (x - k) / (x + k) |
//! | `erf_inv` | 2.0 | 3.0 | x times a polynomial in log(1 - x^2), or in its square root |
//! | `tan` | 2.5 | 2.0 | range reduction as for `sin`, in a pair; quotient of sine and cosine |
//! | `asin` | 2.5 | 2.0 | polynomial up to 1/2; above, through asin of sqrt((1 - x) / 2) |
//! | `acos` | 1.5 | 1.0 | the same polynomial as `asin` |
//! | `atan`, `atan2` | 1.5 | 2.0 | polynomial up to 1; above, through atan(1 / x) |
//! | `sinh` | 2.0 | 2.0 | polynomial up to 1; above, from exp(x) / 2 |
//! | `cosh` | 1.5 | 2.0 | from exp(x) / 2 |
//! | `asinh` | 2.0 | 2.0 | log(1 + u), with u computed without cancellation |
//! | `acosh` | 3.0 | 3.0 | the same |
//! | `atanh` | 2.5 | 3.0 | the same |
//! | `cbrt` | 1.0 | 1.0 | polynomial, and Newton's method |
//! | `pow` | 1.5 | 1.0 | exp(y log(x)), with the logarithm and the product in pairs |
//!
//! A *pair* is the unevaluated sum of two numbers, which has about twice the precision of a single number.

use super::arithmetic::Arithmetic;
use super::math::{MathTable, decompose, middle_expm1, nearest, parity, polynomial, positive_log, power_of_two, round};
use crate::float::Float;

/// The unevaluated sum `high + low`, where `low` is about as large as the rounding error of `high`.
#[derive(Clone, Copy)]
struct Pair<V> {
    high: V,
    low: V,
}

/// Broadcasts `value`, rounded to the element type, to all lanes.
#[inline(always)]
fn number<T: Float, M: Arithmetic<T>>(m: M, value: f64) -> M::Vector {
    m.splat(T::from_f64(value))
}

/// Computes a + b and its rounding error, for abs(a) >= abs(b) or a = 0.
#[inline(always)]
fn ordered_sum<T: Float, M: Arithmetic<T>>(m: M, a: M::Vector, b: M::Vector) -> Pair<M::Vector> {
    let high = m.add(a, b);
    Pair { high, low: m.sub(b, m.sub(high, a)) }
}

/// Computes a + b and its rounding error.
#[inline(always)]
fn sum<T: Float, M: Arithmetic<T>>(m: M, a: M::Vector, b: M::Vector) -> Pair<M::Vector> {
    let high = m.add(a, b);
    let of_b = m.sub(high, a);
    let of_a = m.sub(high, of_b);
    Pair { high, low: m.add(m.sub(a, of_a), m.sub(b, of_b)) }
}

/// Computes a * b and its rounding error.
#[inline(always)]
fn product<T: Float, M: Arithmetic<T>>(m: M, a: M::Vector, b: M::Vector) -> Pair<M::Vector> {
    let high = m.mul(a, b);
    Pair { high, low: m.mul_add(a, b, m.neg(high)) }
}

/// Computes the product of two pairs, neglecting the product of the low parts.
#[inline(always)]
fn product_of_pairs<T: Float, M: Arithmetic<T>>(m: M, a: Pair<M::Vector>, b: Pair<M::Vector>) -> Pair<M::Vector> {
    let Pair { high, low } = product(m, a.high, b.high);
    Pair { high, low: m.mul_add(a.low, b.high, m.mul_add(a.high, b.low, low)) }
}

/// Returns `yes` where the sign bit of x is clear, and `no` where it is set, including for -0.
#[inline(always)]
fn by_sign<T: Float, M: Arithmetic<T>>(m: M, x: M::Vector, yes: M::Vector, no: M::Vector) -> M::Vector {
    let sign = m.with_sign(m.splat(T::ONE), x);
    m.select(m.less(sign, m.splat(T::ZERO)), no, yes)
}

/// The factors of an exponential: `(1 + fraction) * first * second`, where `first` and `second` are powers of two. The
/// caller multiplies by `second` last, so that only this product can overflow or be rounded to a subnormal number.
struct Exponential<V> {
    fraction: V,
    first: V,
    second: V,
}

/// Computes the factors of 2^scale exp(x).
#[inline(always)]
fn exp_factors<T: MathTable, M: Arithmetic<T>>(m: M, x: Pair<M::Vector>, scale: f64) -> Exponential<M::Vector> {
    let [low, high] = T::EXP_RANGE;
    // If `scale` is -1, the result is exp(x) / 2, whose overflow limit is higher by ln 2 than that of exp(x). Raising
    // `high` by 1 is enough, because ln 2 is less than 1.
    let high = m.splat(T::from_f64(high.to_f64() - scale));
    let bounded = m.at_most(high, m.at_least(m.splat(low), x.high));
    let rest = m.select(m.equal(bounded, x.high), x.low, m.splat(T::ZERO));
    let n = nearest(m, m.mul(bounded, m.splat(T::LOG2_E)));
    let r = m.mul_add(n, m.neg(m.splat(T::LN_2[0])), bounded);
    let r = m.add(m.mul_add(n, m.neg(m.splat(T::LN_2[1])), r), rest);
    let fraction = m.mul_add(m.mul(r, r), polynomial(m, r, T::EXP_SERIES), r);
    let (first, second) = m.powers_of_two(m.add(n, number(m, scale)));
    Exponential { fraction, first, second }
}

/// Computes 2^scale exp(x) as one number.
#[inline(always)]
fn scaled_exp<T: MathTable, M: Arithmetic<T>>(m: M, x: Pair<M::Vector>, scale: f64) -> M::Vector {
    let Exponential { fraction, first, second } = exp_factors(m, x, scale);
    m.mul(m.mul_add(first, fraction, first), second)
}

/// Computes exp(x) / 2, which stays finite for x up to ln 2 above the overflow limit of exp(x).
#[inline(always)]
fn half_exp<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    scaled_exp(m, Pair { high: x, low: m.splat(T::ZERO) }, -1.0)
}

/// Computes erf(x) for abs(x) up to 1.
#[inline(always)]
fn central_erf<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    m.mul_add(x, polynomial(m, m.mul(x, x), T::ERF_SERIES), x)
}

/// Computes the error function.
#[inline(always)]
pub fn erf<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (one, magnitude, end) = (m.splat(T::ONE), m.abs(x), T::ERF_TAIL_END.to_f64());
    let bounded = m.at_most(m.splat(T::ERF_TAIL_END), magnitude);
    let t = m.mul_add(bounded, number(m, 2.0 / (end - 1.0)), number(m, (1.0 + end) / (1.0 - end)));
    let tail = m.neg(middle_expm1(m, m.neg(polynomial(m, t, T::ERF_TAIL))));
    m.select(m.less(magnitude, one), central_erf(m, x), m.with_sign(m.abs(tail), x))
}

/// Computes 1 - erf(x), with full relative accuracy even if the result is small.
#[inline(always)]
pub fn erfc<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (one, two, middle) = (m.splat(T::ONE), number(m, 2.0), m.splat(T::ERFC_MIDDLE));
    let magnitude = m.abs(x);
    let bounded = m.at_most(m.splat(T::ERFC_END), magnitude);
    let t = m.div(m.sub(bounded, middle), m.add(bounded, middle));
    let (constant, series) = (m.splat(T::ERFC_SERIES[0]), polynomial(m, t, &T::ERFC_SERIES[1..]));
    let numerator = sum(m, constant, m.mul(t, series));
    let denominator = sum(m, m.mul(bounded, two), one);
    let reciprocal = m.div(one, denominator.high);
    let factor = m.mul(numerator.high, reciprocal);
    let left = m.mul_add(m.neg(factor), denominator.high, numerator.high);
    let left = m.mul_add(m.neg(factor), denominator.low, m.add(left, numerator.low));
    let Pair { high, low } = product(m, bounded, bounded);
    let exp = exp_factors(m, Pair { high: m.neg(high), low: m.neg(low) }, 0.0);
    // `factor + rest` is `factor * (1 + fraction)`, corrected for the rounding error of `factor`.
    let rest = m.mul_add(factor, exp.fraction, m.mul(left, reciprocal));
    let tail = m.mul(m.mul(m.add(factor, rest), exp.first), exp.second);
    let tail = m.select(m.less(x, m.splat(T::ZERO)), m.sub(two, tail), tail);
    m.select(m.less(magnitude, number(m, 0.5)), m.sub(one, central_erf(m, x)), tail)
}

/// Computes the inverse of the error function by M. Giles's method (GPU Computing Gems 2, 2011): evaluates a polynomial
/// in w = -log(1 - x^2) if w is small, and one in sqrt(w) otherwise.
#[inline(always)]
pub fn erf_inv<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (one, magnitude, split) = (m.splat(T::ONE), m.abs(x), m.splat(T::ERF_INV_SPLIT));
    let w = m.neg(positive_log(m, m.mul_add(m.neg(magnitude), magnitude, one)));
    let from_middle = m.sub(w, m.splat(T::ERF_INV_MIDDLE));
    let centre = polynomial(m, from_middle, T::ERF_INV_SERIES);
    let from_middle = m.sub(m.sqrt(w), m.splat(T::ERF_INV_TAIL_MIDDLE));
    let tail = polynomial(m, from_middle, T::ERF_INV_TAIL);
    let y = m.mul(m.select(m.less(w, split), centre, tail), x);
    let y = m.select(m.less(magnitude, one), y, m.with_sign(m.splat(T::INFINITY), x));
    let y = m.select(m.less(one, magnitude), m.splat(T::NAN), y);
    m.select(m.equal(x, x), y, x)
}

/// Computes the tangent of x, for abs(x) up to [`MAX_FAST_ANGLE`](MathTable::MAX_FAST_ANGLE). The angle is reduced
/// modulo pi / 2 with extra precision, because the errors of sine and cosine add up in their quotient.
#[inline(always)]
pub fn tan_of_few_turns<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (zero, one) = (m.splat(T::ZERO), m.splat(T::ONE));
    let n = nearest(m, m.mul(x, number(m, std::f64::consts::FRAC_2_PI)));
    let minus_n = m.neg(n);
    let [first, second, third, fourth] = T::HALF_PI;
    let r = sum(m, m.mul_add(minus_n, m.splat(first), x), m.mul(minus_n, m.splat(second)));
    let r = sum(m, r.high, m.mul_add(minus_n, m.splat(third), r.low));
    // Subtract the multiple of the last part of pi / 2 at the end, because x and the multiples of the other parts may
    // cancel.
    let r = Pair { low: m.mul_add(minus_n, m.splat(fourth), r.low), ..r };
    let square = m.mul(r.high, r.high);
    let cube_terms = m.mul(m.mul(square, polynomial(m, square, T::SIN_SERIES)), r.high);
    let half_square = m.mul(square, number(m, 0.5));
    let cosine = ordered_sum(m, one, m.neg(half_square));
    let fourth_terms = m.mul(m.mul(square, square), polynomial(m, square, T::COS_SERIES));
    let sine = m.add(r.high, m.mul_add(r.low, cosine.high, cube_terms));
    let rest = m.mul_add(m.neg(r.low), r.high, m.add(cosine.low, fourth_terms));
    let cosine = m.add(cosine.high, rest);
    let even = m.equal(parity(m, n), zero);
    let y = m.div(m.select(even, sine, cosine), m.select(even, cosine, m.neg(sine)));
    // The sums above lose the sign of -0, so return x itself where it is zero.
    m.select(m.equal(x, zero), x, y)
}

/// Computes atan(t) for abs(t) up to 1.
#[inline(always)]
fn central_atan<T: MathTable, M: Arithmetic<T>>(m: M, t: M::Vector) -> M::Vector {
    let square = m.mul(t, t);
    m.mul_add(m.mul(t, square), polynomial(m, square, T::ATAN_SERIES), t)
}

/// Computes the arc tangent. For abs(x) greater than 1, computes pi / 2 - atan(1 / abs(x)) and restores the sign of x.
#[inline(always)]
pub fn atan<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (one, magnitude) = (m.splat(T::ONE), m.abs(x));
    let large = m.less(one, magnitude);
    let t = m.div(m.select(large, m.neg(one), magnitude), m.select(large, magnitude, one));
    let y = central_atan(m, t);
    let [high, low] = T::RIGHT_ANGLE;
    let y = m.select(large, m.add(m.splat(high), m.add(y, m.splat(low))), y);
    m.with_sign(m.abs(y), x)
}

/// Computes the angle of the point (x, y), from the arc tangent of the ratio of the smaller to the larger coordinate.
#[inline(always)]
pub fn atan2<T: MathTable, M: Arithmetic<T>>(m: M, y: M::Vector, x: M::Vector) -> M::Vector {
    let (zero, one) = (m.splat(T::ZERO), m.splat(T::ONE));
    let (width, height) = (m.abs(x), m.abs(y));
    let steep = m.less(width, height);
    let (small, large) = (m.select(steep, width, height), m.select(steep, height, width));
    // If both coordinates are infinite, or both are zero, their quotient is NaN, so the ratio is set to 1 or 0,
    // respectively.
    let ratio = m.select(m.equal(small, large), one, m.div(small, large));
    let ratio = m.select(m.equal(large, zero), small, ratio);
    let angle = central_atan(m, ratio);
    // `angle` is the distance from a multiple of pi / 2. In the right half-plane, it is added to 0, or subtracted from
    // pi / 2 where `steep` is true. In the left half-plane, it is subtracted from pi, or added to pi / 2 where `steep`
    // is true.
    let right = m.select(steep, m.neg(angle), angle);
    let angle = by_sign(m, x, right, m.neg(right));
    let [high, low] = T::RIGHT_ANGLE;
    let (high, low) = (m.splat(high), m.splat(low));
    let high = m.select(steep, high, by_sign(m, x, zero, m.add(high, high)));
    let low = m.select(steep, low, by_sign(m, x, zero, m.add(low, low)));
    m.with_sign(m.abs(m.add(high, m.add(angle, low))), y)
}

/// Computes asin(s), where s is abs(x) if abs(x) is at most 1/2, and sqrt((1 - abs(x)) / 2) otherwise. Also returns a
/// mask of the lanes where abs(x) is greater than 1/2.
#[inline(always)]
fn reduced_asin<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> (M::Mask, M::Vector) {
    let (half, magnitude) = (number(m, 0.5), m.abs(x));
    let large = m.less(half, magnitude);
    let square = m.select(large, m.mul_add(m.neg(half), magnitude, half), m.mul(magnitude, magnitude));
    let s = m.select(large, m.sqrt(square), magnitude);
    (large, m.mul_add(m.mul(s, square), polynomial(m, square, T::ASIN_SERIES), s))
}

/// Computes the arc sine.
#[inline(always)]
pub fn asin<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (large, y) = reduced_asin(m, x);
    let [high, low] = T::RIGHT_ANGLE;
    let from_right_angle = m.add(m.mul_add(number(m, -2.0), y, m.splat(low)), m.splat(high));
    m.with_sign(m.abs(m.select(large, from_right_angle, y)), x)
}

/// Computes the arc cosine.
#[inline(always)]
pub fn acos<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (large, y) = reduced_asin(m, x);
    let [high, low] = T::RIGHT_ANGLE;
    let (high, low) = (m.splat(high), m.splat(low));
    let inner = m.sub(high, m.sub(by_sign(m, x, y, m.neg(y)), low));
    let doubled = m.add(y, y);
    let left = m.sub(m.add(high, high), m.sub(doubled, m.add(low, low)));
    m.select(large, by_sign(m, x, doubled, left), inner)
}

/// Computes the hyperbolic sine.
#[inline(always)]
pub fn sinh<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let magnitude = m.abs(x);
    let square = m.mul(magnitude, magnitude);
    let small = m.mul_add(m.mul(magnitude, square), polynomial(m, square, T::SINH_SERIES), magnitude);
    let half = half_exp(m, magnitude);
    let large = m.sub(half, m.div(number(m, 0.25), half));
    m.with_sign(m.abs(m.select(m.less(magnitude, m.splat(T::ONE)), small, large)), x)
}

/// Computes the hyperbolic cosine.
#[inline(always)]
pub fn cosh<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let half = half_exp(m, m.abs(x));
    m.add(half, m.div(number(m, 0.25), half))
}

/// Computes log(1 + x) for a finite x that is not negative.
#[inline(always)]
fn log_above_one<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let Pair { high, low } = sum(m, m.splat(T::ONE), x);
    m.add(positive_log(m, high), m.div(low, high))
}

/// Computes log(1 + x), or log(2 x) where `large` is true.
#[inline(always)]
fn log_of_large<T: MathTable, M: Arithmetic<T>>(m: M, large: M::Mask, x: M::Vector) -> M::Vector {
    let y = log_above_one(m, x);
    let y = m.select(large, m.add(y, number(m, std::f64::consts::LN_2)), y);
    m.select(m.less(x, m.splat(T::INFINITY)), y, x)
}

/// Computes the inverse hyperbolic sine, as log(1 + x + x^2 / (1 + sqrt(x^2 + 1))).
#[inline(always)]
pub fn asinh<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (one, magnitude) = (m.splat(T::ONE), m.abs(x));
    let large = m.less(m.add(m.splat(T::WHOLE), m.splat(T::WHOLE)), magnitude);
    let square = m.mul(magnitude, magnitude);
    let part = m.div(square, m.add(one, m.sqrt(m.add(square, one))));
    let y = log_of_large(m, large, m.select(large, magnitude, m.add(magnitude, part)));
    m.with_sign(m.abs(y), x)
}

/// Computes the inverse hyperbolic cosine, as log(1 + t + sqrt(t (t + 2))) for t = x - 1.
#[inline(always)]
pub fn acosh<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let one = m.splat(T::ONE);
    let large = m.less(m.add(m.splat(T::WHOLE), m.splat(T::WHOLE)), x);
    let t = m.sub(x, one);
    let root = m.sqrt(m.mul(t, m.add(t, number(m, 2.0))));
    let y = log_of_large(m, large, m.select(large, x, m.add(t, root)));
    m.select(m.less(x, one), m.splat(T::NAN), y)
}

/// Computes the inverse hyperbolic tangent, as log(1 + 2 x / (1 - x)) / 2.
#[inline(always)]
pub fn atanh<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    let (one, magnitude) = (m.splat(T::ONE), m.abs(x));
    let ratio = m.div(m.add(magnitude, magnitude), m.sub(one, magnitude));
    let y = m.mul(log_above_one(m, ratio), number(m, 0.5));
    let y = m.select(m.less(magnitude, one), y, m.splat(T::INFINITY));
    let y = m.select(m.less(one, magnitude), m.splat(T::NAN), y);
    m.select(m.equal(x, x), m.with_sign(m.abs(y), x), x)
}

/// Computes the cube root, by a polynomial approximation and Newton's method.
#[inline(always)]
pub fn cbrt<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> M::Vector {
    const CBRT_2: f64 = 1.259_921_049_894_873_2;
    let (zero, one, three) = (m.splat(T::ZERO), m.splat(T::ONE), number(m, 3.0));
    let magnitude = m.abs(x);
    let (e, c) = decompose(m, magnitude);
    // Split the exponent: e = 3 n + rest, where `rest` is -1, 0 or 1.
    let n = nearest(m, m.mul(e, number(m, 1.0 / 3.0)));
    let rest = m.mul_add(n, m.neg(three), e);
    let (whole, less) = (m.equal(rest, zero), m.less(rest, zero));
    let power = m.select(whole, one, m.select(less, number(m, 0.5), number(m, 2.0)));
    let root_of_half = number(m, 1.0 / CBRT_2);
    let root_of_power = m.select(whole, one, m.select(less, root_of_half, number(m, CBRT_2)));
    let mut y = m.mul(polynomial(m, c, T::CBRT_SERIES), root_of_power);
    let c = m.mul(c, power);
    for _ in 0..T::CBRT_STEPS {
        let square = m.mul(y, y);
        let error = m.mul_add(m.neg(square), y, c);
        y = m.add(y, m.div(error, m.mul(square, three)));
    }
    let y = m.mul(y, power_of_two(m, n));
    let y = m.select(m.less(magnitude, m.splat(T::INFINITY)), y, magnitude);
    m.select(m.equal(x, zero), x, m.with_sign(m.abs(y), x))
}

/// Computes the natural logarithm of a positive, finite number, with about 10 more bits of precision than a single
/// number has.
#[inline(always)]
fn log_pair<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector) -> Pair<M::Vector> {
    let (one, two) = (m.splat(T::ONE), number(m, 2.0));
    let (e, c) = decompose(m, x);
    // Compute s = f / d, where f = c - 1 (which is exact) and d = c + 1.
    let f = m.sub(c, one);
    let d = sum(m, c, one);
    let high = m.div(f, d.high);
    let left = m.mul_add(m.neg(high), d.low, m.mul_add(m.neg(high), d.high, f));
    let s = Pair { high, low: m.div(left, d.high) };
    // Then log(c) = s (2 + z (2/3 + z (2/5 + ...))), where z = s^2.
    let z = product_of_pairs(m, s, s);
    let [high, low] = T::TWO_THIRDS;
    let third = ordered_sum(m, m.splat(high), m.mul(z.high, polynomial(m, z.high, T::LOG_PAIR_SERIES)));
    let third = product_of_pairs(m, z, Pair { low: m.add(third.low, m.splat(low)), ..third });
    let first = ordered_sum(m, two, third.high);
    let of_c = product_of_pairs(m, s, Pair { low: m.add(first.low, third.low), ..first });
    let total = ordered_sum(m, m.mul(e, m.splat(T::LOG_LN_2[0])), of_c.high);
    let low = m.mul_add(e, m.splat(T::LOG_LN_2[1]), m.add(of_c.low, total.low));
    ordered_sum(m, total.high, low)
}

/// Computes x to the power y, as exp(y log(abs(x))) with extra precision.
#[inline(always)]
pub fn pow<T: MathTable, M: Arithmetic<T>>(m: M, x: M::Vector, y: M::Vector) -> M::Vector {
    let (zero, one, infinity) = (m.splat(T::ZERO), m.splat(T::ONE), m.splat(T::INFINITY));
    let magnitude = m.abs(x);
    let log = log_pair(m, magnitude);
    let bounded = m.select(m.less(magnitude, infinity), log.high, magnitude);
    let high = m.select(m.equal(x, zero), m.neg(infinity), bounded);
    let scaled = product(m, y, high);
    let low = m.mul_add(y, log.low, scaled.low);
    // If x is 1 or -1, the magnitude of the power is 1, even if y is infinite.
    let power = m.select(m.equal(magnitude, one), one, scaled_exp(m, Pair { high: scaled.high, low }, 0.0));
    // A finite negative base yields NaN if the exponent is not an integer, and a negative number if the exponent is an
    // odd integer.
    let half = m.mul(y, number(m, 0.5));
    let odd = m.select(m.equal(round(m, half), half), power, m.neg(power));
    let whole = m.equal(round(m, y), y);
    let finite = m.select(m.less(magnitude, infinity), m.splat(T::NAN), power);
    let fraction = m.select(m.equal(x, zero), power, finite);
    let z = by_sign(m, x, power, m.select(whole, odd, fraction));
    let z = m.select(m.equal(x, x), z, x);
    let z = m.select(m.equal(y, y), z, y);
    let z = m.select(m.equal(y, zero), one, z);
    m.select(m.equal(x, one), one, z)
}
