//! Kernels on words, which are 32-bit integers stored in the bits of elements (for f64, in the low bits).
//!
//! Random bits are words. Values computed from them are words too, until they are converted to floats. Kernels that
//! only move elements also support words.

use funcify_core::ops::{Words, threefry_words};

use super::map::Target;
use super::source::Source;
use funcify_body::float::Float;

macro_rules! word_table {
    (
        pairs { $($op:ident, $doc:literal, $value:expr;)* }
        elements { $($single:ident, $single_doc:literal, $single_value:expr;)* }
    ) => {
        /// An elementwise op on words.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum WordOp {
            $(#[doc = $doc] $op,)*
            $(#[doc = $single_doc] $single,)*
        }

        impl WordOp {
            /// All word ops.
            pub const ALL: [WordOp; 10] = [$(WordOp::$op,)* $(WordOp::$single,)*];

            /// Returns the number of operands.
            pub fn operands(self) -> usize {
                if matches!(self, $(WordOp::$single)|*) { 1 } else { 2 }
            }
        }

        /// Applies an op to all rows and lanes of a target.
        pub(crate) fn run<'a, T: Float>(op: WordOp, target: &mut Target<'a, T>, [a, b, _]: &[Source<'a, T>; 3]) {
            match op {
                $(WordOp::$op => each(target, a, b, $value),)*
                $(WordOp::$single => of_elements(target, a, $single_value),)*
            }
        }
    };
}

word_table! {
    pairs {
    And, "x & y.", |x, y| x & y;
    Or, "x | y.", |x, y| x | y;
    Xor, "x ^ y.", |x, y| x ^ y;
    Add, "x + y, wrapping.", u32::wrapping_add;
    Sub, "x - y, wrapping.", u32::wrapping_sub;
    Mul, "x * y, wrapping.", u32::wrapping_mul;
    ShiftLeft, "x shifted left by y bits; 0 from 32 bits on.", |x, y| x.checked_shl(y).unwrap_or(0);
    ShiftRight, "x shifted right by y bits; 0 from 32 bits on.", |x, y| x.checked_shr(y).unwrap_or(0);
    }
    elements {
    OfNumber, "The lower 32 bits of an integer.", |x| T::from_word(x.to_f64() as i64 as u32);
    ToNumber, "The number nearest to x.", |x| T::from_f64(f64::from(x.to_word()));
    }
}

fn each<'a, T: Float>(target: &mut Target<'a, T>, a: &Source<'a, T>, b: &Source<'a, T>, op: impl Fn(u32, u32) -> u32) {
    for row in 0..target.rows {
        for (lane, to) in target.row(row).iter_mut().enumerate() {
            let (x, y) = (a.element(row, lane, *to), b.element(row, lane, *to));
            *to = T::from_word(op(x.to_word(), y.to_word()));
        }
    }
}

fn of_elements<'a, T: Float>(target: &mut Target<'a, T>, a: &Source<'a, T>, op: impl Fn(T) -> T) {
    for row in 0..target.rows {
        for (lane, to) in target.row(row).iter_mut().enumerate() {
            *to = op(a.element(row, lane, *to));
        }
    }
}

/// Fills each row of the target with random words, generated from the row's key and starting counter. Keys and counters
/// are pairs of words. The strides are the distances between the pairs of consecutive rows, in elements.
pub(crate) fn threefry<T: Float>(
    target: &mut Target<'_, T>,
    (keys, key_stride): (&[T], usize),
    (counters, counter_stride): (&[T], usize),
    words: Words,
) {
    let pair = |words: &[T], at: usize| [words[at].to_word(), words[at + 1].to_word()];
    for row in 0..target.rows {
        let (key, counter) = (pair(keys, row * key_stride), pair(counters, row * counter_stride));
        let blocks = target.lanes / if words == Words::Both { 2 } else { 1 };
        let made = threefry_words(key, counter, blocks, words);
        target.row(row).iter_mut().zip(made).for_each(|(to, word)| *to = T::from_word(word));
    }
}
