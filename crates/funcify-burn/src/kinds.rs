//! Implements data movement for tensors of any kind, using Burn's separate functions for floats, integers and booleans.

use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::{Dispatch, TensorMetadata};
use burn::tensor::{Device, Shape, Slice, TensorData, try_read_sync};
use funcify_core::DType;
use funcify_core::error::BackendError;
use funcify_core::types::{nearest_bf16, nearest_f16};
use smallvec::SmallVec;

/// A tensor of any dtype and rank, on any device.
pub(crate) type Tensor = burn::backend::DispatchTensor;

/// The result of a kernel (a tensor by default), or its error.
pub(crate) type Outcome<T = Tensor> = Result<T, BackendError>;

/// The kind of a tensor, which selects one of Burn's three families of ops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Float,
    Integer,
    Bool,
}

/// Returns the kind of a tensor.
pub(crate) fn kind(tensor: &Tensor) -> Kind {
    let dtype = tensor.dtype();
    if dtype.is_float() {
        Kind::Float
    } else if dtype.is_bool() {
        Kind::Bool
    } else {
        Kind::Integer
    }
}

/// Calls one of three Burn functions, selected by the kind of a tensor.
macro_rules! by_kind {
    ($tensor:expr, $float:ident | $integer:ident | $bool:ident, ($($argument:expr),*)) => {
        match $crate::kinds::kind(&$tensor) {
            $crate::kinds::Kind::Float => Dispatch::$float($($argument),*),
            $crate::kinds::Kind::Integer => Dispatch::$integer($($argument),*),
            $crate::kinds::Kind::Bool => Dispatch::$bool($($argument),*),
        }
    };
}

/// Returns the sizes of a tensor.
pub(crate) fn sizes(tensor: &Tensor) -> Vec<usize> {
    tensor.shape().to_vec()
}

/// Returns the number of axes of a tensor.
pub(crate) fn rank(tensor: &Tensor) -> usize {
    tensor.shape().num_dims()
}

/// Returns whether the tensor is on one of Burn's GPU devices.
fn is_on_gpu(tensor: &Tensor) -> bool {
    #[cfg(feature = "wgpu")]
    return matches!(tensor.kind, burn::backend::DispatchTensorKind::Cube(_));
    #[cfg(not(feature = "wgpu"))]
    {
        let _ = tensor;
        false
    }
}

/// Converts a tensor to the form that kernels accept. Kernels of Burn's GPU devices need rank 1 or more, so a scalar on
/// a GPU is passed as a vector of one element. Outside of kernels, the scalar has rank 0. The conversion does not copy
/// any elements.
pub(crate) fn to_kernel_form(tensor: Tensor) -> Tensor {
    match is_on_gpu(&tensor) && tensor.shape().rank() == 0 {
        true => by_kind!(tensor, float_reshape | int_reshape | bool_reshape, (tensor, Shape::new([1]))),
        false => tensor,
    }
}

/// Converts a kernel's result back to rank `rank`: the inverse of [`to_kernel_form`].
pub(crate) fn with_rank(tensor: Tensor, rank: usize) -> Tensor {
    match rank == 0 && is_on_gpu(&tensor) && tensor.shape().rank() == 1 {
        true => by_kind!(tensor, float_reshape | int_reshape | bool_reshape, (tensor, Shape::new([]))),
        false => tensor,
    }
}

/// Returns the shape that a tensor of shape `shape` has inside a kernel, on the device of `tensor`: see
/// [`to_kernel_form`].
fn kernel_shape(tensor: &Tensor, shape: &[usize]) -> Shape {
    match shape.is_empty() && is_on_gpu(tensor) {
        true => Shape::new([1]),
        false => Shape::from(shape),
    }
}

/// Reshapes a tensor, in row-major order. The result is in the form that kernels accept: see [`to_kernel_form`].
pub(crate) fn reshape(tensor: Tensor, shape: &[usize]) -> Outcome {
    let tensor = to_kernel_form(tensor);
    let shape = kernel_shape(&tensor, shape);
    if tensor.shape() == shape {
        return Ok(tensor);
    }
    #[cfg(feature = "ndarray")]
    if shape.rank() == 0 && matches!(tensor.kind, burn::backend::DispatchTensorKind::NdArray(_)) {
        return as_scalar(tensor);
    }
    Ok(by_kind!(tensor, float_reshape | int_reshape | bool_reshape, (tensor, shape)))
}

/// Reshapes a tensor, in row-major order. The result is in the form used outside of kernels: see [`to_kernel_form`].
pub(crate) fn resized(tensor: Tensor, shape: &[usize]) -> Outcome {
    Ok(with_rank(reshape(tensor, shape)?, shape.len()))
}

