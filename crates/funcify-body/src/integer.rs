//! Arithmetic for each integer type, wrapping on overflow.

use pulp::bytemuck::Pod;

use crate::convert;
use crate::float::{Constants, Float};
use crate::ir::{IntBinary, IntUnary};

/// The number of elements in a block that [`Element::run_start`] examines.
pub const RUN: usize = 16;

/// An element type: an integer or a float. Conversions to integers behave like `as`: floats saturate, and NaN becomes
/// 0.
pub trait Element: Pod + PartialOrd + Send + Sync {
    /// `true` for floats.
    const IS_FLOAT: bool;
    /// Converts the element to `i64`.
    fn to_i64(self) -> i64;
    /// Converts the element to `i32`.
    fn to_i32(self) -> i32;
    /// Converts the element to `u32`.
    fn to_u32(self) -> u32;
    /// Converts the element to `u8`.
    fn to_u8(self) -> u8;
    /// Converts the element to the nearest float.
    fn to_float<T: Float>(self) -> T;
    /// Returns `true` unless the element is 0.
    fn is_nonzero(self) -> bool;
    /// Returns the first element of a block as a position if the elements of the block are consecutive integers that
    /// are 0 or more, and exact if they are floats.
    fn run_start(block: &[Self; RUN]) -> Option<usize>;
    /// Returns `true` if [`truncate_small`](Element::truncate_small) converts all elements correctly.
    fn are_small(elements: &[Self]) -> bool;
    /// Converts an element by truncation toward zero. The magnitude of a float must be less than half of
    /// `Constants::WHOLE`.
    fn truncate_small(self) -> i64;
}

/// An integer type.
pub trait Integer: Element + Ord {
    /// The smallest integer.
    const LEAST: Self;
    /// The largest integer.
    const GREATEST: Self;
    /// Converts an integer to this type, wrapping on overflow.
    fn of(number: i64) -> Self;
    /// Applies `op` to an integer.
    fn unary(op: IntUnary, x: Self) -> Self;
    /// Applies `op` to two integers.
    fn binary(op: IntBinary, x: Self, y: Self) -> Self;
    /// Returns the integer of this type that is nearest to `number`.
    fn saturate(number: i64) -> Self;
    /// Converts any float like `as`, but in a form that compiles to vector code.
    fn truncate(number: f64) -> Self;
    /// Returns `true` if [`quotient`](Integer::quotient) returns the correct result for all pairs of these integers.
    fn are_divisible(x: &[Self], y: &[Self]) -> bool;
    /// Divides two integers like [`IntBinary::Div`], but in a form that compiles to vector code.
    fn quotient(x: Self, y: Self) -> Self;
    /// Computes the remainder of two integers like [`IntBinary::Rem`], but in a form that compiles to vector code.
    fn remainder(x: Self, y: Self) -> Self;
}

macro_rules! integers {
    ($($int:ident, unsigned $unsigned:ident, signed $signed:ident, to float $number:ident by $of_number:ident, from float by $truncate:expr,
       divide if $divisible:expr, by $divide:expr;)*) => {$(
        impl Element for $int {
            const IS_FLOAT: bool = false;

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
            #[inline(always)]
            fn run_start(block: &[Self; RUN]) -> Option<usize> {
                let start = usize::try_from(block[0]).ok().filter(|_| block[0] <= $int::MAX - RUN as $int)?;
                let following = |number: usize| block[0].wrapping_add(number as $int);
                let difference = (0..RUN).fold(0, |all, number| all | (block[number] ^ following(number)));
                (difference == 0).then_some(start)
            }
            #[inline(always)]
            fn are_small(_: &[Self]) -> bool { true }
            #[inline(always)]
            fn truncate_small(self) -> i64 { self as i64 }
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
                // If `is_within` is `false`, a shift by `y` shifts out all bits.
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

            #[inline(always)]
            fn saturate(number: i64) -> Self {
                number.max($int::MIN as i64).min($int::MAX as i64) as $int
            }

            #[inline(always)]
            fn truncate(number: f64) -> Self { $truncate(number) }

            #[inline(always)]
            fn are_divisible(x: &[Self], y: &[Self]) -> bool { $divisible(x, y) }

            #[inline(always)]
            fn quotient(x: Self, y: Self) -> Self {
                (if y == 0 { !0 } else { 0 }) | $divide(x, y)
            }

            #[inline(always)]
            fn remainder(x: Self, y: Self) -> Self {
                x.wrapping_sub(Self::quotient(x, y).wrapping_mul(y))
            }
        }
    )*};
}

