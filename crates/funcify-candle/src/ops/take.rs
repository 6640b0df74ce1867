//! Lowers `take` to Candle's `index_select` with clamped indices, or to a view if the index is a scalar.

use super::dynamic_slice::read_index;
use super::prelude::*;
use crate::cpu::{map1, with_integer};

funcify!(Candle, ops::Take, |call, [x, indices]| take(&call, &x, &indices));

fn take(call: &Call<'_, ops::Take>, x: &Tensor, indices: &Tensor) -> Outcome {
    let axis = call.op.axis;
    let shape = output_shape(call)?;
    let size = check_not_empty(call, x, indices, axis)?;
    if shape.contains(&0) {
        return call.backend.zeros(&shape, call.dtype(0));
    }
    if indices.rank() == 0 {
        let index = read_index(indices)?.clamp(0, size as i64 - 1) as usize;
        return Ok(x.narrow(axis, index, 1)?.squeeze(axis)?);
    }
    let indices = clamp_indices(call, indices, size)?.flatten_all()?;
    let rows = x.contiguous()?.index_select(&indices, axis)?;
    Ok(if rows.dims() == shape { rows } else { rows.reshape(shape)? })
}

/// Returns the size of an axis. Returns an error if the axis is empty but the indices are not.
pub(super) fn check_not_empty<O>(call: &Call<'_, O>, x: &Tensor, indices: &Tensor, axis: usize) -> Outcome<usize> {
    let size = x.dim(axis)?;
    if size == 0 && indices.elem_count() > 0 {
        let found = format!("{:?}", x.dims());
        let error = call.place().mismatch("the operand", "a non-empty axis", found, "guard the empty case");
        return Err(Box::new(error));
    }
    Ok(size)
}

/// Returns the indices, clamped to `0..size`, as a contiguous i64 tensor. Candle skips indices that equal the maximum
/// value of their type. A clamped i64 index never has this value.
pub(super) fn clamp_indices<O>(call: &Call<'_, O>, indices: &Tensor, size: usize) -> Outcome {
    let last = size.saturating_sub(1) as i64;
    with_integer!(call, indices, I => map1(call, indices, move |index: I| i64::from(index).clamp(0, last)))
}