/// Expands a tensor to a shape of the same rank. Each axis of the tensor must have the target size or size 1.
pub(crate) fn expand(tensor: Tensor, shape: &[usize]) -> Tensor {
    let shape = kernel_shape(&tensor, shape);
    if tensor.shape() == shape {
        return tensor;
    }
    by_kind!(tensor, float_expand | int_expand | bool_expand, (tensor, shape))
}

/// The slices of a tensor, one per axis. The list is kept on the stack, because loops build one for every row that they
/// read or write.
type Slices = SmallVec<[Slice; 6]>;

/// Returns slices that select every `step`-th position in `start..limit` along `axis`, and all positions along the
/// other axes.
pub(crate) fn slices_along(sizes: &[usize], axis: usize, start: usize, limit: usize, step: usize) -> Slices {
    let whole = |size: usize| Slice::new(0, Some(size as isize), 1);
    let part = Slice::new(start as isize, Some(limit as isize), step as isize);
    sizes.iter().enumerate().map(|(index, size)| if index == axis { part } else { whole(*size) }).collect()
}

/// Returns the part of a tensor that `slices` selects.
pub(crate) fn slice(tensor: Tensor, slices: &[Slice]) -> Tensor {
    by_kind!(tensor, float_slice | int_slice | bool_slice, (tensor, slices))
}

/// Writes `value` to the part of a tensor that `slices` selects, in place if the buffer is not shared. Returns the
/// changed tensor.
pub(crate) fn slice_assign(tensor: Tensor, slices: &[Slice], value: Tensor) -> Tensor {
    by_kind!(tensor, float_slice_assign | int_slice_assign | bool_slice_assign, (tensor, slices, value))
}

/// Concatenates one or more tensors along an existing axis.
pub(crate) fn join(tensors: Vec<Tensor>, axis: usize) -> Tensor {
    by_kind!(tensors[0], float_cat | int_cat | bool_cat, (tensors, axis))
}

/// Selects `value` where `mask` is true, and `tensor` elsewhere.
pub(crate) fn mask_where(tensor: Tensor, mask: Tensor, value: Tensor) -> Tensor {
    by_kind!(tensor, float_mask_where | int_mask_where | bool_mask_where, (tensor, mask, value))
}

/// Converts a tensor of one element to rank 0 by copying its data, because Burn's ndarray device cannot reshape to rank
/// 0.
#[cfg(feature = "ndarray")]
fn as_scalar(tensor: Tensor) -> Outcome {
    let (kind, device) = (kind(&tensor), tensor.device());
    let (bytes, _, dtype) = read(tensor)?.into_parts();
    let data = TensorData::try_from_bytes(bytes, Vec::<usize>::new(), dtype)?;
    Ok(match kind {
        Kind::Float => Dispatch::float_from_data(data, &device),
        Kind::Integer => Dispatch::int_from_data(data, &device),
        Kind::Bool => Dispatch::bool_from_data(data, &device),
    })
}

/// Creates a tensor filled with one number. The device must support `dtype`.
pub(crate) fn filled(device: &Device, dtype: DType, shape: &[usize], number: f64) -> Tensor {
    let count = shape.iter().product();
    let device = device.as_dispatch();
    macro_rules! data {
        ($element:expr) => {
            TensorData::new(vec![$element; count], shape.to_vec())
        };
    }
    match dtype {
        DType::Bool => Dispatch::bool_from_data(data!(number != 0.0), device),
        DType::U8 => Dispatch::int_from_data(data!(number as u8), device),
        DType::U32 => Dispatch::int_from_data(data!(number as u32), device),
        DType::I32 => Dispatch::int_from_data(data!(number as i32), device),
        DType::I64 => Dispatch::int_from_data(data!(number as i64), device),
        DType::F16 => Dispatch::float_from_data(data!(nearest_f16(number)), device),
        DType::BF16 => Dispatch::float_from_data(data!(nearest_bf16(number)), device),
        DType::F32 => Dispatch::float_from_data(data!(number as f32), device),
        DType::F64 => Dispatch::float_from_data(data!(number), device),
    }
}

#[cfg(test)]
thread_local! {
    /// The number of tensors that this thread has read back from a device.
    pub(crate) static READS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Waits for the device, and returns the elements of a tensor.
pub(crate) fn read(tensor: Tensor) -> Outcome<TensorData> {
    #[cfg(test)]
    READS.with(|reads| reads.set(reads.get() + 1));
    let data = match kind(&tensor) {
        Kind::Float => try_read_sync(Dispatch::float_into_data(tensor)),
        Kind::Integer => try_read_sync(Dispatch::int_into_data(tensor)),
        Kind::Bool => try_read_sync(Dispatch::bool_into_data(tensor)),
    };
    data.ok_or("the device cannot be read synchronously")?.map_err(|error| format!("{error:?}").into())
}
