//! `polygamma`: computed in f64 on the CPU, because Candle has no such kernel.

use super::prelude::*;
use crate::cpu::map_in_f64;

funcify!(Candle, ops::Polygamma, |call, [x]| {
    let order = call.op.order;
    map_in_f64(&call, &x, move |v| special::polygamma(order, v))
});
