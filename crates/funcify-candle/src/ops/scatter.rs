//! Lowers `scatter` to a kernel of this crate, because Candle's kernel fails if an index is out of range.

use candle_core::{CpuStorage, DType, Layout, WithDType};

use super::prelude::*;
use crate::cpu::{Kernel, KernelFn, contiguous, require_cpu, with_element, with_float, with_integer};

funcify!(Candle, ops::Scatter, |call, [x, indices, updates]| scatter(&call, x, &indices, &updates));

fn scatter(call: &Call<'_, ops::Scatter>, x: Tensor, indices: &Tensor, updates: &Tensor) -> Outcome {
    if x.elem_count() == 0 || updates.elem_count() == 0 {
        return Ok(x);
    }
    let tensors = [x, indices.to_dtype(DType::I64)?.contiguous()?, updates.contiguous()?];
    let ops::Scatter { axis, mode } = *call.op;
    match mode {
        ScatterMode::Set => with_element!(call, &tensors[0], E => update(call, tensors, axis, |_: E, new| new)),
        ScatterMode::Max => with_element!(call, &tensors[0], E => update(call, tensors, axis, E::larger)),
        ScatterMode::Min => with_element!(call, &tensors[0], E => update(call, tensors, axis, E::smaller)),
        ScatterMode::Add if tensors[0].dtype().is_float() => {
            with_float!(call, &tensors[0], F => update(call, tensors, axis, |old: F, new| old + new))
        }
        ScatterMode::Mul if tensors[0].dtype().is_float() => {
            with_float!(call, &tensors[0], F => update(call, tensors, axis, |old: F, new| old * new))
        }
        ScatterMode::Add => with_integer!(call, &tensors[0], I => update(call, tensors, axis, I::wrapping_add)),
        ScatterMode::Mul => with_integer!(call, &tensors[0], I => update(call, tensors, axis, I::wrapping_mul)),
    }
}

fn update<E: WithDType>(
    call: &Call<'_, ops::Scatter>,
    [x, indices, updates]: [Tensor; 3],
    axis: usize,
    combine: impl Fn(E, E) -> E + KernelFn,
) -> Outcome {
    require_cpu(call)?;
    let update = move |s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout, s3: &CpuStorage, l3: &Layout| {
        let mut elements = contiguous::<E>(s1, l1)?.to_vec();
        let (indices, updates) = (contiguous::<i64>(s2, l2)?, contiguous::<E>(s3, l3)?);
        let size = l1.dims()[axis];
        let count = l2.dims()[axis];
        let inner: usize = l1.dims()[axis + 1..].iter().product();
        for (flat, (index, new)) in indices.iter().zip(updates).enumerate() {
            // Skip indices that are out of range.
            let Some(row) = usize::try_from(*index).ok().filter(|row| *row < size) else { continue };
            let (outer, column) = (flat / (count * inner), flat % inner);
            let element = &mut elements[(outer * size + row) * inner + column];
            *element = combine(*element, *new);
        }
        Ok((E::to_cpu_storage_owned(elements), l1.shape().clone()))
    };
    Ok(x.contiguous()?.apply_op3(&indices, &updates, Kernel("funcify-scatter", update))?)
}
