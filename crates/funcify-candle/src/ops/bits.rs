//! Lowers bitwise ops on integers to this crate's kernels, because Candle has none.

use super::prelude::*;
use crate::cpu::{map_integer_pairs, map_integers};

macro_rules! shifts {
    ($($op:ident => $shift:path;)*) => {
        $(funcify!(Candle, ops::$op, |call, [x, y]| {
            let bits = bits_of(&call);
            map_integer_pairs(&call, &x, &y, move |value, amount| $shift(value, amount, bits))
        });)*
    };
}

macro_rules! counts {
    ($($op:ident => $count:path;)*) => {
        $(funcify!(Candle, ops::$op, |call, [x]| {
            let bits = bits_of(&call);
            map_integers(&call, &x, move |value| $count(value, bits))
        });)*
    };
}

shifts! {
    ShiftLeft => ops::shift_left;
    ShiftRightArithmetic => ops::shift_right_arithmetic;
    ShiftRightLogical => ops::shift_right_logical;
}

counts! {
    Popcount => ops::popcount;
    CountLeadingZeros => ops::count_leading_zeros;
}

/// Returns the number of bits per element of the first operand.
fn bits_of<O>(call: &Call<'_, O>) -> u32 {
    8 * call.dtype(0).size() as u32
}
