//! Lowers `nextafter`, which Burn lacks. On a device with its own memory, [`on_device`] handles f32. In all other
//! cases, the kernel runs on the host.

use super::prelude::*;
use crate::on_host::Real;

funcify!(Burn, ops::NextAfter, |call, [x, y]| next_after(call.backend, call.dtype(0), x, y));

fn next_after(burn: &Burn, dtype: DType, x: Tensor, y: Tensor) -> Outcome {
    if let Some(next) = on_device::next_after(burn, &x, &y) {
        return Ok(next);
    }
    // Use the spacing of the dtype that the graph specifies, even if the device stores the elements as a different
    // type.
    by_float!(x, Float => {
        let next = |a: Float, b: Float| Float::round_from(ops::next_after(a.widen(), b.widen(), dtype));
        on_host::zip::<Float>(burn, x, y, next)
    })
}
