//! `sort`: a kernel of this crate, since Candle's sorts the last axis only, not stably, and stops at NaN.

use std::cmp::Ordering;

use candle_core::{Tensor, WithDType};
use funcify_core::DType;
use funcify_core::error::BackendError;
use funcify_core::ops::Sort;
use funcify_runtime::{KernelCall, funcify};

use crate::cpu::{is_nan, map_along, with_element};
use crate::device::Candle;

funcify!(Candle, Sort, |call, [x]| sort(&call, &x));

fn sort(call: &KernelCall<'_, Candle, Sort>, x: &Tensor) -> Result<[Tensor; 2], BackendError> {
    if x.elem_count() == 0 {
        return Ok([x.clone(), call.backend.zeros(x.dims(), DType::I64)?]);
    }
    let positions = with_element!(call, x, E => positions::<E>(call, x))?.contiguous()?;
    Ok([x.contiguous()?.gather(&positions, call.op.axis)?, positions])
}

fn positions<E: WithDType>(call: &KernelCall<'_, Candle, Sort>, x: &Tensor) -> Result<Tensor, BackendError> {
    let descending = call.op.descending;
    map_along(call, x, call.op.axis, move |row: &[E], result: &mut [i64]| {
        result.iter_mut().zip(0..).for_each(|(position, index)| *position = index);
        result.sort_by(|a, b| {
            let (a, b) = (row[*a as usize], row[*b as usize]);
            if descending { compare(b, a) } else { compare(a, b) }
        });
    })
}

/// How two elements compare: NaN is the greatest.
fn compare<E: PartialOrd>(a: E, b: E) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}
