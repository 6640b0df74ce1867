//! `reduce`: Candle's sum for floats, this crate's kernels elsewhere.
//!
//! Candle's maximum does not keep NaN, its reductions of no elements are errors, its integer sums panic where they
//! overflow, and it sums halves in halves.

use candle_core::{DType as CandleDType, Tensor};
use funcify::dispatch::{Backend, Call};
use funcify::error::BackendError;
use funcify::ops::{Reduce, ReduceKind};
use funcify::{HostTensor, funcify};

use crate::backend::{Candle, output_shape};
use crate::cpu::{is_nan, map_rows, outside_domain, with_element};

type Result<T> = std::result::Result<T, BackendError>;

funcify!(Candle, Reduce, |call, [x]| reduce(&call, &x));

fn reduce(call: &Call<'_, Candle, Reduce>, x: &Tensor) -> Result<Tensor> {
    let (kind, axes) = (call.op.kind, call.op.axes.as_slice());
    if axes.is_empty() {
        return Ok(x.clone());
    }
    if x.elem_count() == 0 {
        let dtype = call.dtype(0);
        return call.backend.upload(&HostTensor::from_fn(dtype, &output_shape(call)?, |_| kind.identity(dtype)));
    }
    match kind {
        ReduceKind::Sum if x.dtype().is_float() => Ok(sum_floats(x, axes)?),
        ReduceKind::Sum => integers(call, x, |elements| elements.fold(0, i64::wrapping_add)),
        ReduceKind::Prod if x.dtype().is_float() => product_of_floats(call, x),
        ReduceKind::Prod => integers(call, x, |elements| elements.fold(1, i64::wrapping_mul)),
        ReduceKind::Max => with_element!(call, x, E => map_rows(call, x, axes, |row: &[E]| {
            row.iter().copied().fold(row[0], |a, b| if a > b || is_nan(a) { a } else { b })
        })),
        ReduceKind::Min => with_element!(call, x, E => map_rows(call, x, axes, |row: &[E]| {
            row.iter().copied().fold(row[0], |a, b| if a < b || is_nan(a) { a } else { b })
        })),
        ReduceKind::Any => map_rows(call, x, axes, |row: &[u8]| u8::from(row.iter().any(|e| *e != 0))),
        ReduceKind::All => map_rows(call, x, axes, |row: &[u8]| u8::from(row.iter().all(|e| *e != 0))),
    }
}

fn sum_floats(x: &Tensor, axes: &[usize]) -> candle_core::Result<Tensor> {
    match x.dtype() {
        CandleDType::F16 | CandleDType::BF16 => x.to_dtype(CandleDType::F32)?.sum(axes)?.to_dtype(x.dtype()),
        _ => x.sum(axes),
    }
}

fn product_of_floats(call: &Call<'_, Candle, Reduce>, x: &Tensor) -> Result<Tensor> {
    use candle_core::WithDType;
    with_element!(call, x, E => map_rows(call, x, &call.op.axes, |row: &[E]| {
        E::from_f64(row.iter().map(|e| e.to_f64()).product())
    }))
}

/// A reduction of integers, computed in i64 and wrapped.
fn integers(
    call: &Call<'_, Candle, Reduce>,
    x: &Tensor,
    fold: fn(&mut dyn Iterator<Item = i64>) -> i64,
) -> Result<Tensor> {
    let axes = &call.op.axes;
    match x.dtype() {
        CandleDType::U8 => {
            map_rows(call, x, axes, move |row: &[u8]| fold(&mut row.iter().map(|e| i64::from(*e))) as u8)
        }
        CandleDType::U32 => {
            map_rows(call, x, axes, move |row: &[u32]| fold(&mut row.iter().map(|e| i64::from(*e))) as u32)
        }
        CandleDType::I32 => {
            map_rows(call, x, axes, move |row: &[i32]| fold(&mut row.iter().map(|e| i64::from(*e))) as i32)
        }
        CandleDType::I64 => map_rows(call, x, axes, move |row: &[i64]| fold(&mut row.iter().copied())),
        _ => Err(outside_domain(call, x)),
    }
}
