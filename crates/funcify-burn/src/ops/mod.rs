//! Defines Burn's lowering rules. Each file contains the rules for one file of ops in `funcify-core`.
//!
//! On wgpu, [`Burn::in_host_memory`] is false, and kernels differ from those of the CPU devices:
//! - Inside a kernel, a scalar operand has the shape `[1]`, and a scalar result may have that shape too: see
//!   `kinds::to_kernel_form`. So kernels compute the shape of a result from the types of the call, not from the sizes
//!   of the operands.
//! - Most kernels read no elements back to the host: functions of [`on_device`] replace `by_integer!`, `by_float!` and
//!   `integer_value`.
//! - u8 is stored as u32: see `Burn::integer`. `Backend::normalize` truncates the u8 result of each kernel to 8 bits.
//! - Elementwise ops receive no empty operands, and ops that lose precision in f16 run in f32: see
//!   `Backend::run_kernel`.
//! - Burn's `float_not_equal` is false for NaN, and its cast from u32 to i64 sign-extends: see
//!   `on_device::cast_wrapping`. To select booleans by index, a kernel converts them to u32. On the other devices, it
//!   converts them to u8.

mod argmax;
mod binary;
mod bitcast;
mod bits;
mod broadcast;
mod cast;
mod compare;
mod concat;
mod constant;
mod conv;
mod cumulative;
mod dynamic_slice;
mod dynamic_update;
mod gather;
mod iota;
mod matmul;
mod next_after;
mod pad;
mod polygamma;
mod predicate;
mod reduce;
mod reshape;
mod reverse;
mod scan;
mod scatter;
mod select;
mod size;
mod slice;
mod sort;
mod take;
mod threefry;
mod transpose;
mod unary;

/// Re-exports the items that almost all lowering rules use.
mod prelude {
    pub(super) use burn::backend::Dispatch;
    pub(super) use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
    pub(super) use burn::tensor::{IntDType, Scalar};
    pub(super) use funcify_core::DType;
    pub(super) use funcify_core::ops::special::Extrema;
    pub(super) use funcify_core::ops::{self, ReduceKind, ScatterMode, special};
    pub(super) use funcify_runtime::{Backend, Tensors, funcify};

    pub(super) use crate::device::{Burn, Call};
    pub(super) use crate::kinds::{
        Kind, Outcome, Tensor, expand, join, kind, mask_where, reshape, sizes, slice, slice_assign, slices_along,
    };
    pub(super) use crate::ops::{check_output, clamp_indices, empty_axis, with_bools_as_bytes};
    pub(super) use crate::{on_device, on_host};
}

use funcify_core::error::BackendError;
use prelude::*;

/// Checks that the device can hold the first result of a call, and returns the sizes of this result.
fn check_output<O>(call: &Call<'_, O>) -> Outcome<Vec<usize>> {
    let output = &call.outputs[0];
    match call.backend.unsupported(output.dtype, output.rank()) {
        Some(reason) => Err(call.unsupported(output.to_string(), reason, "run it on another device")),
        None => call.output_shape(0),
    }
}

/// Clamps indices of any integer type to `0..size`.
fn clamp_indices(burn: &Burn, indices: Tensor, size: usize) -> Tensor {
    if !burn.in_host_memory() {
        return on_device::clamp_indices(burn, indices, size);
    }
    let indices = Dispatch::int_cast(indices, IntDType::I64);
    let last = size.saturating_sub(1) as i64;
    Dispatch::int_clamp(indices, Scalar::from(0i64), Scalar::from(last))
}

/// Applies `pick` to a tensor. `pick` must move elements without changing them. Booleans are moved as integers, because
/// Burn's dispatch panics when it selects booleans by index.
fn with_bools_as_bytes(burn: &Burn, x: Tensor, pick: impl FnOnce(Tensor) -> Tensor) -> Tensor {
    match kind(&x) {
        Kind::Bool => {
            let byte = if burn.storage_dtype(DType::U8) == DType::U8 { IntDType::U8 } else { IntDType::U32 };
            let picked = pick(Dispatch::bool_into_int(x, byte));
            Dispatch::int_not_equal_elem(picked, Scalar::from(0i64), burn.bool_dtype())
        }
        _ => pick(x),
    }
}

/// Returns the error for an index into an empty axis.
fn empty_axis<O>(call: &Call<'_, O>) -> BackendError {
    let found = format!("{}, whose axis is empty in this call", call.inputs[0]);
    Box::new(call.place().mismatch("the operand", "a non-empty axis", found, "guard the empty case"))
}
