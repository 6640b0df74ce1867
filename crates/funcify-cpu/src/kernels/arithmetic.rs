//! What functions of numbers are made of. They are written once, and run on registers of any instruction set, or become
//! machine code.

use super::*;

/// The operations of [`Float`] that functions need, on vectors of some kind.
pub(crate) trait Arithmetic<T: Float>: Copy {
    /// Numbers.
    type Vector: Copy;
    /// Truth values.
    type Mask: Copy;
    /// The numbers' bits.
    type Bits: Copy;

    /// `value` in every lane.
    fn splat(self, value: T) -> Self::Vector;
    /// a + b.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a - b.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a * b.
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a / b.
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a * b + c, rounded once where the processor can.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// -a, NaN included.
    fn neg(self, a: Self::Vector) -> Self::Vector;
    /// |a|, NaN included.
    fn abs(self, a: Self::Vector) -> Self::Vector;
    /// `magnitude`, which is not negative, with the sign of `sign`.
    fn with_sign(self, magnitude: Self::Vector, sign: Self::Vector) -> Self::Vector;
    /// a < b; false for NaN.
    fn less(self, a: Self::Vector, b: Self::Vector) -> Self::Mask;
    /// a == b; false for NaN.
    fn equal(self, a: Self::Vector, b: Self::Vector) -> Self::Mask;
    /// `a` where the mask is true, else `b`.
    fn select(self, mask: Self::Mask, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `x`, or `low` where x is less; NaN stays.
    fn at_least(self, low: Self::Vector, x: Self::Vector) -> Self::Vector;
    /// `x`, or `high` where x is more; NaN stays.
    fn at_most(self, high: Self::Vector, x: Self::Vector) -> Self::Vector;
    /// The bits of numbers.
    fn bits(self, a: Self::Vector) -> Self::Bits;
    /// The numbers with these bits.
    fn of_bits(self, a: Self::Bits) -> Self::Vector;
    /// An integer in every lane.
    fn splat_word(self, value: u64) -> Self::Bits;
    /// a & b.
    fn and(self, a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// a + b, wrapping.
    fn add_words(self, a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// n shifted to where a number has its exponent, for whole n between -2000 and 2000.
    fn to_exponent(self, n: Self::Vector) -> Self::Bits;
    /// Two numbers whose product is 2^n, for whole n between -2000 and 2000.
    fn powers_of_two(self, n: Self::Vector) -> (Self::Vector, Self::Vector);
    /// The stored exponent of numbers that are not negative, as a number.
    fn exponent_field(self, bits: Self::Bits) -> Self::Vector;
}

/// The registers of an instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Registers<S>(pub(crate) S);

macro_rules! on_registers {
    ($($name:ident($($operand:ident: $ty:ty),*) -> $result:ty;)*) => {
        impl<T: Float, S: Simd> Arithmetic<T> for Registers<S> {
            type Vector = T::Vector<S>;
            type Mask = T::Mask<S>;
            type Bits = T::Bits<S>;

            $(
                #[inline(always)]
                fn $name(self, $($operand: $ty),*) -> $result {
                    T::$name(self.0, $($operand),*)
                }
            )*
        }
    };
}

on_registers! {
    splat(value: T) -> T::Vector<S>;
    add(a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S>;
    sub(a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S>;
    mul(a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S>;
    div(a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S>;
    mul_add(a: T::Vector<S>, b: T::Vector<S>, c: T::Vector<S>) -> T::Vector<S>;
    neg(a: T::Vector<S>) -> T::Vector<S>;
    abs(a: T::Vector<S>) -> T::Vector<S>;
    with_sign(magnitude: T::Vector<S>, sign: T::Vector<S>) -> T::Vector<S>;
    less(a: T::Vector<S>, b: T::Vector<S>) -> T::Mask<S>;
    equal(a: T::Vector<S>, b: T::Vector<S>) -> T::Mask<S>;
    select(mask: T::Mask<S>, a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S>;
    at_least(low: T::Vector<S>, x: T::Vector<S>) -> T::Vector<S>;
    at_most(high: T::Vector<S>, x: T::Vector<S>) -> T::Vector<S>;
    bits(a: T::Vector<S>) -> T::Bits<S>;
    of_bits(a: T::Bits<S>) -> T::Vector<S>;
    splat_word(value: u64) -> T::Bits<S>;
    and(a: T::Bits<S>, b: T::Bits<S>) -> T::Bits<S>;
    add_words(a: T::Bits<S>, b: T::Bits<S>) -> T::Bits<S>;
    to_exponent(n: T::Vector<S>) -> T::Bits<S>;
    powers_of_two(n: T::Vector<S>) -> (T::Vector<S>, T::Vector<S>);
    exponent_field(bits: T::Bits<S>) -> T::Vector<S>;
}
