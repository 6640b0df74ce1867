//! Lowers `polygamma` to this crate's CPU kernel, because Candle has none. The kernel computes in f64.

use super::prelude::*;
use crate::cpu::map_in_f64;

funcify!(Candle, ops::Polygamma, |call, [x]| {
    let order = call.op.order;
    map_in_f64(&call, &x, move |v| special::polygamma(order, v))
});
