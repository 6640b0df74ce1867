//! Lowers `take` to Burn's `select`, after clamping the indices to the bounds of the axis.

use super::prelude::*;

funcify!(Burn, ops::Take, |call, [x, indices]| take(&call, x, indices));

fn take(call: &Call<'_, ops::Take>, x: Tensor, indices: Tensor) -> Outcome {
    let axis = call.op.axis;
    let shape = check_output(call)?;
    let x_sizes = sizes(&x);
    let count = sizes(&indices).iter().product::<usize>();
    if x_sizes[axis] == 0 && count > 0 {
        return Err(empty_axis(call));
    }
    if shape.contains(&0) {
        return call.backend.zeros(call.dtype(0), &shape);
    }
    let indices = reshape(clamp_indices(call.backend, indices, x_sizes[axis]), &[count])?;
    reshape(
        with_bools_as_bytes(call.backend, x, |x| match kind(&x) {
            Kind::Float => Dispatch::float_select(x, axis, indices),
            _ => Dispatch::int_select(x, axis, indices),
        }),
        &shape,
    )
}
