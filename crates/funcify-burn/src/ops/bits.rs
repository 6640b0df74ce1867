//! Lowers bit shifts and bit counts of integers. The kernels run on the host, or with [`on_device`] on a device with
//! its own memory. Burn has neither bit counts nor a logical right shift of signed numbers. On flex, Burn's shifts
//! reduce the amount modulo the width; on ndarray, they panic if the amount is out of range.

use super::prelude::*;

macro_rules! shifts {
    ($($op:ident => $shift:ident;)*) => {
        $(funcify!(Burn, ops::$op, |call, [x, y]| {
            let (burn, bits) = (call.backend, bits_of(call.dtype(0)));
            if !burn.in_host_memory() {
                Outcome::Ok(on_device::$shift(burn, x, y, bits))
            } else {
                by_integer!(x, Integer => {
                    let shift = |value, amount| ops::$shift(value, amount, bits) as Integer;
                    on_host::zip::<Integer>(burn, x, y, shift)
                })
            }
        });)*
    };
}

macro_rules! counts {
    ($($op:ident => $count:ident;)*) => {
        $(funcify!(Burn, ops::$op, |call, [x]| {
            let (burn, bits) = (call.backend, bits_of(call.dtype(0)));
            if !burn.in_host_memory() {
                Outcome::Ok(on_device::$count(x, bits))
            } else {
                by_integer!(x, Integer => {
                    on_host::map::<Integer, Integer>(burn, x, |value| ops::$count(value, bits) as Integer)
                })
            }
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

/// Returns the width of a dtype in bits. The device may store the elements in a wider type.
fn bits_of(dtype: DType) -> u32 {
    8 * dtype.size() as u32
}
