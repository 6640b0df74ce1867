//! Vector operations on `f32` and `f64`, for every instruction set.
//!
//! The kernels are written once, generic over a [`Float`] and an instruction set `S` of `pulp`. A value of type `S`
//! proves that the processor supports this instruction set. All methods are inlined into a function that `S::vectorize`
//! compiles for `S`.

use pulp::Simd;
use pulp::bytemuck::{self, Pod};

/// An element type of the kernels: `f32` or `f64`.
pub trait Float: Pod + Constants + PartialOrd + std::fmt::Debug + Send + Sync + Default {
    /// A vector of elements.
    type Vector<S: Simd>: Copy;
    /// A vector of booleans, one per element.
    type Mask<S: Simd>: Copy;
    /// A vector of unsigned integers of the same width as the elements.
    type Bits<S: Simd>: Copy;

    /// Returns the number of elements in a vector.
    fn lanes<S: Simd>() -> usize;
    /// Rounds `value` to the nearest number of this type.
    fn from_f64(value: f64) -> Self;
    /// Rounds an integer to the nearest number of this type.
    fn from_i64(value: i64) -> Self;
    /// Converts the element to f64.
    fn to_f64(self) -> f64;

    /// Returns the sum of two elements.
    fn plus(self, other: Self) -> Self;
    /// Returns the difference of two elements.
    fn minus(self, other: Self) -> Self;
    /// Returns the product of two elements.
    fn times(self, other: Self) -> Self;
    /// Returns the quotient of two elements.
    fn over(self, other: Self) -> Self;
    /// Returns the element with its sign flipped.
    fn negated(self) -> Self;
    /// Returns `true` if the element is NaN.
    fn is_nan(self) -> bool;
    /// Returns the larger of two elements. Treats NaN and signed zeros as [`max`](Float::max) does.
    fn larger(self, other: Self) -> Self;
    /// Returns the smaller of two elements. Treats NaN and signed zeros as [`min`](Float::min) does.
    fn smaller(self, other: Self) -> Self;
    /// Computes `a * b + c`, with a single rounding where the processor supports it.
    fn mul_add_element<S: Simd>(a: Self, b: Self, c: Self) -> Self;

    /// Splits the slice into full vectors and the remaining elements.
    fn as_vectors<S: Simd>(slice: &[Self]) -> (&[Self::Vector<S>], &[Self]);
    /// Splits the slice into full vectors and the remaining elements, both mutable.
    fn as_vectors_mut<S: Simd>(slice: &mut [Self]) -> (&mut [Self::Vector<S>], &mut [Self]);
    /// Reinterprets vectors as a slice of elements.
    fn elements<S: Simd>(vectors: &mut [Self::Vector<S>]) -> &mut [Self];
    /// Loads a slice shorter than a vector, and sets the remaining elements of the vector to 0.
    fn load_part<S: Simd>(simd: S, slice: &[Self]) -> Self::Vector<S>;
    /// Fills the slice with the first elements of a vector.
    fn store_part<S: Simd>(simd: S, slice: &mut [Self], values: Self::Vector<S>);

    /// Broadcasts `value` to all lanes of a vector.
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S>;
    /// Computes a + b.
    fn add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Computes a - b.
    fn sub<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Computes a * b.
    fn mul<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Computes a / b.
    fn div<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Computes `a * b + c`, with a single rounding where the processor supports it.
    fn mul_add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    /// Computes the square root.
    fn sqrt<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;

