//! Lowers `reduce` to Burn's own reductions, one axis at a time. On the CPU devices, this crate's own kernels reduce
//! integers, and compute maxima and minima of floats. For integers, Burn's sums and products panic on overflow, and its
//! maxima and minima compute element indices in the operand's dtype, which may be too small for an index. For floats,
//! Burn's maxima and minima do not order -0 before +0.

use burn::backend::TensorMetadata;
use burn::tensor::FloatDType;
use funcify_core::HostTensor;

use super::prelude::*;
use crate::data::upload;
use crate::dtypes;

funcify!(Burn, ops::Reduce, |call, [x]| reduce(&call, x));

fn reduce(call: &Call<'_, ops::Reduce>, x: Tensor) -> Outcome {
    let ops::Reduce { kind: monoid, axes } = call.op;
    let x_sizes = sizes(&x);
    let shape: Vec<usize> = (0..x_sizes.len()).filter(|axis| !axes.contains(axis)).map(|axis| x_sizes[axis]).collect();
    if axes.is_empty() {
        return Ok(x);
    }
    if x_sizes.contains(&0) {
        let dtype = call.dtype(0);
        let identity = monoid.identity(dtype);
        return Ok(upload(call.backend, &HostTensor::from_fn(dtype, &shape, |_| identity)));
    }
    let reduced = match kind(&x) {
        Kind::Float if axes.len() > 1 && is_half(&x) && matches!(monoid, ReduceKind::Sum | ReduceKind::Prod) => {
            in_f32(call.backend, *monoid, x, axes)?
        }
        Kind::Float if call.backend.in_host_memory() && matches!(monoid, ReduceKind::Max | ReduceKind::Min) => {
            axes.iter().try_fold(x, |x, axis| extreme(call.backend, *monoid, x, *axis))?
        }
        Kind::Float if axes.len() == x_sizes.len() && call.backend.in_host_memory() => whole(*monoid, x)?,
        of => axes.iter().try_fold(x, |x, axis| {
            on_device::reduce_long_axis(call.backend, x, *axis, &|x, axis| match of {
                Kind::Float => along_float(*monoid, x, axis),
                Kind::Bool => along_bool(*monoid, x, axis),
                Kind::Integer => along_integer(call.backend, *monoid, x, axis),
            })
        })?,
    };
    reshape(reduced, &shape)
}

/// Computes the maximum or minimum of floats along an axis, on the host. Burn's own ops do not order -0 before +0.
fn extreme(burn: &Burn, monoid: ReduceKind, x: Tensor, axis: usize) -> Outcome {
    by_float!(x, Float => match monoid {
        ReduceKind::Max => on_host::extreme::<Float>(burn, x, axis, Float::larger),
        _ => on_host::extreme::<Float>(burn, x, axis, Float::smaller),
    })
}

/// Computes the sum or product of all elements of a float tensor.
fn whole(monoid: ReduceKind, x: Tensor) -> Outcome {
    match monoid {
        ReduceKind::Sum => Ok(Dispatch::float_sum(x)),
        ReduceKind::Prod => Ok(Dispatch::float_prod(x)),
        _ => wrong_kind(monoid, "floats"),
    }
}

/// Returns whether the elements are f16 or bf16.
fn is_half(x: &Tensor) -> bool {
    matches!(dtypes::of(x), Some(DType::F16 | DType::BF16))
}

/// Computes the sum or product of f16 or bf16 elements along several axes. Computes in f32 and rounds only the final
/// result, because an intermediate result in the operand's dtype could overflow even if the final result is in range.
fn in_f32(burn: &Burn, monoid: ReduceKind, x: Tensor, axes: &[usize]) -> Outcome {
    let dtype = x.dtype();
    let wide = Dispatch::float_cast(x, FloatDType::F32);
    let along = |x: Tensor, axis: usize| along_float(monoid, x, axis);
    let reduced = axes.iter().try_fold(wide, |x, axis| on_device::reduce_long_axis(burn, x, *axis, &along))?;
    Ok(Dispatch::float_cast(reduced, dtype.into()))
}

fn along_float(monoid: ReduceKind, x: Tensor, axis: usize) -> Outcome {
    match monoid {
        ReduceKind::Sum => Ok(Dispatch::float_sum_dim(x, axis)),
        ReduceKind::Prod => Ok(Dispatch::float_prod_dim(x, axis)),
        ReduceKind::Max => Ok(Dispatch::float_max_dim(x, axis)),
        ReduceKind::Min => Ok(Dispatch::float_min_dim(x, axis)),
        ReduceKind::Any | ReduceKind::All => wrong_kind(monoid, "floats"),
    }
}

fn along_bool(monoid: ReduceKind, x: Tensor, axis: usize) -> Outcome {
    match monoid {
        ReduceKind::Any => Ok(Dispatch::bool_any_dim(x, axis)),
        ReduceKind::All => Ok(Dispatch::bool_all_dim(x, axis)),
        _ => wrong_kind(monoid, "booleans"),
    }
}

fn along_integer(burn: &Burn, monoid: ReduceKind, x: Tensor, axis: usize) -> Outcome {
    if !burn.in_host_memory() {
        return on_device::fold(monoid, x, axis).map_or_else(|| wrong_kind(monoid, "integers"), Ok);
    }
    by_integer!(x, Integer => match monoid {
        ReduceKind::Sum => on_host::fold::<Integer>(burn, x, axis, 0, |i, j| i.wrapping_add(j)),
        ReduceKind::Prod => on_host::fold::<Integer>(burn, x, axis, 1, |i, j| i.wrapping_mul(j)),
        ReduceKind::Max => on_host::fold::<Integer>(burn, x, axis, Integer::MIN, |i, j| i.max(j)),
        ReduceKind::Min => on_host::fold::<Integer>(burn, x, axis, Integer::MAX, |i, j| i.min(j)),
        ReduceKind::Any | ReduceKind::All => wrong_kind(monoid, "integers"),
    })
}

fn wrong_kind(monoid: ReduceKind, what: &str) -> Outcome {
    Err(format!("no `{}` of {what} exists", monoid.name()).into())
}
