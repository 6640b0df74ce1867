//! `polygamma`: in f64 in host memory, since Burn has no such op.

use funcify_core::ops::{Polygamma, special};
use funcify_runtime::funcify;

use crate::device::Burn;
use crate::on_host;

funcify!(Burn, Polygamma, |call, [x]| {
    let order = call.op.order;
    on_host::map_in_f64(call.backend, x, |v| special::polygamma(order, v))
});
