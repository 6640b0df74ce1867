//! `nextafter`: this crate's kernel, since Candle has none.

use candle_core::WithDType;
use funcify_core::ops::{NextAfter, next_after};
use funcify_runtime::funcify;

use crate::cpu::{map2, with_element};
use crate::device::Candle;

funcify!(Candle, NextAfter, |call, [x, y]| {
    let dtype = call.dtype(0);
    with_element!(&call, &x, Element => {
        map2(&call, &x, &y, move |a: Element, b: Element| Element::from_f64(next_after(a.to_f64(), b.to_f64(), dtype)))
    })
});
