//! Lowers `dynamic_update` to a slice assignment, in place if the operand is not shared. On a device with its own
//! memory, the device computes the indices of the assigned rows from the start index.

use burn::tensor::IndexingUpdateOp;

use super::dynamic_slice::{clamped_start, positions_from};
use super::prelude::*;

funcify!(Burn, ops::DynamicUpdate, |call, [x, part, start]| dynamic_update(&call, x, part, start));

fn dynamic_update(call: &Call<'_, ops::DynamicUpdate>, x: Tensor, part: Tensor, start: Tensor) -> Outcome {
    let axis = call.op.axis;
    let (x_sizes, changed) = (sizes(&x), sizes(&part));
    if !call.backend.in_host_memory() && !changed.contains(&0) {
        let positions = positions_from(call, start, changed[axis], x_sizes[axis])?;
        return Ok(replace_rows(call.backend, x, axis, positions, part));
    }
    let start = clamped_start(call, start, changed[axis], x_sizes[axis])?;
    if changed.contains(&0) {
        return Ok(x);
    }
    Ok(slice_assign(x, &slices_along(&x_sizes, axis, start, start + changed[axis], 1), part))
}

/// Writes `part` to the rows of `x` at `positions` along an axis, and returns the changed tensor.
fn replace_rows(burn: &Burn, x: Tensor, axis: usize, positions: Tensor, part: Tensor) -> Tensor {
    let assign = IndexingUpdateOp::Assign;
    match kind(&x) {
        Kind::Float => Dispatch::float_select_assign(x, axis, positions, part, assign),
        Kind::Integer => Dispatch::int_select_assign(x, axis, positions, part, assign),
        Kind::Bool => {
            let [x, part] = [x, part].map(|tensor| Dispatch::bool_into_int(tensor, burn.index_dtype()));
            let changed = Dispatch::int_select_assign(x, axis, positions, part, assign);
            Dispatch::int_not_equal_elem(changed, Scalar::from(0i64), burn.bool_dtype())
        }
    }
}