    /// Computes the mask `a < b`, which is `false` where `a` or `b` is NaN.
    fn less<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Mask<S>;
    /// Computes the mask `a <= b`, which is `false` where `a` or `b` is NaN.
    fn less_equal<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Mask<S>;
    /// Computes the mask `a == b`, which is `false` where `a` or `b` is NaN.
    fn equal<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Mask<S>;
    /// Selects `a` where the mask is true, and `b` elsewhere.
    fn select<S: Simd>(simd: S, mask: Self::Mask<S>, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;

    /// Reinterprets elements as integers (a bitcast).
    fn bits<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Bits<S>;
    /// Reinterprets integers as elements (a bitcast).
    fn of_bits<S: Simd>(simd: S, a: Self::Bits<S>) -> Self::Vector<S>;
    /// Broadcasts the integer `value` to all lanes of a vector.
    fn splat_word<S: Simd>(simd: S, value: u64) -> Self::Bits<S>;
    /// Computes a & b.
    fn and<S: Simd>(simd: S, a: Self::Bits<S>, b: Self::Bits<S>) -> Self::Bits<S>;
    /// Computes a | b.
    fn or<S: Simd>(simd: S, a: Self::Bits<S>, b: Self::Bits<S>) -> Self::Bits<S>;
    /// Computes a ^ b.
    fn xor<S: Simd>(simd: S, a: Self::Bits<S>, b: Self::Bits<S>) -> Self::Bits<S>;
    /// Computes a + b, wrapping on overflow.
    fn add_words<S: Simd>(simd: S, a: Self::Bits<S>, b: Self::Bits<S>) -> Self::Bits<S>;
    /// Computes a - b, wrapping on overflow.
    fn sub_words<S: Simd>(simd: S, a: Self::Bits<S>, b: Self::Bits<S>) -> Self::Bits<S>;
    /// Shifts the low bits of the integer n into the exponent field of an element, for n between -2000 and 2000.
    fn to_exponent<S: Simd>(simd: S, n: Self::Vector<S>) -> Self::Bits<S>;
    /// Returns two numbers whose product is 2^n, for integers n between -2000 and 2000.
    fn powers_of_two<S: Simd>(simd: S, n: Self::Vector<S>) -> (Self::Vector<S>, Self::Vector<S>);
    /// Extracts the biased exponents from the bits of nonnegative elements, and converts them to floats.
    fn exponent_field<S: Simd>(simd: S, bits: Self::Bits<S>) -> Self::Vector<S>;

    /// Adds up the elements of a vector. The order of summation depends on the instruction set.
    fn sum<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;
    /// Returns the product of the elements of a vector.
    fn product<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;

    /// Clears the sign bit, even if the element is NaN.
    #[inline(always)]
    fn abs<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S> {
        Self::of_bits(simd, Self::and(simd, Self::bits(simd, a), Self::splat_word(simd, Self::SIGN - 1)))
    }

    /// Flips the sign bit, even if the element is NaN.
    #[inline(always)]
    fn neg<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S> {
        Self::of_bits(simd, Self::xor(simd, Self::bits(simd, a), Self::splat_word(simd, Self::SIGN)))
    }

    /// Returns `magnitude`, which must not be negative, with the sign of `sign`.
    #[inline(always)]
    fn with_sign<S: Simd>(simd: S, magnitude: Self::Vector<S>, sign: Self::Vector<S>) -> Self::Vector<S> {
        let sign = Self::and(simd, Self::bits(simd, sign), Self::splat_word(simd, Self::SIGN));
        Self::of_bits(simd, Self::or(simd, Self::bits(simd, magnitude), sign))
    }

    /// Replaces elements of `x` that are less than `low` with `low`. NaN in `x` stays NaN.
    fn at_least<S: Simd>(simd: S, low: Self::Vector<S>, x: Self::Vector<S>) -> Self::Vector<S>;
    /// Replaces elements of `x` that are greater than `high` with `high`. NaN in `x` stays NaN.
    fn at_most<S: Simd>(simd: S, high: Self::Vector<S>, x: Self::Vector<S>) -> Self::Vector<S>;

    /// Computes the elementwise maximum, treating -0 as less than +0. The result is NaN if either element is NaN.
    #[inline(always)]
    fn max<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
        let larger = Self::select(simd, Self::equal(simd, a, a), Self::at_least(simd, a, b), a);
        // If both elements are zeros, `larger` is b. The maximum is -0 only if both are -0.
        let sign = Self::or(simd, Self::bits(simd, a), Self::splat_word(simd, Self::SIGN - 1));
        Self::of_bits(simd, Self::and(simd, Self::bits(simd, larger), sign))
    }

    /// Computes the elementwise minimum, treating -0 as less than +0. The result is NaN if either element is NaN.
    #[inline(always)]
    fn min<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
        // The two selections differ only for zeros and NaN. For two zeros, the combined bits are -0 if either zero is
        // -0, as required. If either element is NaN, the combined bits are NaN.
        let (first, second) = (Self::at_most(simd, b, a), Self::at_most(simd, a, b));
        Self::of_bits(simd, Self::or(simd, Self::bits(simd, first), Self::bits(simd, second)))
    }
}

