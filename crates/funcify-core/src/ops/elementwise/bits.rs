//! Elementwise integer ops that depend on the bit width of the element type: shifts and bit counts.
//!
//! Shifts follow StableHLO: if the amount is negative, or not less than the bit width, all bits are shifted out. The
//! result is then 0 or, for an arithmetic right shift, copies of the sign bit. The op, not the element type, determines
//! how the sign is handled: an arithmetic right shift replicates the highest bit even if the number is unsigned, and a
//! logical right shift fills with zeros even if the number is signed.

use crate::ops::rules::*;

macro_rules! bits_table {
    ($($name:ident => $op:ident, $operands:tt, |$i:ident, $j:ident, $bits:ident| $value:expr, $doc:literal;)*) => {
        op_table! {
            /// An elementwise op on the bits of integers.
            Bits, BITS_NAMES, bits_of: $(stringify!($name) => $op, $doc;)*
        }

        impl Bits {
            fn operands(self) -> usize {
                match self { $(Bits::$op => $operands,)* }
            }

            fn eval_scalar(self, left: i64, right: i64, bits: u32) -> i64 {
                match self { $(Bits::$op => { let ($i, $j, $bits) = (left, right, bits); $value })* }
            }
        }

        $(value_method!($operands $name: Bits::$op, $doc);)*
    };
}

bits_table! {
    shift_left => ShiftLeft, 2, |i, j, bits| shift_left(i, j, bits),
        "x shifted y bits to the left, like `<<`; 0 for an amount that is negative or at least the number of bits.";
    shift_right_arithmetic => ShiftRightArithmetic, 2, |i, j, bits| shift_right_arithmetic(i, j, bits),
        "x shifted y bits to the right, repeating its highest bit; only that bit for a negative or too large amount.";
    shift_right_logical => ShiftRightLogical, 2, |i, j, bits| shift_right_logical(i, j, bits),
        "x shifted y bits to the right, filled with zeros; 0 for an amount that is negative or at least the bit count.";
    popcount => Popcount, 1, |i, _j, bits| popcount(i, bits), "The number of bits that are 1.";
    count_leading_zeros => CountLeadingZeros, 1, |i, _j, bits| count_leading_zeros(i, bits),
        "The number of 0 bits before the highest 1 bit; for 0, the number of all bits.";
}

impl OpRules for Bits {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        if self.operands() == 1 {
            let [x] = arity(at, inputs)?;
            Domain::Integer.check(at, "the operand", &x)?;
            return Ok(vec![x]);
        }
        let [x, amount] = arity(at, inputs)?;
        Domain::Integer.check(at, "the left operand", &x)?;
        check_same(at, &x, &amount)?;
        Ok(vec![x])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let (left, right) = (&inputs[0], &inputs[self.operands() - 1]);
        let bits = 8 * left.dtype().size() as u32;
        let pairs = left.scalars().zip(right.scalars());
        let scalars = pairs.map(|(i, j)| Scalar::Int(self.eval_scalar(i.as_i64(), j.as_i64(), bits)));
        tensor(left.dtype(), left.shape(), scalars)
    }

    elementwise_batch!();

    no_derivative_rules!();
}

/// Shifts `value`, an element of `bits` bits, to the left. The caller must truncate the result to `bits` bits. Backends
/// call this function too.
#[doc(hidden)]
pub fn shift_left(value: impl Into<i64>, amount: impl Into<i64>, bits: u32) -> i64 {
    shift_amount(amount.into(), bits).map_or(0, |amount| value.into() << amount)
}

/// Shifts `value`, an element of `bits` bits, to the right, replicating its highest bit. Backends call this function
/// too.
#[doc(hidden)]
pub fn shift_right_arithmetic(value: impl Into<i64>, amount: impl Into<i64>, bits: u32) -> i64 {
    let unused = i64::BITS - bits;
    let signed = (value.into() << unused) >> unused;
    signed >> shift_amount(amount.into(), bits).unwrap_or(bits - 1)
}

/// Shifts `value`, an element of `bits` bits, to the right, filling with zeros. Backends call this function too.
#[doc(hidden)]
pub fn shift_right_logical(value: impl Into<i64>, amount: impl Into<i64>, bits: u32) -> i64 {
    shift_amount(amount.into(), bits).map_or(0, |amount| (unsigned(value.into(), bits) >> amount) as i64)
}

/// Returns the number of ones in the binary representation of an element of `bits` bits. Backends call this function
/// too.
#[doc(hidden)]
pub fn popcount(value: impl Into<i64>, bits: u32) -> i64 {
    i64::from(unsigned(value.into(), bits).count_ones())
}

/// Returns the number of leading zeros in the binary representation of an element of `bits` bits. Backends call this
/// function too.
#[doc(hidden)]
pub fn count_leading_zeros(value: impl Into<i64>, bits: u32) -> i64 {
    i64::from(unsigned(value.into(), bits).leading_zeros() - (u64::BITS - bits))
}

/// Returns the shift amount, or `None` if it shifts out all bits.
fn shift_amount(amount: i64, bits: u32) -> Option<u32> {
    u32::try_from(amount).ok().filter(|amount| *amount < bits)
}

/// Zero-extends an element of `bits` bits. Elements are stored sign-extended.
fn unsigned(value: i64, bits: u32) -> u64 {
    (value as u64) & (u64::MAX >> (u64::BITS - bits))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn amounts_that_shift_everything_out() {
        let amounts = || HostTensor::from([0i32, 1, 31, 32, -1]);
        let x = HostTensor::from([-5i32; 5]);
        check_op("shift_left", &[x.clone(), amounts()], [-5i32, -10, i32::MIN, 0, 0]);
        check_op("shift_right_arithmetic", &[x.clone(), amounts()], [-5i32, -3, -1, -1, -1]);
        let logical = HostTensor::from([-5i32, 0x7fff_fffd, 1, 0, 0]);
        check_op("shift_right_logical", &[x, amounts()], logical.clone());
        let positive = [HostTensor::from([i64::MAX, 1, -1]), HostTensor::from([64i64, 63, 63])];
        check_op("shift_right_arithmetic", &positive, [0i64, 0, -1]);
        check_op("shift_left", &positive, [0i64, i64::MIN, i64::MIN]);
        check_op("shift_right_logical", &positive, [0i64, 0, 1]);
    }

    #[test]
    fn the_op_says_what_the_sign_is() {
        let operands = [HostTensor::from([0x90u8, 0x90, 0x90]), HostTensor::from([4u8, 8, 255])];
        check_op("shift_right_arithmetic", &operands, [0xf9u8, 0xff, 0xff]);
        check_op("shift_right_logical", &operands, [9u8, 0, 0]);
        check_op("shift_left", &operands, [0u8, 0, 0]);
    }

    #[test]
    fn counts_are_those_of_the_type() {
        let x = [HostTensor::from([-1i32, 0, 1, i32::MIN])];
        check_op("popcount", &x, [32i32, 0, 1, 1]);
        check_op("count_leading_zeros", &x, [0i32, 32, 31, 0]);
        check_op("popcount", &[HostTensor::from([255u8, 6])], [8u8, 2]);
        check_op("count_leading_zeros", &[HostTensor::from([-1i64, 0])], [0i64, 64]);
    }

    #[test]
    fn integers_only() {
        rejects("popcount", &["f32[2]"], "an integer type");
        rejects("shift_left", &["bool[2]", "bool[2]"], "an integer type");
        rejects("shift_right_logical", &["u8[2]", "i32[2]"], "u8[2], like the left operand");
    }
}
