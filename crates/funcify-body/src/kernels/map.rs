//! Elementwise kernels, which apply a function of one, two or three vectors to the rows and lanes of a destination.
//!
//! An operand has one element per lane or one element per row, or is the destination itself. A function that is as
//! cheap as a load is compiled separately for each combination of operand kinds. Other functions have fewer versions,
//! which keeps the code small:
//!
//! - A unary function has one version, which tests at run time whether the operand is the destination. If the operand
//!   has one element per row, the function is computed once per row.
//! - A function of several operands has one version for each subset of operands that are the destination. Each version
//!   distinguishes the kinds of the remaining operands at run time. A function of three operands also has a version for
//!   operands that all have one element per lane.
//!
//! A function is a type with an inlined method rather than a closure, because closures do not inherit the instruction
//! set of the enclosing function.

use super::source::{ElementRows, LaneOrElementRows, LaneOrSameRows, LaneRows, RowSource, SameRows, Source, SourceRow};
use super::*;

/// The rows and lanes that a kernel writes.
#[derive(Debug)]
pub struct Target<'a, T> {
    /// The memory from the first written element to the last.
    pub data: &'a mut [T],
    /// The number of rows.
    pub rows: usize,
    /// The number of elements per row.
    pub lanes: usize,
    /// The stride between rows, in elements.
    pub stride: usize,
}

impl<'a, T> Target<'a, T> {
    /// Returns row `row`.
    #[inline(always)]
    pub fn row(&mut self, row: usize) -> &mut [T] {
        &mut self.data[row * self.stride..][..self.lanes]
    }

    /// Divides the destination before row `row`, which must not be the first row.
    pub fn split_rows(self, row: usize) -> (Self, Self) {
        let Target { data, rows, lanes, stride } = self;
        let (upper, lower) = data.split_at_mut(row * stride);
        (Target { data: upper, rows: row, lanes, stride }, Target { data: lower, rows: rows - row, lanes, stride })
    }
}

/// A call to a function with `N` operands, which are elements broadcast to all lanes of a vector. `Simd::vectorize`
/// runs the call.
pub struct One<T, F, const N: usize> {
    pub from: [T; N],
    pub function: PhantomData<F>,
}

/// A call to a function with `N` operands, which are vectors. `Simd::vectorize` runs the call, so the function is
/// compiled once and called, instead of being inlined at each use.
pub struct OneVector<T: Float, S: Simd, F, const N: usize> {
    pub simd: S,
    pub from: [T::Vector<S>; N],
    pub function: PhantomData<F>,
}

macro_rules! functions {
    ($($name:ident of $n:literal, $count:literal, $map:ident, $rows:ident: $($operand:ident $Operand:ident),+;)*) => {$(
        #[doc = concat!("A function of ", $count, ".")]
        pub trait $name<T: Float> {
            /// `true` if the function is as cheap as a load.
            const IS_CHEAP: bool = false;

            /// Applies the function to vectors.
            fn apply<S: Simd>(simd: S, $($operand: T::Vector<S>),+) -> T::Vector<S>;
        }

        #[doc = concat!("A function of ", $count, " over a target. It ignores the sources beyond its operands.")]
        pub struct $map<'m, 'a, T, F> {
            pub target: &'m mut Target<'a, T>,
            pub sources: &'m [Source<'a, T>; 3],
            pub function: PhantomData<F>,
        }

        impl<T: Float, F: $name<T>> WithSimd for One<T, F, $n> {
            type Output = T;

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) -> T {
                let [$($operand),+] = self.from;
                T::elements::<S>(&mut [F::apply(simd, $(T::splat(simd, $operand)),+)])[0]
            }
        }

        impl<T: Float, S: Simd, F: $name<T>> WithSimd for OneVector<T, S, F, $n> {
            type Output = T::Vector<S>;

            #[inline(always)]
            fn with_simd<R: Simd>(self, _: R) -> T::Vector<S> {
                let [$($operand),+] = self.from;
                F::apply(self.simd, $($operand),+)
            }
        }

        #[inline(always)]
        fn $rows<T: Float, S: Simd, F: $name<T>, $($Operand: RowSource<T, S>),+>(
            simd: S,
            target: &mut Target<'_, T>,
            $($operand: $Operand),+
        ) {
            for row in 0..target.rows {
                $(let $operand = $operand.row(simd, row, target.lanes);)+
                let (vectors, tail) = T::as_vectors_mut::<S>(target.row(row));
                for (index, to) in vectors.iter_mut().enumerate() {
                    *to = F::apply(simd, $($operand.vector(index, *to)),+);
                }
                if !tail.is_empty() {
                    let old = T::load_part(simd, tail);
                    T::store_part(simd, tail, F::apply(simd, $($operand.tail(simd, old)),+));
                }
            }
        }
    )*};
}