/// The constants of an element type.
pub trait Constants: Copy {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Infinity.
    const INFINITY: Self;
    /// A quiet NaN.
    const NAN: Self;
    /// The mask of the sign bit.
    const SIGN: u64;
    /// The number of fraction bits.
    const FRACTION_BITS: u64;
    /// The exponent bias.
    const EXPONENT_BIAS: u64;
    /// 1.5 * 2^[`FRACTION_BITS`](Constants::FRACTION_BITS). Adding it to a small number rounds that number to an
    /// integer, which ends up in the low bits of the sum.
    const ROUNDER: Self;
    /// 2^[`FRACTION_BITS`](Constants::FRACTION_BITS). All numbers that are at least this large are integers.
    const WHOLE: Self;
}

macro_rules! operators {
    ($($name:ident $operator:tt),*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            self $operator other
        }
    )*};
}

/// Implements methods by forwarding to methods of `pulp`.
macro_rules! forward_to_pulp {
    ($($name:ident($($operand:ident: $ty:ty),*) $(-> $result:ty)? = $pulp:ident;)*) => {$(
        #[inline(always)]
        fn $name<S: Simd>(simd: S, $($operand: $ty),*) $(-> $result)? {
            simd.$pulp($($operand),*)
        }
    )*};
}

macro_rules! float {
    (
        $float:ident, $word:ident: $vector:ident, $mask:ident, $bits:ident; sign $sign:expr, fraction $fraction:expr, bias $bias:expr;
        slices: $as_vectors:ident, $as_vectors_mut:ident, $load_part:ident, $store_part:ident;
        splats: $splat:ident, $splat_word:ident;
        arithmetic: $add:ident, $sub:ident, $mul:ident, $div:ident, $mul_add:ident, $sqrt:ident;
        bounds: $min:ident, $max:ident;
        compare: $less:ident, $less_equal:ident, $equal:ident, $select:ident;
        casts: $to_bits:ident, $from_bits:ident;
        words: $and:ident, $or:ident, $xor:ident, $add_words:ident, $sub_words:ident;
        exponents: $to_exponent:ident, $powers_of_two:ident, $exponent_field:ident;
        reduce: $sum:ident, $product:ident;
    ) => {
        impl Constants for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const INFINITY: Self = $float::INFINITY;
            const NAN: Self = $float::NAN;
            const SIGN: u64 = $sign;
            const FRACTION_BITS: u64 = $fraction;
            const EXPONENT_BIAS: u64 = $bias;
            const ROUNDER: Self = 1.5 * (1u64 << $fraction) as $float;
            const WHOLE: Self = (1u64 << $fraction) as $float;
        }

        impl Float for $float {
            type Vector<S: Simd> = S::$vector;
            type Mask<S: Simd> = S::$mask;
            type Bits<S: Simd> = S::$bits;

            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                size_of::<S::$vector>() / size_of::<$float>()
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $float
            }
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as $float
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            operators! { plus +, minus -, times *, over / }
            #[inline(always)]
            fn negated(self) -> Self {
                -self
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                let larger = if other < self || self.is_nan() { self } else { other };
                Self::from_bits(larger.to_bits() & (self.to_bits() | (Self::SIGN - 1) as $word))
            }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                let (first, second) =
                    (if self < other { self } else { other }, if other < self { other } else { self });
                Self::from_bits(first.to_bits() | second.to_bits())
            }
            #[inline(always)]
            fn mul_add_element<S: Simd>(a: Self, b: Self, c: Self) -> Self {
                if S::IS_SCALAR { a * b + c } else { a.mul_add(b, c) }
            }

            #[inline(always)]
            fn as_vectors<S: Simd>(slice: &[Self]) -> (&[S::$vector], &[Self]) {
                S::$as_vectors(slice)
            }
            #[inline(always)]
            fn as_vectors_mut<S: Simd>(slice: &mut [Self]) -> (&mut [S::$vector], &mut [Self]) {
                S::$as_vectors_mut(slice)
            }
            #[inline(always)]
            fn elements<S: Simd>(vectors: &mut [S::$vector]) -> &mut [Self] {
                bytemuck::cast_slice_mut(vectors)
            }
            forward_to_pulp! {
                load_part(slice: &[Self]) -> S::$vector = $load_part;
                store_part(slice: &mut [Self], values: S::$vector) = $store_part;
                splat(value: Self) -> S::$vector = $splat;
                add(a: S::$vector, b: S::$vector) -> S::$vector = $add;
                sub(a: S::$vector, b: S::$vector) -> S::$vector = $sub;
                mul(a: S::$vector, b: S::$vector) -> S::$vector = $mul;
                div(a: S::$vector, b: S::$vector) -> S::$vector = $div;
                mul_add(a: S::$vector, b: S::$vector, c: S::$vector) -> S::$vector = $mul_add;
                sqrt(a: S::$vector) -> S::$vector = $sqrt;
                less(a: S::$vector, b: S::$vector) -> S::$mask = $less;
                less_equal(a: S::$vector, b: S::$vector) -> S::$mask = $less_equal;
                equal(a: S::$vector, b: S::$vector) -> S::$mask = $equal;
                select(mask: S::$mask, a: S::$vector, b: S::$vector) -> S::$vector = $select;
                bits(a: S::$vector) -> S::$bits = $to_bits;
                of_bits(a: S::$bits) -> S::$vector = $from_bits;
                and(a: S::$bits, b: S::$bits) -> S::$bits = $and;
                or(a: S::$bits, b: S::$bits) -> S::$bits = $or;
                xor(a: S::$bits, b: S::$bits) -> S::$bits = $xor;
                add_words(a: S::$bits, b: S::$bits) -> S::$bits = $add_words;
                sub_words(a: S::$bits, b: S::$bits) -> S::$bits = $sub_words;
                sum(a: S::$vector) -> Self = $sum;
                product(a: S::$vector) -> Self = $product;
            }

            // If an operand is NaN, the vector instruction returns its second operand or NaN, but the scalar
            // instruction returns the operand that is not NaN.
            #[inline(always)]
            fn at_least<S: Simd>(simd: S, low: S::$vector, x: S::$vector) -> S::$vector {
                if S::IS_SCALAR { Self::select(simd, Self::less(simd, x, low), low, x) } else { simd.$max(low, x) }
            }
            #[inline(always)]
            fn at_most<S: Simd>(simd: S, high: S::$vector, x: S::$vector) -> S::$vector {
                if S::IS_SCALAR { Self::select(simd, Self::less(simd, high, x), high, x) } else { simd.$min(high, x) }
            }

            #[inline(always)]
            fn splat_word<S: Simd>(simd: S, value: u64) -> S::$bits {
                simd.$splat_word(value as $word)
            }
            #[inline(always)]
            fn to_exponent<S: Simd>(simd: S, n: S::$vector) -> S::$bits {
                $to_exponent(simd, n)
            }
            #[inline(always)]
            fn powers_of_two<S: Simd>(simd: S, n: S::$vector) -> (S::$vector, S::$vector) {
                $powers_of_two(simd, n)
            }
            #[inline(always)]
            fn exponent_field<S: Simd>(simd: S, bits: S::$bits) -> S::$vector {
                $exponent_field(simd, bits)
            }
        }
    };
}

