//! Lowers `nextafter` to this crate's kernel, because Candle has none.

use candle_core::WithDType;

use super::prelude::*;
use crate::cpu::{map2, with_element};

funcify!(Candle, ops::NextAfter, |call, [x, y]| {
    let dtype = call.dtype(0);
    with_element!(&call, &x, Element => {
        map2(&call, &x, &y, move |a: Element, b: Element| Element::from_f64(ops::next_after(a.to_f64(), b.to_f64(), dtype)))
    })
});
