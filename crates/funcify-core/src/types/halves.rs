//! Rounds numbers to 16-bit floats, without double rounding.
//!
//! To convert an f64, the `half` crate either ignores the low 32 bits of the f64 or converts the f64 to f32 first. The
//! crate therefore treats some numbers close to the midpoint of two 16-bit floats as ties.

use half::{bf16, f16};

/// Returns the f16 nearest to `number`, rounding ties to even.
///
/// ```
/// # extern crate funcify_core as funcify;
/// let above_the_middle = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
/// assert_eq!(funcify::types::nearest_f16(above_the_middle).to_f64(), 1.0 + 2f64.powi(-10));
/// ```
pub fn nearest_f16(number: f64) -> f16 {
    f16::from_f32(round_to_odd(number))
}

/// Returns the bf16 nearest to `number`, rounding ties to even.
///
/// ```
/// # extern crate funcify_core as funcify;
/// let above_the_middle = 1.0 + 2f64.powi(-8) + 2f64.powi(-23);
/// assert_eq!(funcify::types::nearest_bf16(above_the_middle).to_f64(), 1.0 + 2f64.powi(-7));
/// ```
pub fn nearest_bf16(number: f64) -> bf16 {
    bf16::from_f32(round_to_odd(number))
}

/// Converts an integer to an f64. [`nearest_f16`] and [`nearest_bf16`] round this f64 as they would round the exact
/// integer.
#[doc(hidden)]
pub fn round_integer_to_odd(integer: i64) -> f64 {
    let nearest = integer as f64;
    let toward_zero = match (nearest as i128).unsigned_abs().cmp(&i128::from(integer).unsigned_abs()) {
        std::cmp::Ordering::Equal => return nearest,
        std::cmp::Ordering::Greater => nearest.to_bits() - 1,
        std::cmp::Ordering::Less => nearest.to_bits(),
    };
    f64::from_bits(toward_zero | 1)
}

/// Rounds to odd: truncates to an f32, and sets the last bit of the f32 if the conversion is inexact. Rounding the
/// result again to a 16-bit type is equivalent to rounding the number directly (Boldo, Melquiond 2008).
fn round_to_odd(number: f64) -> f32 {
    let nearest = number as f32;
    if f64::from(nearest) == number || number.is_nan() || number.is_infinite() {
        return nearest;
    }
    let is_beyond = f64::from(nearest).abs() > number.abs();
    let toward_zero = if is_beyond { f32::from_bits(nearest.to_bits() - 1) } else { nearest };
    f32::from_bits(toward_zero.to_bits() | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests every seventh midpoint of two neighbouring 16-bit floats, and the f64 values directly above and below it.
    #[test]
    fn numbers_next_to_the_middle_of_two_are_rounded_to_the_nearer_one() {
        for bits in (0u16..0x7c00).step_by(7) {
            let (low, high) = (f16::from_bits(bits).to_f64(), f16::from_bits(bits + 1).to_f64());
            let high = if high.is_finite() { high } else { 65_536.0 };
            let (middle, even) = ((low + high) / 2.0, f16::from_bits(bits + bits % 2));
            assert_eq!(nearest_f16(middle), even);
            assert_eq!(nearest_f16(middle.next_up()), f16::from_bits(bits + 1));
            assert_eq!(nearest_f16(middle.next_down()).to_bits(), bits);
            assert_eq!(nearest_f16(-middle.next_up()), -f16::from_bits(bits + 1));
        }
        for bits in (0u16..0x7f7f).step_by(7) {
            let (low, high) = (bf16::from_bits(bits).to_f64(), bf16::from_bits(bits + 1).to_f64());
            let (middle, even) = ((low + high) / 2.0, bf16::from_bits(bits + bits % 2));
            assert_eq!(nearest_bf16(middle), even);
            assert_eq!(nearest_bf16(middle.next_up()), bf16::from_bits(bits + 1));
            assert_eq!(nearest_bf16(middle.next_down()).to_bits(), bits);
        }
    }

    #[test]
    fn large_integers_are_rounded_once() {
        let middle = (1i64 << 62) + (1 << 54);
        let (low, high) = (1u64 << 62, (1u64 << 62) + (1 << 55));
        assert_eq!(nearest_bf16(round_integer_to_odd(middle)).to_f64(), low as f64);
        assert_eq!(nearest_bf16(round_integer_to_odd(middle + 1)).to_f64(), high as f64);
        assert_eq!(nearest_bf16(round_integer_to_odd(-middle - 1)).to_f64(), -(high as f64));
        assert_eq!(nearest_bf16(round_integer_to_odd(middle - 1)).to_f64(), low as f64);
        assert_eq!(round_integer_to_odd(i64::MIN), -2f64.powi(63));
        assert_eq!(nearest_bf16(round_integer_to_odd(i64::MAX)).to_f64(), 2f64.powi(63));
    }
}
