//! `polygamma`: in f64 in host memory, since Burn has no such op.

use funcify::funcify;
use funcify::ops::{Polygamma, special};

use crate::device::Burn;
use crate::on_host;

funcify!(Burn, Polygamma, |call, [x]| {
    let order = call.op.order;
    on_host::map_in_f64(call.backend, x, |v| special::polygamma(order, v))
});
