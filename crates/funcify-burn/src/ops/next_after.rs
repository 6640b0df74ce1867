//! Lowers `nextafter`, which Burn lacks. The kernel runs in host memory, or with [`on_device`] for f32 on a device with
//! its own memory.

use super::prelude::*;
use crate::on_host::Real;

funcify!(Burn, ops::NextAfter, |call, [x, y]| next_after(call.backend, call.dtype(0), x, y));

fn next_after(burn: &Burn, dtype: DType, x: Tensor, y: Tensor) -> Outcome {
    if let Some(next) = on_device::next_after(burn, &x, &y) {
        return Ok(next);
    }
    // Use the spacing of the dtype in the graph, even if the device stores the elements as a different type.
    by_float!(x, Float => {
        let next = |a: Float, b: Float| Float::round_from(ops::next_after(a.widen(), b.widen(), dtype));
        on_host::zip::<Float>(burn, x, y, next)
    })
}