float! {
    f32, u32: f32s, m32s, u32s; sign 1 << 31, fraction 23, bias 127;
    slices: as_simd_f32s, as_mut_simd_f32s, partial_load_f32s, partial_store_f32s;
    splats: splat_f32s, splat_u32s;
    arithmetic: add_f32s, sub_f32s, mul_f32s, div_f32s, mul_add_e_f32s, sqrt_f32s;
    bounds: min_f32s, max_f32s;
    compare: less_than_f32s, less_than_or_equal_f32s, equal_f32s, select_f32s;
    casts: transmute_u32s_f32s, transmute_f32s_u32s;
    words: and_u32s, or_u32s, xor_u32s, add_u32s, sub_u32s;
    exponents: to_exponent_f32, powers_of_two_f32, exponent_field_f32;
    reduce: reduce_sum_f32s, reduce_product_f32s;
}

float! {
    f64, u64: f64s, m64s, u64s; sign 1 << 63, fraction 52, bias 1023;
    slices: as_simd_f64s, as_mut_simd_f64s, partial_load_f64s, partial_store_f64s;
    splats: splat_f64s, splat_u64s;
    arithmetic: add_f64s, sub_f64s, mul_f64s, div_f64s, mul_add_e_f64s, sqrt_f64s;
    bounds: min_f64s, max_f64s;
    compare: less_than_f64s, less_than_or_equal_f64s, equal_f64s, select_f64s;
    casts: transmute_u64s_f64s, transmute_f64s_u64s;
    words: and_u64s, or_u64s, xor_u64s, add_u64s, sub_u64s;
    exponents: to_exponent_f64, powers_of_two_f64, exponent_field_f64;
    reduce: reduce_sum_f64s, reduce_product_f64s;
}

/// Implements [`Float::to_exponent`]: adds 1.5 * 2^23 to n, so that the low bits of the sum are n, and shifts them into
/// the exponent field.
#[inline(always)]
fn to_exponent_f32<S: Simd>(simd: S, n: S::f32s) -> S::u32s {
    let low = simd.transmute_u32s_f32s(simd.add_f32s(n, simd.splat_f32s(f32::ROUNDER)));
    simd.wrapping_dyn_shl_u32s(low, simd.splat_u32s(23))
}

