//! Arithmetic modulo the prime 2^61 - 1.
//!
//! The number 2 has order 61 in this field, so multiplying an element by a power of two rotates the element's bits.
//! Every finite float maps to an element: its mantissa times a power of two. Every element maps to a signed number:
//! elements up to half of the prime are nonnegative, and larger elements are negative. Small integers therefore compare
//! as usual.

/// The modulus, a prime.
pub(super) const PRIME: u64 = (1 << 61) - 1;

/// The largest element that represents a nonnegative number.
pub(super) const HALF: u64 = PRIME >> 1;

/// The element that represents infinity. Its negative represents negative infinity. As a signed number, the element is
/// larger than nearly all others. It is not the largest element, [`HALF`], because [`HALF`] equals -1/2, and infinity
/// must not be a fraction of small integers.
pub(super) const INFINITY: u64 = HALF - (1 << 33) - 17;

/// The element that represents NaN. The element is arbitrary, so computations are unlikely to yield it by chance.
pub(super) const NAN: u64 = 0x0b5e_97c3_21d4_6a8f;

/// Returns `a + b`.
#[inline(always)]
pub(super) fn add(a: u64, b: u64) -> u64 {
    reduce(a.wrapping_add(b))
}

/// Returns `a - b`.
#[inline(always)]
pub(super) fn sub(a: u64, b: u64) -> u64 {
    reduce(a.wrapping_add(PRIME).wrapping_sub(b))
}

/// Returns `-a`.
#[inline(always)]
pub(super) fn neg(a: u64) -> u64 {
    if a == 0 { 0 } else { PRIME.wrapping_sub(a) }
}

/// Returns `a * b`.
#[inline(always)]
pub(super) fn mul(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    reduce((product as u64 & PRIME).wrapping_add((product >> 61) as u64))
}

/// Reduces a number modulo the prime. The number must be less than twice the prime.
#[inline(always)]
fn reduce(sum: u64) -> u64 {
    if sum >= PRIME { sum.wrapping_sub(PRIME) } else { sum }
}

/// Returns `a` to the power `exponent`.
pub(super) fn power(a: u64, mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, a);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = mul(result, square);
        }
        square = mul(square, square);
        exponent >>= 1;
    }
    result
}

/// Returns `1 / a`, computed with Euclid's algorithm, or `None` if `a` is zero.
pub(super) fn inverse(a: u64) -> Option<u64> {
    let (mut large, mut small) = (PRIME as i64, a as i64);
    let (mut of_large, mut of_small) = (0i64, 1i64);
    while small > 1 {
        let quotient = large / small;
        (large, small) = (small, large - quotient * small);
        (of_large, of_small) = (of_small, of_large.wrapping_sub(quotient.wrapping_mul(of_small)));
    }
    (small == 1).then(|| of_signed(of_small))
}

/// Returns `a * 2^exponent`.
pub(super) fn scale(a: u64, exponent: i32) -> u64 {
    let by = exponent.rem_euclid(61) as u32;
    if by == 0 { a } else { reduce(((a << by) & PRIME) | (a >> (61 - by))) }
}

/// Returns the element that represents an integer.
#[inline(always)]
pub(super) fn of_signed(number: i64) -> u64 {
    number.rem_euclid(PRIME as i64) as u64
}

/// Returns the integer that an element represents.
#[inline(always)]
pub(super) fn signed(a: u64) -> i64 {
    if a > HALF { (a as i64).wrapping_sub(PRIME as i64) } else { a as i64 }
}

/// Returns the element that represents a float.
pub(super) fn of_f64(number: f64) -> u64 {
    if number.is_nan() {
        return NAN;
    }
    if number.is_infinite() {
        return if number > 0.0 { INFINITY } else { neg(INFINITY) };
    }
    let bits = number.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
    let size = scale(mantissa, exponent.max(1) - 1075);
    if number < 0.0 { neg(size) } else { size }
}

/// Returns the numerator and denominator of an element that is a fraction of small integers, or `None` for other
/// elements, such as random ones. Runs Euclid's algorithm until the remainder is below 2^29. The fraction is unique,
/// because its numerator and denominator are below the square root of half the prime.
pub(super) fn fraction(a: u64) -> Option<[i64; 2]> {
    const MAX_TERM: i64 = 1 << 29;
    let small = signed(a);
    if small.abs() < MAX_TERM {
        return Some([small, 1]);
    }
    let (mut large, mut rest) = (PRIME as i64, a as i64);
    let (mut of_large, mut of_rest) = (0i64, 1i64);
    while rest >= MAX_TERM {
        let quotient = large / rest;
        (large, rest) = (rest, large - quotient * rest);
        (of_large, of_rest) = (of_rest, of_large.wrapping_sub(quotient.wrapping_mul(of_rest)));
    }
    let (numerator, denominator) = if of_rest < 0 { (-rest, -of_rest) } else { (rest, of_rest) };
    (denominator != 0 && denominator < MAX_TERM && numerator != 0).then_some([numerator, denominator])
}

/// Returns a pseudorandom element that depends only on `key` and `a`.
pub(super) fn hash(key: u64, a: u64) -> u64 {
    let mixed = mix(mix(key ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(a).wrapping_mul(0xd6e8_feb8_6659_fd93));
    (mixed >> 3) % PRIME
}

/// Applies the finalizer of SplitMix64.
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_that_of_the_field() {
        for (a, b) in [(0, 1), (PRIME - 1, PRIME - 1), (12345, PRIME - 7), (1 << 60, 3)] {
            assert_eq!(u128::from(mul(a, b)), u128::from(a) * u128::from(b) % u128::from(PRIME));
            assert_eq!(sub(add(a, b), b), a);
            assert_eq!(add(a, neg(a)), 0);
            assert_eq!(inverse(b).map(|inverse| mul(inverse, b)), Some(1));
        }
        assert_eq!(inverse(0), None);
        assert_eq!(power(3, 5), 243);
    }

    #[test]
    fn floats_are_exact() {
        assert_eq!(of_f64(3.0), 3);
        assert_eq!(of_f64(-3.0), neg(3));
        assert_eq!(mul(of_f64(0.375), 8), 3);
        assert_eq!(add(of_f64(0.1), of_f64(-0.1)), 0);
        assert_eq!(mul(of_f64(f64::from_bits(5)), power(2, 1074)), 5);
        assert_eq!(of_f64(f64::NEG_INFINITY), neg(INFINITY));
    }

    #[test]
    fn fractions_are_found() {
        assert_eq!(fraction(of_f64(-2.5)), Some([-5, 2]));
        assert_eq!(fraction(mul(7, inverse(3).unwrap())), Some([7, 3]));
        assert_eq!(fraction(of_signed(-9)), Some([-9, 1]));
        assert_eq!(fraction(of_f64(-0.5)), Some([-1, 2]));
        assert_eq!(fraction(hash(1, 2)), None);
        assert_eq!(fraction(INFINITY), None);
    }
}
