//! `take`: Candle's `index_select` of clamped indices; a view for one index.

use candle_core::Tensor;
use funcify_core::error::BackendError;
use funcify_core::ops::Take;
use funcify_runtime::{KernelCall, funcify};

use super::dynamic_slice::read_index;
use crate::cpu::{map1, outside_domain};
use crate::device::{Candle, output_shape};

funcify!(Candle, Take, |call, [x, indices]| take(&call, &x, &indices));

fn take(call: &KernelCall<'_, Candle, Take>, x: &Tensor, indices: &Tensor) -> Result<Tensor, BackendError> {
    let axis = call.op.axis;
    let shape = output_shape(call)?;
    let size = not_empty(call, x, indices, axis)?;
    if shape.contains(&0) {
        return call.backend.zeros(&shape, call.dtype(0));
    }
    if indices.rank() == 0 {
        let index = read_index(indices)?.clamp(0, size as i64 - 1) as usize;
        return Ok(x.narrow(axis, index, 1)?.squeeze(axis)?);
    }
    let indices = clamped(call, indices, size)?.flatten_all()?;
    let rows = x.contiguous()?.index_select(&indices, axis)?;
    Ok(if rows.dims() == shape { rows } else { rows.reshape(shape)? })
}

/// The size of an axis; an error if it is zero and an index asks for one of its elements.
pub(super) fn not_empty<O>(
    call: &KernelCall<'_, Candle, O>,
    x: &Tensor,
    indices: &Tensor,
    axis: usize,
) -> Result<usize, BackendError> {
    let size = x.dim(axis)?;
    if size == 0 && indices.elem_count() > 0 {
        let found = format!("{:?}", x.dims());
        let error = call.place().mismatch("the operand", "an axis that is not empty", found, "guard the empty case");
        return Err(Box::new(error));
    }
    Ok(size)
}

/// Indices as contiguous i64 within `0..size`. As i64 none is the largest of its type, which Candle would skip.
pub(super) fn clamped<O>(
    call: &KernelCall<'_, Candle, O>,
    indices: &Tensor,
    size: usize,
) -> Result<Tensor, BackendError> {
    use candle_core::DType;
    let last = size.saturating_sub(1) as i64;
    match indices.dtype() {
        DType::U8 => map1(call, indices, move |index: u8| i64::from(index).clamp(0, last)),
        DType::U32 => map1(call, indices, move |index: u32| i64::from(index).clamp(0, last)),
        DType::I32 => map1(call, indices, move |index: i32| i64::from(index).clamp(0, last)),
        DType::I64 => map1(call, indices, move |index: i64| index.clamp(0, last)),
        _ => Err(outside_domain(call, indices)),
    }
}
