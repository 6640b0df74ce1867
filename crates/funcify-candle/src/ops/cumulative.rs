//! Lowers `cumulative` to kernels of this crate, because Candle's `cumsum` multiplies by a triangular matrix, and
//! Candle has no other running reductions. Sums and products are accumulated in f64 for f64 elements, and in f32 for
//! other floats.

use candle_core::{DType, WithDType};
use half::{bf16, f16};

use super::prelude::*;
use crate::cpu::{KernelFn, map_along, with_element, with_integer};

funcify!(Candle, ops::Cumulative, |call, [x]| cumulative(&call, &x));

fn cumulative(call: &Call<'_, ops::Cumulative>, x: &Tensor) -> Outcome {
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    match call.op.kind {
        ReduceKind::Sum => arithmetic(call, x, |a, b| a + b, |a, b| a + b, i64::wrapping_add),
        ReduceKind::Prod => arithmetic(call, x, |a, b| a * b, |a, b| a * b, i64::wrapping_mul),
        ReduceKind::Max => with_element!(call, x, E => running(call, x, |e: E| e, |e| e, E::larger)),
        ReduceKind::Min => with_element!(call, x, E => running(call, x, |e: E| e, |e| e, E::smaller)),
        ReduceKind::Any => running(call, x, |e: u8| e, |e| e, |a, b| a | b),
        ReduceKind::All => running(call, x, |e: u8| e, |e| e, |a, b| a & b),
    }
}

/// Computes running sums or products. Accumulates integers in i64; the results wrap on overflow.
fn arithmetic(
    call: &Call<'_, ops::Cumulative>,
    x: &Tensor,
    single: fn(f32, f32) -> f32,
    double: fn(f64, f64) -> f64,
    integer: fn(i64, i64) -> i64,
) -> Outcome {
    match x.dtype() {
        DType::F16 => running(call, x, f16::to_f32, f16::from_f32, single),
        DType::BF16 => running(call, x, bf16::to_f32, bf16::from_f32, single),
        DType::F32 => running(call, x, |e: f32| e, |sum| sum, single),
        DType::F64 => running(call, x, |e: f64| e, |sum| sum, double),
        _ => with_integer!(call, x, I => running(call, x, |e: I| i64::from(e), |sum| sum as I, integer)),
    }
}

/// Computes a running reduction that accumulates in type `W`. `widen` converts an element to `W`, and `narrow` converts
/// a partial result back.
fn running<E: WithDType, W: Copy + 'static>(
    call: &Call<'_, ops::Cumulative>,
    x: &Tensor,
    widen: impl Fn(E) -> W + KernelFn,
    narrow: impl Fn(W) -> E + KernelFn,
    combine: impl Fn(W, W) -> W + KernelFn,
) -> Outcome {
    let reverse = call.op.reverse;
    map_along(call, x, call.op.axis, move |row: &[E], result: &mut [E]| {
        let mut value = None;
        for step in 0..row.len() {
            let position = if reverse { row.len() - 1 - step } else { step };
            let element = widen(row[position]);
            let combined = value.map_or(element, |value| combine(value, element));
            result[position] = narrow(combined);
            value = Some(combined);
        }
    })
}
