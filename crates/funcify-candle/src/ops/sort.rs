//! Lowers `sort` to a kernel of this crate, because Candle's kernel supports only the last axis, is not stable, and
//! fails on NaN.

use std::cmp::Ordering;

use candle_core::WithDType;

use super::prelude::*;
use crate::cpu::{is_nan, map_along, with_element};

funcify!(Candle, ops::Sort, |call, [x]| sort(&call, &x));

fn sort(call: &Call<'_, ops::Sort>, x: &Tensor) -> Outcome<[Tensor; 2]> {
    if x.elem_count() == 0 {
        return Ok([x.clone(), call.backend.zeros(x.dims(), DType::I64)?]);
    }
    let positions = with_element!(call, x, E => positions::<E>(call, x))?.contiguous()?;
    Ok([x.contiguous()?.gather(&positions, call.op.axis)?, positions])
}

fn positions<E: WithDType>(call: &Call<'_, ops::Sort>, x: &Tensor) -> Outcome {
    let descending = call.op.descending;
    map_along(call, x, call.op.axis, move |row: &[E], result: &mut [i64]| {
        result.iter_mut().zip(0..).for_each(|(position, index)| *position = index);
        result.sort_by(|a, b| {
            let (a, b) = (row[*a as usize], row[*b as usize]);
            if descending { compare(b, a) } else { compare(a, b) }
        });
    })
}

/// Compares two elements. Treats NaN as greater than all other values.
fn compare<E: PartialOrd>(a: E, b: E) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}
