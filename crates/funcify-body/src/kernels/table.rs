//! Defines the `table!` macro, which declares elementwise ops from their names and definitions. Also defines functions
//! that these ops share.

use std::array;

use super::map::Target;
use super::math::MathTable;
use super::source::Source;
use super::*;

/// An elementwise op with `N` operands.
pub trait Elementwise<const N: usize> {
    /// Applies the op to `sources`, and writes the results to all rows and lanes of `target`.
    fn run<'a, T: MathTable, S: Simd>(self, simd: S, target: &mut Target<'a, T>, sources: &[Source<'a, T>; 3]);
    /// Applies the op to one element of each operand.
    fn of_elements<T: MathTable, S: Simd>(self, simd: S, from: [T; N]) -> T;
    /// Applies the op to one vector of each operand.
    fn of_vectors<T: MathTable, S: Simd>(self, simd: S, from: [T::Vector<S>; N]) -> T::Vector<S>;
}

/// Declares the ops with `$count` operands. The ops under `registers` are defined on vectors, and the ops under
/// `elements` on f64 values. The ops under `fused` have two definitions: one on vectors, for instruction sets with a
/// fused multiply-add, and one on f64 values, for the scalar instruction set.
macro_rules! table {
    (
        $(#[$doc:meta])*
        $name:ident of $count:literal, $Function:ident, $Map:ident;
        registers {$(
            $op:ident$(, light $cheap:literal)?, $op_doc:literal, |$simd:ident, $($x:ident),+| $value:expr;
        )*}
        fused {$(
            $fused:ident, $fused_doc:literal, |$fused_simd:ident, $($v:ident),+| $fused_value:expr,
            |$($f:ident),+| $fused_element:expr;
        )*}
        elements { $($scalar:ident, $scalar_doc:literal, |$($e:ident),+| $scalar_value:expr;)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $(#[doc = $op_doc] $op,)*
            $(#[doc = $fused_doc] $fused,)*
            $(#[doc = $scalar_doc] $scalar,)*
        }

        impl $name {
            /// All ops of this enum.
            pub const ALL: &'static [$name] = &[$($name::$op,)* $($name::$fused,)* $($name::$scalar,)*];
        }

        $(
            #[doc = $op_doc]
            pub struct $op;

            impl<T: MathTable> $Function<T> for $op {
                $(const IS_CHEAP: bool = $cheap;)?

                #[inline(always)]
                fn apply<S: Simd>($simd: S, $($x: T::Vector<S>),+) -> T::Vector<S> {
                    $value
                }
            }
        )*

        $(
            #[doc = $fused_doc]
            pub struct $fused;

            impl<T: MathTable> $Function<T> for $fused {
                #[inline(always)]
                fn apply<S: Simd>($fused_simd: S, $($v: T::Vector<S>),+) -> T::Vector<S> {
                    if S::IS_SCALAR {
                        return table::each_lane::<T, S, $count>([$($v),+], |[$($f),+]| $fused_element);
                    }
                    $fused_value
                }
            }
        )*

        impl Elementwise<$count> for $name {
            fn run<'a, T: MathTable, S: Simd>(self, simd: S, target: &mut Target<'a, T>, sources: &[Source<'a, T>; 3]) {
                match self {
                    $($name::$op => simd.vectorize($Map { target, sources, function: PhantomData::<$op> }),)*
                    $($name::$fused => simd.vectorize($Map { target, sources, function: PhantomData::<$fused> }),)*
                    $($name::$scalar => table::each(target, sources, |[$($e),+]| $scalar_value),)*
                }
            }

            fn of_elements<T: MathTable, S: Simd>(self, simd: S, from: [T; $count]) -> T {
                match self {
                    $($name::$op => simd.vectorize(One { from, function: PhantomData::<$op> }),)*
                    $($name::$fused => simd.vectorize(One { from, function: PhantomData::<$fused> }),)*
                    $($name::$scalar => {
                        let [$($e),+] = from.map(T::to_f64);
                        T::from_f64($scalar_value)
                    })*
                }
            }

            fn of_vectors<T: MathTable, S: Simd>(self, simd: S, from: [T::Vector<S>; $count]) -> T::Vector<S> {
                match self {
                    $($name::$op => {
                        simd.vectorize(OneVector::<T, S, $op, $count> { simd, from, function: PhantomData })
                    })*
                    $($name::$fused => {
                        simd.vectorize(OneVector::<T, S, $fused, $count> { simd, from, function: PhantomData })
                    })*
                    $($name::$scalar => table::each_lane::<T, S, $count>(from, |[$($e),+]| $scalar_value),)*
                }
            }
        }
    };
}

pub(super) use table;

/// Applies a function of f64 values to `sources`, element by element, and writes the results to `target`.
pub(super) fn each<T: Float, const N: usize>(
    target: &mut Target<'_, T>,
    sources: &[Source<'_, T>; 3],
    function: impl Fn([f64; N]) -> f64,
) {
    for row in 0..target.rows {
        for (lane, to) in target.row(row).iter_mut().enumerate() {
            *to = T::from_f64(function(array::from_fn(|i| sources[i].element(row, lane, *to).to_f64())));
        }
    }
}

/// Applies a function of f64 values to vectors, lane by lane.
pub(super) fn each_lane<T: Float, S: Simd, const N: usize>(
    mut from: [T::Vector<S>; N],
    function: impl Fn([f64; N]) -> f64,
) -> T::Vector<S> {
    let elements = T::elements::<S>(&mut from);
    let lanes = elements.len() / N;
    for lane in 0..lanes {
        elements[lane] = T::from_f64(function(array::from_fn(|i| elements[i * lanes + lane].to_f64())));
    }
    from[0]
}

/// In each lane where `outside` is not 0, replaces the element of `y` with the result of `function` for the element of
/// `x`.
#[inline(always)]
pub(super) fn replace_lanes<T: Float, S: Simd>(
    outside: T::Vector<S>,
    x: T::Vector<S>,
    y: T::Vector<S>,
    function: fn(f64) -> f64,
) -> T::Vector<S> {
    let mut vectors = [y, x, outside];
    let elements = T::elements::<S>(&mut vectors);
    let lanes = elements.len() / 3;
    for lane in 0..lanes {
        if elements[2 * lanes + lane] != T::ZERO {
            elements[lane] = T::from_f64(function(elements[lanes + lane].to_f64()));
        }
    }
    vectors[0]
}
