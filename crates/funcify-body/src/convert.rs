//! Conversions of floats to integers, and divisions of integers, in forms that compile to vector code.
//!
//! The conversions return the same integers as `as` casts, which LLVM does not vectorize on x86-64. The quotients are
//! exact.

use crate::float::Constants;

/// Returns an integer whose low 51 bits are those of `x` truncated toward zero. |x| must be less than 2^51, so that
/// adding `ROUNDER` is exact and moves the truncated value to the low bits of the fraction.
#[inline(always)]
fn low_bits(x: f64) -> u64 {
    (x.trunc() + f64::ROUNDER).to_bits()
}

/// Clamps `x` to the interval from `least` to `greatest`. NaN becomes `least`.
#[inline(always)]
fn limit(x: f64, least: f64, greatest: f64) -> f64 {
    let x = if x > least { x } else { least };
    if x < greatest { x } else { greatest }
}

/// Converts `x` to `u8`, with the same result as `x as u8`.
#[inline(always)]
pub(crate) fn to_u8(x: f64) -> u8 {
    low_bits(limit(x, 0.0, u8::MAX.into())) as u8
}

/// Converts `x` to `u32`, with the same result as `x as u32`.
#[inline(always)]
pub(crate) fn to_u32(x: f64) -> u32 {
    low_bits(limit(x, 0.0, u32::MAX.into())) as u32
}

/// Converts `x` to `i32`, with the same result as `x as i32`.
#[inline(always)]
pub(crate) fn to_i32(x: f64) -> i32 {
    let integer = low_bits(limit(x, i32::MIN.into(), i32::MAX.into())) as i32;
    if x.is_nan() { 0 } else { integer }
}

/// Converts `x` to `i64`, with the same result as `x as i64`, by shifting the significand left or right. The exponent
/// determines the direction and the number of bits.
#[inline(always)]
pub(crate) fn to_i64(x: f64) -> i64 {
    const FRACTION_BITS: u64 = f64::MANTISSA_DIGITS as u64 - 1;
    /// The exponent field of 2^52. All floats of at least this magnitude are integers.
    const WHOLE: u64 = 1023 + FRACTION_BITS;
    /// The exponent field of 2^63. All floats of at least this magnitude saturate.
    const SATURATED: u64 = 1023 + 63;
    let bits = x.to_bits();
    let exponent = (bits >> FRACTION_BITS) & 0x7ff;
    let significand = bits & ((1 << FRACTION_BITS) - 1) | 1 << FRACTION_BITS;
    // Unless the exponent is `WHOLE`, one of the two differences wraps to a large number, and the shift by that
    // difference yields 0.
    let (left, right) = (exponent.wrapping_sub(WHOLE), WHOLE.wrapping_sub(exponent));
    let shifted_left = if left < 64 { significand << left } else { 0 };
    let shifted_right = if right < 64 { significand >> right } else { 0 };
    let sign = bits as i64 >> 63;
    let size = if exponent < SATURATED { (shifted_left | shifted_right) as i64 } else { i64::MAX };
    // A saturated magnitude needs no carry: inverting the bits of i64::MAX already yields i64::MIN.
    let carry = if exponent < SATURATED { sign } else { 0 };
    if x.is_nan() { 0 } else { (size ^ sign).wrapping_sub(carry) }
}

/// Divides two integers of at most 32 bits, and truncates the quotient toward zero. The quotient wraps to 32 bits. If
/// `y` is 0, the result is unspecified.
///
/// The quotient is exact: both operands are exact in `f64`. Rounding changes a quotient by at most 2^-53 |x / y|, which
/// is less than 1 / |y|, because |x| is less than 2^53. But a quotient that is not an integer is at least 1 / |y| away
/// from the next integer, so it is not rounded to an integer that is larger in magnitude.
#[inline(always)]
pub(crate) fn divide(x: f64, y: f64) -> u32 {
    low_bits(x / y) as u32
}

/// Divides two integers, and truncates the quotient toward zero. Both integers must be in the range that [`are_small`]
/// checks. If `y` is 0, the result is unspecified.
///
/// The quotient is exact for the same reason as in [`divide`]: |x| is less than 2^53.
#[inline(always)]
pub(crate) fn divide_small(x: i64, y: i64) -> i64 {
    let rounder = f64::ROUNDER.to_bits() as i64;
    let float = |integer: i64| f64::from_bits(integer.wrapping_add(rounder) as u64) - f64::ROUNDER;
    (low_bits(float(x) / float(y)) as i64).wrapping_sub(rounder)
}

/// Returns `true` if all integers are at least -2^50 and less than 2^50.
#[inline(always)]
pub(crate) fn are_small(integers: &[i64]) -> bool {
    let beyond = integers.iter().fold(0, |beyond, integer| beyond | integer.wrapping_add(1 << 50) as u64);
    beyond >> 51 == 0
}

/// Divides two integers below 2^8. If `y` is 0, the result is unspecified.
///
/// The quotient is exact for the same reason as in [`divide`]: rounding to `f32` changes it by at most 2^-24 x / y, and
/// x is less than 2^24.
#[inline(always)]
pub(crate) fn divide_u8(x: u8, y: u8) -> u8 {
    ((f32::from(x) / f32::from(y)).trunc() + f32::WHOLE).to_bits() as u8
}