functions! {
    Function1 of 1, "one register", Map1, rows1: a A;
    Function2 of 2, "two registers", Map2, rows2: a A, b B;
    Function3 of 3, "three registers", Map3, rows3: a A, b B, c C;
}

/// Evaluates `$run` with `$rows` bound to the rows of the operand `$source`. The type of `$rows` depends on the
/// operand's kind, so `$run` is compiled once per kind.
macro_rules! by_kind {
    ($source:expr, |$rows:ident| $run:expr) => {
        match $source {
            Source::Lanes { data, stride } => {
                let $rows = LaneRows { data, stride };
                $run
            }
            Source::Element { data, stride } => {
                let $rows = ElementRows { data, stride };
                $run
            }
            Source::Same => {
                let $rows = SameRows;
                $run
            }
        }
    };
}

/// Returns the rows of an operand that is not the destination.
#[inline(always)]
fn lanes_or_element<T>(source: Source<'_, T>) -> LaneOrElementRows<'_, T> {
    match source {
        Source::Lanes { data, stride } => LaneOrElementRows { data, stride, element: false },
        Source::Element { data, stride } => LaneOrElementRows { data, stride, element: true },
        Source::Same => LaneOrElementRows { data: &[], stride: 0, element: true },
    }
}

impl<T: Float, F: Function1<T>> WithSimd for Map1<'_, '_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Map1 { target, sources: [a, ..], .. } = self;
        if F::IS_CHEAP {
            by_kind!(*a, |a| rows1::<T, S, F, _>(simd, target, a));
            return;
        }
        let a = match *a {
            Source::Lanes { data, stride } => LaneOrSameRows { data, stride, same: false },
            Source::Same => LaneOrSameRows { data: &[], stride: 0, same: true },
            Source::Element { data, stride } => {
                for row in 0..target.rows {
                    let one = One { from: [data[row * stride]], function: PhantomData::<F> };
                    target.row(row).fill(simd.vectorize(one));
                }
                return;
            }
        };
        rows1::<T, S, F, _>(simd, target, a);
    }
}

impl<T: Float, F: Function2<T>> WithSimd for Map2<'_, '_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ([a, b, _], target) = (*self.sources, self.target);
        if F::IS_CHEAP {
            by_kind!(a, |a| by_kind!(b, |b| rows2::<T, S, F, _, _>(simd, target, a, b)));
            return;
        }
        let any = lanes_or_element;
        match (a, b) {
            (Source::Same, Source::Same) => rows2::<T, S, F, _, _>(simd, target, SameRows, SameRows),
            (Source::Same, b) => rows2::<T, S, F, _, _>(simd, target, SameRows, any(b)),
            (a, Source::Same) => rows2::<T, S, F, _, _>(simd, target, any(a), SameRows),
            (a, b) => rows2::<T, S, F, _, _>(simd, target, any(a), any(b)),
        }
    }
}

impl<T: Float, F: Function3<T>> WithSimd for Map3<'_, '_, T, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ([a, b, c], target) = (*self.sources, self.target);
        if F::IS_CHEAP {
            by_kind!(a, |a| by_kind!(b, |b| by_kind!(c, |c| rows3::<T, S, F, _, _, _>(simd, target, a, b, c))));
            return;
        }
        let any = lanes_or_element;
        match (a, b, c) {
            (
                Source::Lanes { data: a, stride: of_a },
                Source::Lanes { data: b, stride: of_b },
                Source::Lanes { data: c, stride: of_c },
            ) => {
                let [a, b, c] = [(a, of_a), (b, of_b), (c, of_c)].map(|(data, stride)| LaneRows { data, stride });
                rows3::<T, S, F, _, _, _>(simd, target, a, b, c);
            }
            (Source::Same, Source::Same, Source::Same) => {
                rows3::<T, S, F, _, _, _>(simd, target, SameRows, SameRows, SameRows);
            }
            (Source::Same, Source::Same, c) => rows3::<T, S, F, _, _, _>(simd, target, SameRows, SameRows, any(c)),
            (Source::Same, b, Source::Same) => rows3::<T, S, F, _, _, _>(simd, target, SameRows, any(b), SameRows),
            (a, Source::Same, Source::Same) => rows3::<T, S, F, _, _, _>(simd, target, any(a), SameRows, SameRows),
            (Source::Same, b, c) => rows3::<T, S, F, _, _, _>(simd, target, SameRows, any(b), any(c)),
            (a, Source::Same, c) => rows3::<T, S, F, _, _, _>(simd, target, any(a), SameRows, any(c)),
            (a, b, Source::Same) => rows3::<T, S, F, _, _, _>(simd, target, any(a), any(b), SameRows),
            (a, b, c) => rows3::<T, S, F, _, _, _>(simd, target, any(a), any(b), any(c)),
        }
    }
}
