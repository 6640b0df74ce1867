//! The basic operations that the mathematical functions use. Each function is written once, generic over
//! [`Arithmetic`], and either runs on vectors of any instruction set or is translated to machine code.

use super::*;

/// The operations of [`Float`] that mathematical functions need, on a vector type.
pub trait Arithmetic<T: Float>: Copy {
    /// A vector of numbers.
    type Vector: Copy;
    /// A vector of booleans.
    type Mask: Copy;
    /// The bits of a vector of numbers.
    type Bits: Copy;

    /// Broadcasts `value` to all lanes of a vector.
    fn splat(self, value: T) -> Self::Vector;
    /// Computes a + b.
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Computes a - b.
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Computes a * b.
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Computes a / b.
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Computes `a * b + c`, with a single rounding where the processor supports it.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// Computes the square root.
    fn sqrt(self, a: Self::Vector) -> Self::Vector;
    /// Flips the sign bit, even if the number is NaN.
    fn neg(self, a: Self::Vector) -> Self::Vector;
    /// Clears the sign bit, even if the number is NaN.
    fn abs(self, a: Self::Vector) -> Self::Vector;
    /// Returns `magnitude`, which must not be negative, with the sign of `sign`.
    fn with_sign(self, magnitude: Self::Vector, sign: Self::Vector) -> Self::Vector;
    /// Computes the mask `a < b`, which is `false` where `a` or `b` is NaN.
    fn less(self, a: Self::Vector, b: Self::Vector) -> Self::Mask;
    /// Computes the mask `a == b`, which is `false` where `a` or `b` is NaN.
    fn equal(self, a: Self::Vector, b: Self::Vector) -> Self::Mask;
    /// Selects `a` where the mask is true, and `b` elsewhere.
    fn select(self, mask: Self::Mask, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the larger of `x` and `low`, or NaN if `x` is NaN.
    fn at_least(self, low: Self::Vector, x: Self::Vector) -> Self::Vector;
    /// Returns the smaller of `x` and `high`, or NaN if `x` is NaN.
    fn at_most(self, high: Self::Vector, x: Self::Vector) -> Self::Vector;
    /// Reinterprets numbers as integers (a bitcast).
    fn bits(self, a: Self::Vector) -> Self::Bits;
    /// Reinterprets integers as numbers (a bitcast).
    fn of_bits(self, a: Self::Bits) -> Self::Vector;
    /// Broadcasts the integer `value` to all lanes of a vector.
    fn splat_word(self, value: u64) -> Self::Bits;
    /// Computes a & b.
    fn and(self, a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// Computes a + b, wrapping on overflow.
    fn add_words(self, a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// Shifts the low bits of the integer n into the exponent field of a number, for n between -2000 and 2000.
    fn to_exponent(self, n: Self::Vector) -> Self::Bits;
    /// Returns two numbers whose product is 2^n, for integers n between -2000 and 2000.
    fn powers_of_two(self, n: Self::Vector) -> (Self::Vector, Self::Vector);
    /// Extracts the biased exponents from the bits of nonnegative numbers, and converts them to floats.
    fn exponent_field(self, bits: Self::Bits) -> Self::Vector;
}

/// Implements [`Arithmetic`] on the vectors of an instruction set.
#[derive(Clone, Copy)]
pub struct Registers<S>(pub S);

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
    sqrt(a: T::Vector<S>) -> T::Vector<S>;
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
