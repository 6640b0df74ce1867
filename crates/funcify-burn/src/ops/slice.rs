//! Lowers `slice` to Burn's own op.

use super::prelude::*;

funcify!(Burn, ops::Slice, |call, [x]| sliced(&call, x));

fn sliced(call: &Call<'_, ops::Slice>, x: Tensor) -> Outcome {
    let (axis, step) = (call.op.axis, call.op.step);
    let (start, limit) = (call.dim(&call.op.start)?, call.dim(&call.op.limit)?);
    let x_sizes = sizes(&x);
    if start > limit || limit > x_sizes[axis] {
        let expected = format!("bounds with 0 <= start <= limit <= {}", x_sizes[axis]);
        let error = call.place().mismatch(
            "the slice",
            expected,
            format!("{start}..{limit}"),
            "call with sizes for which the slice fits",
        );
        return Err(Box::new(error));
    }
    if start == limit || x_sizes.contains(&0) {
        let mut shape = x_sizes;
        shape[axis] = (limit - start).div_ceil(step);
        return call.backend.zeros(call.dtype(0), &shape);
    }
    Ok(slice(x, &slices_along(&x_sizes, axis, start, limit, step)))
}
