//! Elementwise ops of two and of three operands: tables of name, meaning and kernel.
//!
//! Comparisons give masks: 1 where they hold and 0 elsewhere. `And` and `Or` of masks are `Mul` and `Max`, `Xor` is
//! `NotEqual`.

use std::marker::PhantomData;

use pulp::Simd;

use super::arithmetic::Registers;
use super::map::{Function2, Function3, Map2, Map3, One, OneVector, Target};
use super::math::{self, MathTable};
use super::source::Source;
use crate::float::Float;

macro_rules! binary_table {
    (
        registers { $($op:ident$(, light $light:literal)?, $doc:literal, |$simd:ident, $x:ident, $y:ident| $value:expr;)* }
        elements { $($scalar:ident, $scalar_doc:literal, |$e:ident, $f:ident| $scalar_value:expr;)* }
    ) => {
        /// An elementwise op of two operands.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Binary {
            $(#[doc = $doc] $op,)*
            $(#[doc = $scalar_doc] $scalar,)*
        }

        impl Binary {
            /// All of them.
            pub const ALL: &'static [Binary] = &[$(Binary::$op,)* $(Binary::$scalar,)*];
        }

        $(
            struct $op;

            impl<T: MathTable> Function2<T> for $op {
                $(const LIGHT: bool = $light;)?

                #[inline(always)]
                fn apply<S: Simd>($simd: S, $x: T::Vector<S>, $y: T::Vector<S>) -> T::Vector<S> {
                    $value
                }
            }
        )*

        /// Runs an op over a target.
        pub(crate) fn run2<'a, T: MathTable, S: Simd>(
            simd: S,
            op: Binary,
            target: &mut Target<'a, T>,
            sources: &[Source<'a, T>; 3],
        ) {
            match op {
                $(Binary::$op => simd.vectorize(Map2 { target, sources, function: PhantomData::<$op> }),)*
                $(Binary::$scalar => each(target, sources, |$e: f64, $f: f64| $scalar_value),)*
            }
        }

        /// The value of an op at one element of each operand.
        pub(crate) fn of_elements<T: MathTable, S: Simd>(simd: S, op: Binary, x: T, y: T) -> T {
            match op {
                $(Binary::$op => simd.vectorize(One { from: [x, y], function: PhantomData::<$op> }),)*
                $(Binary::$scalar => {
                    let ($e, $f) = (x.to_f64(), y.to_f64());
                    T::from_f64($scalar_value)
                })*
            }
        }

        /// The values of an op at the elements of two registers.
        pub(crate) fn of_vectors<T: MathTable, S: Simd>(
            simd: S,
            op: Binary,
            x: T::Vector<S>,
            y: T::Vector<S>,
        ) -> T::Vector<S> {
            match op {
                $(Binary::$op => {
                    simd.vectorize(OneVector::<T, S, $op, 2> { simd, from: [x, y], function: PhantomData })
                })*
                $(Binary::$scalar => {
                    let (mut x, mut y) = ([x], [y]);
                    for (x, y) in T::elements::<S>(&mut x).iter_mut().zip(T::elements::<S>(&mut y)) {
                        let ($e, $f) = (x.to_f64(), y.to_f64());
                        *x = T::from_f64($scalar_value);
                    }
                    x[0]
                })*
            }
        }
    };
}

binary_table! {
    registers {
    Add, light true, "x + y.", |simd, x, y| T::add(simd, x, y);
    Sub, light true, "x - y.", |simd, x, y| T::sub(simd, x, y);
    Mul, light true, "x * y.", |simd, x, y| T::mul(simd, x, y);
    Div, "x / y.", |simd, x, y| T::div(simd, x, y);
    Max, "The larger, where -0 is less than +0; NaN if either is.", |simd, x, y| T::max(simd, x, y);
    Min, "The smaller, where -0 is less than +0; NaN if either is.", |simd, x, y| T::min(simd, x, y);
    Less, "1 where x < y.", |simd, x, y| mask::<T, S>(simd, T::less(simd, x, y));
    LessEqual, "1 where x <= y.", |simd, x, y| mask::<T, S>(simd, T::less_equal(simd, x, y));
    Equal, "1 where x = y.", |simd, x, y| mask::<T, S>(simd, T::equal(simd, x, y));
    NotEqual, "1 where x and y differ, or either is NaN.",
        |simd, x, y| T::sub(simd, T::splat(simd, T::ONE), mask::<T, S>(simd, T::equal(simd, x, y)));
    Copysign, "|x| with the sign of y.", |simd, x, y| T::with_sign(simd, T::abs(simd, x), y);
    ExpOfProduct, "exp(x * y).", |simd, x, y| math::exp::<T, _>(Registers(simd), T::mul(simd, x, y));
    TanhAdjoint, "x * (1 - y * y): what a cotangent x becomes at y = tanh(u).",
        |simd, x, y| T::mul(simd, x, T::mul_add(simd, T::neg(simd, y), y, T::splat(simd, T::ONE)));
    SigmoidAdjoint, "x * y * (1 - y): what a cotangent x becomes at y = sigmoid(u).",
        |simd, x, y| T::mul(simd, T::mul(simd, x, y), T::sub(simd, T::splat(simd, T::ONE), y));
    }
    elements {
    Pow, "x to the power y, element by element.", |x, y| x.powf(y);
    Rem, "The remainder of x / y with the sign of x, element by element.", |x, y| x % y;
    Atan2, "The angle of the point (y, x), element by element.", |x, y| x.atan2(y);
    }
}

macro_rules! ternary_table {
    ($($op:ident$(, light $light:literal)?, $doc:literal, |$simd:ident, $x:ident, $y:ident, $z:ident| $value:expr;)*) => {
        /// An elementwise op of three operands.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Ternary {
            $(#[doc = $doc] $op,)*
        }

        impl Ternary {
            /// All of them.
            pub const ALL: &'static [Ternary] = &[$(Ternary::$op,)*];
        }

        $(
            struct $op;

            impl<T: Float> Function3<T> for $op {
                $(const LIGHT: bool = $light;)?

                #[inline(always)]
                fn apply<S: Simd>($simd: S, $x: T::Vector<S>, $y: T::Vector<S>, $z: T::Vector<S>) -> T::Vector<S> {
                    $value
                }
            }
        )*

        /// Runs an op of three operands over a target.
        pub(crate) fn run3<'a, T: Float, S: Simd>(
            simd: S,
            op: Ternary,
            target: &mut Target<'a, T>,
            sources: &[Source<'a, T>; 3],
        ) {
            match op {
                $(Ternary::$op => simd.vectorize(Map3 { target, sources, function: PhantomData::<$op> }),)*
            }
        }
    };
}

ternary_table! {
    MulAdd, light true, "x * y + z.", |simd, x, y, z| T::mul_add(simd, x, y, z);
    MulSub, "x * y - z.", |simd, x, y, z| T::mul_add(simd, x, y, T::neg(simd, z));
    NegMulAdd, "z - x * y.", |simd, x, y, z| T::mul_add(simd, T::neg(simd, x), y, z);
    Select, "y where x is not 0, else z.",
        |simd, x, y, z| T::select(simd, T::equal(simd, x, T::splat(simd, T::ZERO)), z, y);
}

#[inline(always)]
pub(crate) fn mask<T: Float, S: Simd>(simd: S, mask: T::Mask<S>) -> T::Vector<S> {
    T::select(simd, mask, T::splat(simd, T::ONE), T::splat(simd, T::ZERO))
}

/// A function in f64, element by element.
fn each<T: Float>(target: &mut Target<'_, T>, [a, b, _]: &[Source<'_, T>; 3], function: impl Fn(f64, f64) -> f64) {
    for row in 0..target.rows {
        for (lane, to) in target.row(row).iter_mut().enumerate() {
            let (x, y) = (a.element(row, lane, *to), b.element(row, lane, *to));
            *to = T::from_f64(function(x.to_f64(), y.to_f64()));
        }
    }
}
