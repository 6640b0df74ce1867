//! Lowers `slice` to a view, or to a copy if the step is greater than 1.

use super::prelude::*;

funcify!(Candle, ops::Slice, |call, [x]| slice(&call, &x));

fn slice(call: &Call<'_, ops::Slice>, x: &Tensor) -> Outcome {
    let ops::Slice { axis, start, limit, step } = call.op;
    let (start, limit, size) = (call.dim(start)?, call.dim(limit)?, x.dim(*axis)?);
    if limit < start || limit > size {
        let expected = format!("bounds with 0 <= start <= limit <= {size}");
        let fix = "call with sizes for which the slice fits";
        return Err(Box::new(call.place().mismatch("the slice", expected, format!("{start}..{limit}"), fix)));
    }
    let part = narrow(x, *axis, start, limit - start)?;
    Ok(if *step == 1 { part } else { take_every(&part, *axis, *step)? })
}

/// Slices a tensor along an axis, and returns a view. If the slice is empty, returns a new tensor instead, because
/// Candle may use an offset past the end of the storage when it copies an empty view.
pub(super) fn narrow(x: &Tensor, axis: usize, start: usize, size: usize) -> candle_core::Result<Tensor> {
    let part = x.narrow(axis, start, size)?;
    if part.elem_count() == 0 { Tensor::zeros(part.shape(), part.dtype(), part.device()) } else { Ok(part) }
}

/// Selects every `step`-th element along an axis, starting with the first.
pub(super) fn take_every(x: &Tensor, axis: usize, step: usize) -> candle_core::Result<Tensor> {
    let indices: Vec<i64> = (0..x.dim(axis)? as i64).step_by(step).collect();
    select_indices(x, axis, indices)
}

/// Selects the elements at these indices along an axis.
pub(super) fn select_indices(x: &Tensor, axis: usize, indices: Vec<i64>) -> candle_core::Result<Tensor> {
    if x.elem_count() == 0 || indices.is_empty() {
        let mut shape = x.dims().to_vec();
        shape[axis] = indices.len();
        return Tensor::zeros(shape, x.dtype(), x.device());
    }
    let count = indices.len();
    x.contiguous()?.index_select(&Tensor::from_vec(indices, count, x.device())?, axis)
}
