//! Arithmetic of each integer type. Integers wrap.

use pulp::bytemuck::Pod;

use crate::float::Float;
use crate::ir::{IntBinary, IntUnary};

/// An element type: an integer or a float. Converts as `as` does: a float saturates, and NaN becomes 0.
pub trait Element: Pod + PartialOrd + Send + Sync {
    /// Converts to `i64`.
    fn to_i64(self) -> i64;
    /// Converts to `i32`.
    fn to_i32(self) -> i32;
    /// Converts to `u32`.
    fn to_u32(self) -> u32;
    /// Converts to `u8`.
    fn to_u8(self) -> u8;
    /// Converts to the nearest float.
    fn to_float<T: Float>(self) -> T;
    /// Returns `true` unless the element is 0.
    fn is_nonzero(self) -> bool;
}

/// An integer type.
pub trait Integer: Element + Ord {
    /// The smallest integer.
    const LEAST: Self;
    /// The largest integer.
    const GREATEST: Self;
    /// Wraps an integer to this type.
    fn of(number: i64) -> Self;
    /// Applies a function of one integer.
    fn unary(op: IntUnary, x: Self) -> Self;
    /// Applies a function of two integers.
    fn binary(op: IntBinary, x: Self, y: Self) -> Self;
}

macro_rules! integers {
    ($($int:ident, unsigned $unsigned:ident, signed $signed:ident, to float $number:ident by $of_number:ident;)*) => {$(
        impl Element for $int {
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)]
            fn to_i32(self) -> i32 { self as i32 }
            #[inline(always)]
            fn to_u32(self) -> u32 { self as u32 }
            #[inline(always)]
            fn to_u8(self) -> u8 { self as u8 }
            #[inline(always)]
            fn to_float<T: Float>(self) -> T { T::$of_number(self as $number) }
            #[inline(always)]
            fn is_nonzero(self) -> bool { self != 0 }
        }

        impl Integer for $int {
            const LEAST: Self = $int::MIN;
            const GREATEST: Self = $int::MAX;

            #[inline(always)]
            fn of(number: i64) -> Self { number as $int }

            #[inline(always)]
            fn unary(op: IntUnary, x: Self) -> Self {
                let is_negative = $int::MIN != 0 && (x as $signed) < 0;
                match op {
                    IntUnary::Neg => x.wrapping_neg(),
                    IntUnary::Abs => if is_negative { x.wrapping_neg() } else { x },
                    IntUnary::Sign => ((x > 0) as $int).wrapping_sub(is_negative as $int),
                    IntUnary::Square => x.wrapping_mul(x),
                    IntUnary::Not => !x,
                    IntUnary::Popcount => x.count_ones() as $int,
                    IntUnary::LeadingZeros => x.leading_zeros() as $int,
                }
            }

            #[inline(always)]
            fn binary(op: IntBinary, x: Self, y: Self) -> Self {
                // A shift by `y` leaves some bits in place.
                let is_within = (y as $unsigned) < <$int>::BITS as $unsigned;
                match op {
                    IntBinary::Add => x.wrapping_add(y),
                    IntBinary::Sub => x.wrapping_sub(y),
                    IntBinary::Mul => x.wrapping_mul(y),
                    IntBinary::Div => if y == 0 { !0 } else { x.wrapping_div(y) },
                    IntBinary::Rem => if y == 0 { x } else { x.wrapping_rem(y) },
                    IntBinary::Max => x.max(y),
                    IntBinary::Min => x.min(y),
                    IntBinary::Pow => power(x, y),
                    IntBinary::And => x & y,
                    IntBinary::Or => x | y,
                    IntBinary::Xor => x ^ y,
                    IntBinary::ShiftLeft => if is_within { x.wrapping_shl(y as u32) } else { 0 },
                    IntBinary::ShiftRightArithmetic => {
                        let most = <$int>::BITS - 1;
                        (x as $signed).wrapping_shr(if is_within { y as u32 } else { most }) as $int
                    }
                    IntBinary::ShiftRightLogical => {
                        if is_within { (x as $unsigned).wrapping_shr(y as u32) as $int } else { 0 }
                    }
                }
            }
        }
    )*};
}

integers! {
    i64, unsigned u64, signed i64, to float i64 by from_i64;
    i32, unsigned u32, signed i32, to float f64 by from_f64;
    u32, unsigned u32, signed i32, to float f64 by from_f64;
    u8, unsigned u8, signed i8, to float f64 by from_f64;
}

macro_rules! floats {
    ($($float:ident)*) => {$(
        impl Element for $float {
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)]
            fn to_i32(self) -> i32 { self as i32 }
            #[inline(always)]
            fn to_u32(self) -> u32 { self as u32 }
            #[inline(always)]
            fn to_u8(self) -> u8 { self as u8 }
            #[inline(always)]
            fn to_float<T: Float>(self) -> T { T::from_f64(self as f64) }
            #[inline(always)]
            fn is_nonzero(self) -> bool { self != 0.0 }
        }
    )*};
}

floats! { f32 f64 }

/// Computes an integer power by repeated squaring.
fn power<I: Integer>(base: I, exponent: I) -> I {
    let mut left = exponent.to_i64();
    if left < 0 {
        return match base.to_i64() {
            1 => base,
            -1 if left % 2 == 0 => I::of(1),
            -1 => base,
            _ => I::of(0),
        };
    }
    let (mut result, mut square) = (I::of(1), base);
    while left > 0 {
        if left & 1 == 1 {
            result = I::binary(IntBinary::Mul, result, square);
        }
        square = I::binary(IntBinary::Mul, square, square);
        left >>= 1;
    }
    result
}
