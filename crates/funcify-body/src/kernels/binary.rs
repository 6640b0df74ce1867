//! Elementwise ops with two or three operands: tables of their names, definitions and kernels.
//!
//! Comparisons return 1 for true and 0 for false. On such masks, `Mul` computes logical AND, `Max` OR, and `NotEqual`
//! XOR.

use super::arithmetic::Registers;
use super::map::{Function2, Function3, Map2, Map3, One, OneVector, Target};
use super::math::{self, MathTable};
use super::source::Source;
use super::special;
use super::table::{self, Elementwise, table};
use super::*;

table! {
    /// An elementwise op with two operands.
    Binary of 2, Function2, Map2;
    registers {
    Add, light true, "x + y.", |simd, x, y| T::add(simd, x, y);
    Sub, light true, "x - y.", |simd, x, y| T::sub(simd, x, y);
    Mul, light true, "x * y.", |simd, x, y| T::mul(simd, x, y);
    Div, "x / y.", |simd, x, y| T::div(simd, x, y);
    TruncDiv, "x / y rounded toward zero to an integer.",
        |simd, x, y| math::trunc::<T, _>(Registers(simd), T::div(simd, x, y));
    Max, "The larger, where -0 is less than +0; NaN if either is NaN.", |simd, x, y| T::max(simd, x, y);
    Min, "The smaller, where -0 is less than +0; NaN if either is NaN.", |simd, x, y| T::min(simd, x, y);
    Less, "1 where x < y.", |simd, x, y| mask::<T, S>(simd, T::less(simd, x, y));
    LessEqual, "1 where x <= y.", |simd, x, y| mask::<T, S>(simd, T::less_equal(simd, x, y));
    Equal, "1 where x = y.", |simd, x, y| mask::<T, S>(simd, T::equal(simd, x, y));
    NotEqual, "1 where x and y differ, or either is NaN.",
        |simd, x, y| T::sub(simd, T::splat(simd, T::ONE), mask::<T, S>(simd, T::equal(simd, x, y)));
    Copysign, "|x| with the sign of y.", |simd, x, y| T::with_sign(simd, T::abs(simd, x), y);
    ExpOfProduct, "exp(x * y).", |simd, x, y| math::exp::<T, _>(Registers(simd), T::mul(simd, x, y));
    TanhAdjoint, "x * (1 - y * y): the cotangent of u for y = tanh(u) with cotangent x.",
        |simd, x, y| T::mul(simd, x, T::mul_add(simd, T::neg(simd, y), y, T::splat(simd, T::ONE)));
    SigmoidAdjoint, "x * y * (1 - y): the cotangent of u for y = sigmoid(u) with cotangent x.",
        |simd, x, y| T::mul(simd, T::mul(simd, x, y), T::sub(simd, T::splat(simd, T::ONE), y));
    }
    fused {
    Pow, "x to the power y.", |simd, x, y| special::pow::<T, _>(Registers(simd), x, y), |x, y| x.powf(y);
    Atan2, "The angle of the point (y, x).",
        |simd, x, y| special::atan2::<T, _>(Registers(simd), x, y), |x, y| x.atan2(y);
    }
    elements {
    Rem, "The remainder of x / y with the sign of x, element by element.", |x, y| x % y;
    }
}

table! {
    /// An elementwise op with three operands.
    Ternary of 3, Function3, Map3;
    registers {
    MulAdd, light true, "x * y + z.", |simd, x, y, z| T::mul_add(simd, x, y, z);
    MulSub, "x * y - z.", |simd, x, y, z| T::mul_add(simd, x, y, T::neg(simd, z));
    NegMulAdd, "z - x * y.", |simd, x, y, z| T::mul_add(simd, T::neg(simd, x), y, z);
    Select, "y where x is not 0, else z.",
        |simd, x, y, z| T::select(simd, T::equal(simd, x, T::splat(simd, T::ZERO)), z, y);
    }
    fused {}
    elements {}
}

#[inline(always)]
pub fn mask<T: Float, S: Simd>(simd: S, mask: T::Mask<S>) -> T::Vector<S> {
    T::select(simd, mask, T::splat(simd, T::ONE), T::splat(simd, T::ZERO))
}