integers! {
    i64, unsigned u64, signed i64, to float i64 by from_i64, from float by convert::to_i64,
        divide if |x, y| convert::are_small(x) && convert::are_small(y), by convert::divide_small;
    i32, unsigned u32, signed i32, to float f64 by from_f64, from float by convert::to_i32,
        divide if |_, _| true, by |x, y| convert::divide(f64::from(x), f64::from(y)) as i32;
    u32, unsigned u32, signed i32, to float f64 by from_f64, from float by convert::to_u32,
        divide if |_, _| true, by |x, y| convert::divide(f64::from(x), f64::from(y));
    u8, unsigned u8, signed i8, to float f64 by from_f64, from float by convert::to_u8,
        divide if |_, _| true, by convert::divide_u8;
}

macro_rules! floats {
    ($($float:ident: $signed:ident)*) => {$(
        impl Element for $float {
            const IS_FLOAT: bool = true;

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
            #[inline(always)]
            fn run_start(block: &[Self; RUN]) -> Option<usize> {
                let start = block[0] as usize;
                let is_exact = start as $float == block[0] && block[0] < Self::ROUNDER / 4.0;
                let following = |number: usize| block[0] + number as $float;
                let are_consecutive = (0..RUN).fold(is_exact, |all, number| all & (block[number] == following(number)));
                are_consecutive.then_some(start)
            }
            #[inline(always)]
            fn are_small(elements: &[Self]) -> bool {
                elements.iter().fold(true, |are_small, x| are_small & (x.abs() <= Self::ROUNDER / 4.0))
            }
            #[inline(always)]
            fn truncate_small(self) -> i64 {
                ((self.trunc() + Self::ROUNDER).to_bits() as $signed).wrapping_sub(Self::ROUNDER.to_bits() as $signed).into()
            }
        }
    )*};
}

floats! { f32: i32  f64: i64 }

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

/// Computes integer powers by repeated squaring, for all elements of a chunk at the same time.
#[inline(always)]
pub(crate) fn powers<I: Integer>(to: &mut [I], base: &[I], exponent: &[I]) {
    const CHUNK: usize = 32;
    let [zero, one] = [0, 1].map(I::of);
    for ((to, base), exponent) in to.chunks_mut(CHUNK).zip(base.chunks(CHUNK)).zip(exponent.chunks(CHUNK)) {
        let [mut result, mut square, mut left] = [[zero; CHUNK]; 3];
        square[..base.len()].copy_from_slice(base);
        left[..base.len()].copy_from_slice(exponent);
        let mut all = zero;
        for lane in 0..CHUNK {
            // A negative power of 1 or -1 depends only on the parity of the exponent. A negative power of any other
            // base is 0.
            let is_negative = I::LEAST != zero && left[lane] < zero;
            let is_unit = I::unary(IntUnary::Abs, square[lane]) == one;
            let parity = I::binary(IntBinary::And, left[lane], if is_unit { one } else { zero });
            result[lane] = if is_negative & !is_unit { zero } else { one };
            left[lane] = if is_negative { parity } else { left[lane] };
            all = I::binary(IntBinary::Or, all, left[lane]);
        }
        let mut all = all.to_i64();
        while all > 0 {
            for lane in 0..CHUNK {
                let is_odd = I::binary(IntBinary::And, left[lane], one) != zero;
                let factor = if is_odd { square[lane] } else { one };
                result[lane] = I::binary(IntBinary::Mul, result[lane], factor);
                square[lane] = I::binary(IntBinary::Mul, square[lane], square[lane]);
                left[lane] = I::binary(IntBinary::ShiftRightLogical, left[lane], one);
            }
            all >>= 1;
        }
        to.copy_from_slice(&result[..to.len()]);
    }
}