/// Implements [`Float::powers_of_two`]. Adds the rounder and the bias as one constant, so that the low bits of each sum
/// are the biased exponent of one of the powers.
#[inline(always)]
fn powers_of_two_f32<S: Simd>(simd: S, n: S::f32s) -> (S::f32s, S::f32s) {
    const BIASED: f32 = f32::ROUNDER + 127.0;
    let first = simd.mul_add_e_f32s(n, simd.splat_f32s(0.5), simd.splat_f32s(BIASED));
    let second = simd.add_f32s(simd.sub_f32s(n, first), simd.splat_f32s(2.0 * BIASED));
    let shift = simd.splat_u32s(23);
    let first = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(first), shift);
    let second = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(second), shift);
    (simd.transmute_f32s_u32s(first), simd.transmute_f32s_u32s(second))
}

/// Implements [`Float::exponent_field`]: ORs the exponent field, an integer below 2^23, into the fraction bits of 2^23,
/// and subtracts 2^23.
#[inline(always)]
fn exponent_field_f32<S: Simd>(simd: S, bits: S::u32s) -> S::f32s {
    let field = simd.wrapping_dyn_shr_u32s(bits, simd.splat_u32s(23));
    let number = simd.or_u32s(field, simd.splat_u32s(f32::WHOLE.to_bits()));
    simd.sub_f32s(simd.transmute_f32s_u32s(number), simd.splat_f32s(f32::WHOLE))
}

/// 2^20. In an f64 of this magnitude, bit 32 has the value 1, so the integer part is in the upper half of the 64 bits.
const UPPER_HALF: f64 = (1u64 << 20) as f64;

/// Implements [`Float::to_exponent`]: adds 1.5 * 2^20 to n, so that the low bits of the upper half of the sum are n,
/// and shifts them into the exponent field. The two halves can be shifted as separate 32-bit words.
#[inline(always)]
fn to_exponent_f64<S: Simd>(simd: S, n: S::f64s) -> S::u64s {
    let upper = simd.transmute_u64s_f64s(simd.add_f64s(n, simd.splat_f64s(1.5 * UPPER_HALF)));
    if S::IS_SCALAR {
        let word: u64 = bytemuck::cast(upper);
        return bytemuck::cast(word << 20);
    }
    let words: S::u32s = bytemuck::cast(upper);
    bytemuck::cast(simd.wrapping_dyn_shl_u32s(words, simd.splat_u32s(20)))
}

/// Implements [`Float::powers_of_two`]: splits n into a sum of two integers, each about n / 2, and computes 2 to the
/// power of each.
#[inline(always)]
fn powers_of_two_f64<S: Simd>(simd: S, n: S::f64s) -> (S::f64s, S::f64s) {
    let rounder = simd.splat_f64s(f64::ROUNDER);
    let bias = simd.splat_f64s(1023.0);
    let first = simd.sub_f64s(simd.mul_add_e_f64s(n, simd.splat_f64s(0.5), rounder), rounder);
    let second = simd.sub_f64s(n, first);
    let first = to_exponent_f64(simd, simd.add_f64s(first, bias));
    let second = to_exponent_f64(simd, simd.add_f64s(second, bias));
    (simd.transmute_f64s_u64s(first), simd.transmute_f64s_u64s(second))
}

/// Implements [`Float::exponent_field`]: moves the exponent field to the low bits of the upper half, ORs it into the
/// fraction bits of 2^20, and subtracts 2^20.
#[inline(always)]
fn exponent_field_f64<S: Simd>(simd: S, bits: S::u64s) -> S::f64s {
    let shifted: S::u64s = if S::IS_SCALAR {
        let word: u64 = bytemuck::cast(bits);
        bytemuck::cast(word >> 20)
    } else {
        let words: S::u32s = bytemuck::cast(bits);
        bytemuck::cast(simd.wrapping_dyn_shr_u32s(words, simd.splat_u32s(20)))
    };
    let field = simd.and_u64s(shifted, simd.splat_u64s(0xfff << 32));
    let number = simd.or_u64s(field, simd.splat_u64s(UPPER_HALF.to_bits()));
    simd.sub_f64s(simd.transmute_f64s_u64s(number), simd.splat_f64s(UPPER_HALF))
}
