//! `polygamma`, which Burn lacks. Computed in f64 in host memory.

use super::prelude::*;

funcify!(Burn, ops::Polygamma, |call, [x]| {
    let order = call.op.order;
    on_host::map_in_f64(call.backend, x, |v| special::polygamma(order, v))
});
