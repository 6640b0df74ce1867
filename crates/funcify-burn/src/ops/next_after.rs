//! `nextafter`, for which Burn has no op: in host memory, or for f32 where that is not the device's, by [`on_device`].

use super::prelude::*;
use crate::on_host::Real;

funcify!(Burn, ops::NextAfter, |call, [x, y]| next_after(call.backend, call.dtype(0), x, y));

fn next_after(burn: &Burn, dtype: DType, x: Tensor, y: Tensor) -> Outcome {
    if let Some(next) = on_device::next_after(burn, &x, &y) {
        return Ok(next);
    }
    // Of the neighbours of its dtype, whatever it is stored as.
    by_float!(x, Float => {
        let next = |a: Float, b: Float| Float::rounded(ops::next_after(a.wide(), b.wide(), dtype));
        on_host::zip::<Float>(burn, x, y, next)
    })
}
