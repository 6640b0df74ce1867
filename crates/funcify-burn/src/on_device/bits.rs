//! Implements bit shifts and bit counts. The argument `bits` is the width of an element in the graph; the device may
//! store elements in a wider type, for example u8 in u32. The caller truncates the result of a left shift to `bits`
//! bits.

use super::*;

/// Replaces shift amounts outside `0..bits` with 0. Returns the new amounts, and a mask of the replaced amounts.
fn in_range(burn: &Burn, amount: Tensor, bits: u32) -> (Tensor, Tensor) {
    let last = Scalar::from(i64::from(bits) - 1);
    let above = Dispatch::int_greater_elem(amount.clone(), last, burn.bool_dtype());
    let outside = Dispatch::bool_or(above, below_zero(burn, &amount));
    (Dispatch::int_mask_fill(amount, outside.clone(), Scalar::from(0i64)), outside)
}

/// Shifts left. The result is 0 if the amount is negative or at least `bits`.
pub(crate) fn shift_left(burn: &Burn, x: Tensor, amount: Tensor, bits: u32) -> Tensor {
    let (amount, outside) = in_range(burn, amount, bits);
    Dispatch::int_mask_fill(Dispatch::bitwise_left_shift(x, amount), outside, Scalar::from(0i64))
}

/// Shifts right, filling with zeros. The result is 0 if the amount is negative or at least `bits`. Shifts signed
/// numbers by one bit first, clears the sign bit, and then shifts by the rest of the amount.
pub(crate) fn shift_right_logical(burn: &Burn, x: Tensor, amount: Tensor, bits: u32) -> Tensor {
    let (amount, outside) = in_range(burn, amount, bits);
    let shifted = if is_unsigned(&x) {
        Dispatch::bitwise_right_shift(x, amount)
    } else {
        let stays = Dispatch::int_equal_elem(amount.clone(), Scalar::from(0i64), burn.bool_dtype());
        let rest = Dispatch::int_add_scalar(amount, Scalar::from(-1i64));
        let rest = Dispatch::int_mask_fill(rest, stays.clone(), Scalar::from(0i64));
        let highest = i64::MAX >> (i64::BITS - bits);
        let half = Dispatch::bitwise_right_shift_scalar(x.clone(), Scalar::from(1i64));
        let half = Dispatch::bitwise_and_scalar(half, Scalar::from(highest));
        mask_where(Dispatch::bitwise_right_shift(half, rest), stays, x)
    };
    Dispatch::int_mask_fill(shifted, outside, Scalar::from(0i64))
}

/// Shifts right, filling with copies of the highest bit. If the amount is negative or at least `bits`, every bit of the
/// result is a copy of the highest bit.
pub(crate) fn shift_right_arithmetic(burn: &Burn, x: Tensor, amount: Tensor, bits: u32) -> Tensor {
    let (amount, outside) = in_range(burn, amount, bits);
    let amount = Dispatch::int_mask_fill(amount, outside, Scalar::from(i64::from(bits) - 1));
    if !is_unsigned(&x) {
        return Dispatch::bitwise_right_shift(x, amount);
    }
    // If the highest bit of an unsigned number is 1, shift the complement of the number, and complement the result.
    // This turns the inserted zeros into ones.
    let complement = |x: Tensor| Dispatch::bitwise_xor_scalar(x, Scalar::from((1i64 << bits) - 1));
    let is_high = Dispatch::int_greater_elem(x.clone(), Scalar::from((1i64 << (bits - 1)) - 1), burn.bool_dtype());
    let shifted = Dispatch::bitwise_right_shift(mask_where(x.clone(), is_high.clone(), complement(x)), amount);
    mask_where(shifted.clone(), is_high, complement(shifted))
}

/// Counts the set bits: adds adjacent bits, then pairs, then nibbles, and sums the bytes with a multiplication. The
/// masks clear the sign bits that a right shift of a negative number inserts.
pub(crate) fn popcount(x: Tensor, bits: u32) -> Tensor {
    let width = bits.max(32);
    let repeated = |byte: i64| Scalar::from((0x0101_0101_0101_0101 * byte) >> (i64::BITS - width));
    let masked = |x: Tensor, byte: i64| Dispatch::bitwise_and_scalar(x, repeated(byte));
    let shifted =
        |x: &Tensor, amount: u32| Dispatch::bitwise_right_shift_scalar(x.clone(), Scalar::from(i64::from(amount)));
    let pairs = Dispatch::int_sub(x.clone(), masked(shifted(&x, 1), 0x55));
    let nibbles = Dispatch::int_add(masked(pairs.clone(), 0x33), masked(shifted(&pairs, 2), 0x33));
    let bytes = masked(Dispatch::int_add(nibbles.clone(), shifted(&nibbles, 4)), 0x0f);
    shifted(&Dispatch::int_mul_scalar(bytes, repeated(0x01)), width - 8)
}

/// Counts the leading zeros: sets all bits below the highest set bit, and subtracts the number of set bits from `bits`.
pub(crate) fn count_leading_zeros(x: Tensor, bits: u32) -> Tensor {
    let amounts = [1u32, 2, 4, 8, 16, 32].into_iter().filter(|amount| *amount < bits);
    let filled = amounts.fold(x, |x, amount| {
        let lower = Dispatch::bitwise_right_shift_scalar(x.clone(), Scalar::from(i64::from(amount)));
        Dispatch::bitwise_or(x, lower)
    });
    Dispatch::int_add_scalar(negate(popcount(filled, bits)), Scalar::from(i64::from(bits)))
}
