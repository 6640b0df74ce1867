//! Ops on the bits of integers: this crate's kernels, since Candle has none.

use funcify_core::ops::{
    CountLeadingZeros, Popcount, ShiftLeft, ShiftRightArithmetic, ShiftRightLogical, count_leading_zeros, popcount,
    shift_left, shift_right_arithmetic, shift_right_logical,
};
use funcify_runtime::{KernelCall, funcify};

use crate::cpu::{map_integer_pairs, map_integers};
use crate::device::Candle;

macro_rules! shifts {
    ($($op:ident => $shift:ident;)*) => {
        $(funcify!(Candle, $op, |call, [x, y]| {
            let bits = bits_of(&call);
            map_integer_pairs(&call, &x, &y, move |value, amount| $shift(value, amount, bits))
        });)*
    };
}

macro_rules! counts {
    ($($op:ident => $count:ident;)*) => {
        $(funcify!(Candle, $op, |call, [x]| {
            let bits = bits_of(&call);
            map_integers(&call, &x, move |value| $count(value, bits))
        });)*
    };
}

shifts! {
    ShiftLeft => shift_left;
    ShiftRightArithmetic => shift_right_arithmetic;
    ShiftRightLogical => shift_right_logical;
}

counts! {
    Popcount => popcount;
    CountLeadingZeros => count_leading_zeros;
}

/// How many bits an element of the operand has.
fn bits_of<O>(call: &KernelCall<'_, Candle, O>) -> u32 {
    8 * call.dtype(0).size() as u32
}
