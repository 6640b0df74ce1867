//! `scatter`: a kernel of this crate, since Candle's stops at an index out of range.

use candle_core::{CpuStorage, DType, Layout, Tensor, WithDType};
use funcify_core::error::BackendError;
use funcify_core::ops::special::Extrema;
use funcify_core::ops::{Scatter, ScatterMode};
use funcify_runtime::{KernelCall, funcify};

use crate::cpu::{Kernel, contiguous, outside_domain, require_cpu, with_element};
use crate::device::Candle;

/// Sums or products, of integers by a method that wraps.
macro_rules! arithmetic {
    ($call:expr, $tensors:expr, $axis:expr, $wrapping:ident, $operator:tt) => {
        match $tensors[0].dtype() {
            DType::U8 => update($call, $tensors, $axis, u8::$wrapping),
            DType::U32 => update($call, $tensors, $axis, u32::$wrapping),
            DType::I32 => update($call, $tensors, $axis, i32::$wrapping),
            DType::I64 => update($call, $tensors, $axis, i64::$wrapping),
            DType::F16 => update($call, $tensors, $axis, |old: half::f16, new| old $operator new),
            DType::BF16 => update($call, $tensors, $axis, |old: half::bf16, new| old $operator new),
            DType::F32 => update($call, $tensors, $axis, |old: f32, new| old $operator new),
            DType::F64 => update($call, $tensors, $axis, |old: f64, new| old $operator new),
            _ => Err(outside_domain($call, &$tensors[0])),
        }
    };
}

funcify!(Candle, Scatter, |call, [x, indices, updates]| scatter(&call, x, &indices, &updates));

fn scatter(
    call: &KernelCall<'_, Candle, Scatter>,
    x: Tensor,
    indices: &Tensor,
    updates: &Tensor,
) -> Result<Tensor, BackendError> {
    if x.elem_count() == 0 || updates.elem_count() == 0 {
        return Ok(x);
    }
    let tensors = [x, indices.to_dtype(DType::I64)?.contiguous()?, updates.contiguous()?];
    let Scatter { axis, mode } = *call.op;
    match mode {
        ScatterMode::Set => with_element!(call, &tensors[0], E => update(call, tensors, axis, |_: E, new| new)),
        ScatterMode::Max => with_element!(call, &tensors[0], E => {
            update(call, tensors, axis, E::larger)
        }),
        ScatterMode::Min => with_element!(call, &tensors[0], E => {
            update(call, tensors, axis, E::smaller)
        }),
        ScatterMode::Add => arithmetic!(call, tensors, axis, wrapping_add, +),
        ScatterMode::Mul => arithmetic!(call, tensors, axis, wrapping_mul, *),
    }
}

fn update<E: WithDType>(
    call: &KernelCall<'_, Candle, Scatter>,
    [x, indices, updates]: [Tensor; 3],
    axis: usize,
    combine: impl Fn(E, E) -> E + Send + Sync + 'static,
) -> Result<Tensor, BackendError> {
    require_cpu(call)?;
    let update = move |s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout, s3: &CpuStorage, l3: &Layout| {
        let mut elements = contiguous::<E>(s1, l1)?.to_vec();
        let (indices, updates) = (contiguous::<i64>(s2, l2)?, contiguous::<E>(s3, l3)?);
        let size = l1.dims()[axis];
        let count = l2.dims()[axis];
        let inner: usize = l1.dims()[axis + 1..].iter().product();
        for (flat, (index, new)) in indices.iter().zip(updates).enumerate() {
            // An index out of range is skipped.
            let Some(row) = usize::try_from(*index).ok().filter(|row| *row < size) else { continue };
            let (outer, column) = (flat / (count * inner), flat % inner);
            let element = &mut elements[(outer * size + row) * inner + column];
            *element = combine(*element, *new);
        }
        Ok((E::to_cpu_storage_owned(elements), l1.shape().clone()))
    };
    Ok(x.contiguous()?.apply_op3(&indices, &updates, Kernel("funcify-scatter", update))?)
}
