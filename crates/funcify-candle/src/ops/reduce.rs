//! Lowers `reduce` to Candle's kernel for float sums along the last axes, and to this crate's kernels otherwise.
//!
//! Candle's maximum does not propagate NaN, and ignores the sign of zeros. Candle returns an error for reductions of
//! empty tensors, its integer sums panic on overflow, and its sums of f16 and bf16 accumulate in the element type.

use candle_core::{DType as CandleDType, WithDType};
use funcify_core::HostTensor;

use super::prelude::*;
use crate::cpu::{KernelFn, fold_columns, map_rows, with_element, with_integer};

/// The minimum row length for which combining whole rows is faster than moving the reduced axes to the end.
const MIN_ROW: usize = 4;

funcify!(Candle, ops::Reduce, |call, [x]| reduce(&call, &x));

fn reduce(call: &Call<'_, ops::Reduce>, x: &Tensor) -> Outcome {
    let (kind, axes) = (call.op.kind, call.op.axes.as_slice());
    if axes.is_empty() {
        return Ok(x.clone());
    }
    if x.elem_count() == 0 {
        let dtype = call.dtype(0);
        return call.backend.upload(&HostTensor::from_fn(dtype, &output_shape(call)?, |_| kind.identity(dtype)));
    }
    match kind {
        ReduceKind::Sum if x.dtype().is_float() => sum_floats(call, x),
        ReduceKind::Sum => integers(call, x, |elements| elements.fold(0, i64::wrapping_add)),
        ReduceKind::Prod if x.dtype().is_float() => product_of_floats(call, x),
        ReduceKind::Prod => integers(call, x, |elements| elements.fold(1, i64::wrapping_mul)),
        ReduceKind::Max => with_element!(call, x, E => extreme(call, x, E::larger)),
        ReduceKind::Min => with_element!(call, x, E => extreme(call, x, E::smaller)),
        ReduceKind::Any => map_rows(call, x, axes, |row: &[u8]| u8::from(row.iter().any(|e| *e != 0))),
        ReduceKind::All => map_rows(call, x, axes, |row: &[u8]| u8::from(row.iter().all(|e| *e != 0))),
    }
}

/// Sums floats, accumulating f16 and bf16 in f32. Candle's sum is fast only along the last axes; along other axes, this
/// crate adds whole rows of f32 and f64.
fn sum_floats(call: &Call<'_, ops::Reduce>, x: &Tensor) -> Outcome {
    let axes = call.op.axes.as_slice();
    match (x.dtype(), whole_rows(x, axes)) {
        (CandleDType::F16 | CandleDType::BF16, _) => {
            Ok(x.to_dtype(CandleDType::F32)?.sum(axes)?.to_dtype(x.dtype())?)
        }
        (CandleDType::F32, Some(range)) if !x.track_op() => fold_columns(call, x, range, |a: f32, b| a + b),
        (CandleDType::F64, Some(range)) if !x.track_op() => fold_columns(call, x, range, |a: f64, b| a + b),
        _ => Ok(x.sum(axes)?),
    }
}

/// Computes the maximum or minimum over the reduced axes. `pick` returns the larger or the smaller of two elements.
fn extreme<E: WithDType>(call: &Call<'_, ops::Reduce>, x: &Tensor, pick: impl Fn(E, E) -> E + KernelFn) -> Outcome {
    match whole_rows(x, &call.op.axes) {
        Some(range) => fold_columns(call, x, range, pick),
        None => map_rows(call, x, &call.op.axes, move |row: &[E]| row.iter().copied().fold(row[0], pick)),
    }
}

/// Returns the range of the reduced axes, or `None` if the tensor cannot be reduced by combining whole rows. The tensor
/// must be contiguous and on the CPU, the reduced axes must be consecutive, and the axes after them must have at least
/// [`MIN_ROW`] elements in total.
fn whole_rows(x: &Tensor, axes: &[usize]) -> Option<[usize; 2]> {
    let (first, end) = (*axes.first()?, axes.last()? + 1);
    let row: usize = x.dims()[end..].iter().product();
    let whole = end - first == axes.len() && row >= MIN_ROW && x.is_contiguous() && x.device().is_cpu();
    whole.then_some([first, end])
}

fn product_of_floats(call: &Call<'_, ops::Reduce>, x: &Tensor) -> Outcome {
    with_element!(call, x, E => map_rows(call, x, &call.op.axes, |row: &[E]| {
        E::from_f64(row.iter().map(|e| e.to_f64()).product())
    }))
}

/// Reduces integers, accumulating in i64. The result wraps on overflow.
fn integers(call: &Call<'_, ops::Reduce>, x: &Tensor, fold: fn(&mut dyn Iterator<Item = i64>) -> i64) -> Outcome {
    with_integer!(call, x, I => map_rows(call, x, &call.op.axes, move |row: &[I]| {
        fold(&mut row.iter().map(|e| i64::from(*e))) as I
    }))
}
