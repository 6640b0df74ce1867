//! Lowers `polygamma`, which Burn lacks. The kernel runs on the host, and computes in f64.

use super::prelude::*;

funcify!(Burn, ops::Polygamma, |call, [x]| {
    let order = call.op.order;
    on_host::map_in_f64(call.backend, x, |v| special::polygamma(order, v))
});
