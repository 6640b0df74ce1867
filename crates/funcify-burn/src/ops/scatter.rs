//! Lowers `scatter`. On a device with its own memory, [`on_device`] handles all cases. On the CPU devices, the kernel
//! adds floats with Burn's own op, after setting updates with an out-of-range index to zero. This crate's own kernel
//! handles all other cases, because Burn panics on out-of-range indices and on integer overflow, and cannot assign
//! booleans.

use burn::tensor::{IndexingUpdateOp, IntDType};

use super::prelude::*;

funcify!(Burn, ops::Scatter, |call, [x, indices, updates]| scatter(&call, x, indices, updates));

fn scatter(call: &Call<'_, ops::Scatter>, x: Tensor, indices: Tensor, updates: Tensor) -> Outcome {
    let (burn, ops::Scatter { axis, mode }) = (call.backend, *call.op);
    if sizes(&x).contains(&0) || sizes(&indices).contains(&0) {
        return Ok(x);
    }
    if !burn.in_host_memory() {
        return Ok(match kind(&x) {
            Kind::Bool => {
                let updates = Dispatch::bool_into_int(updates, burn.index_dtype());
                let changed = Dispatch::bool_into_int(x, burn.index_dtype());
                let changed = on_device::scatter(burn, axis, mode, changed, indices, updates);
                Dispatch::int_not_equal_elem(changed, Scalar::from(0i64), burn.bool_dtype())
            }
            _ => on_device::scatter(burn, axis, mode, x, indices, updates),
        });
    }
    let indices = Dispatch::int_cast(indices, IntDType::I64);
    match (kind(&x), mode) {
        (Kind::Float, ScatterMode::Add) => Ok(add(burn, axis, x, indices, updates)),
        (Kind::Float, _) => by_float!(x, Float => {
            let combine: fn(Float, Float) -> Float = match mode {
                ScatterMode::Set | ScatterMode::Add => |_, update| update,
                ScatterMode::Mul => |a, b| a * b,
                ScatterMode::Max => Float::larger,
                ScatterMode::Min => Float::smaller,
            };
            on_host::scatter::<Float>(burn, axis, x, indices, updates, combine)
        }),
        (Kind::Integer, _) => by_integer!(x, Integer => {
            let combine: fn(Integer, Integer) -> Integer = match mode {
                ScatterMode::Set => |_, update| update,
                ScatterMode::Add => |i, j| i.wrapping_add(j),
                ScatterMode::Mul => |i, j| i.wrapping_mul(j),
                ScatterMode::Max => |i, j| i.max(j),
                ScatterMode::Min => |i, j| i.min(j),
            };
            on_host::scatter::<Integer>(burn, axis, x, indices, updates, combine)
        }),
        (Kind::Bool, _) => on_host::scatter::<bool>(burn, axis, x, indices, updates, |_, update| update),
    }
}

fn add(burn: &Burn, axis: usize, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor {
    let (size, bool_dtype) = (sizes(&x)[axis], burn.bool_dtype());
    let below = Dispatch::int_lower_elem(indices.clone(), Scalar::from(0i64), bool_dtype);
    let above = Dispatch::int_greater_elem(indices.clone(), Scalar::from(size as i64 - 1), bool_dtype);
    let updates = Dispatch::float_mask_fill(updates, Dispatch::bool_or(below, above), Scalar::from(0f64));
    Dispatch::float_scatter(axis, x, clamp_indices(burn, indices, size), updates, IndexingUpdateOp::Add)
}
