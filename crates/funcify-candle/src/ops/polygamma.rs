//! `polygamma`: in f64 on the CPU, since Candle has no such kernel.

use funcify_core::ops::{Polygamma, special};
use funcify_runtime::funcify;

use crate::cpu::map_in_f64;
use crate::device::Candle;

funcify!(Candle, Polygamma, |call, [x]| {
    let order = call.op.order;
    map_in_f64(&call, &x, move |v| special::polygamma(order, v))
});
