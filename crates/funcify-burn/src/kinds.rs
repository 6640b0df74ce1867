//! Burn has each data movement three times, for floats, integers and booleans: here they are one function.

use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::{Dispatch, TensorMetadata};
use burn::tensor::{Device, Shape, Slice, TensorData, try_read_sync};
use funcify_core::DType;
use funcify_core::error::BackendError;
use funcify_core::types::{nearest_bf16, nearest_f16};
use smallvec::SmallVec;

/// A tensor of any device, dtype and rank.
pub(crate) type Tensor = burn::backend::DispatchTensor;

/// The result of a kernel, by default a tensor, or the reason why there is none.
pub(crate) type Outcome<T = Tensor> = Result<T, BackendError>;

/// Which of Burn's three families of ops serves a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Float,
    Integer,
    Bool,
}

/// The family of a tensor.
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

/// Calls the op of the tensor's family.
macro_rules! by_kind {
    ($tensor:expr, $float:ident | $integer:ident | $bool:ident, ($($argument:expr),*)) => {
        match $crate::kinds::kind(&$tensor) {
            $crate::kinds::Kind::Float => Dispatch::$float($($argument),*),
            $crate::kinds::Kind::Integer => Dispatch::$integer($($argument),*),
            $crate::kinds::Kind::Bool => Dispatch::$bool($($argument),*),
        }
    };
}

/// The sizes of a tensor.
pub(crate) fn sizes(tensor: &Tensor) -> Vec<usize> {
    tensor.shape().to_vec()
}

/// How many axes a tensor has.
pub(crate) fn rank(tensor: &Tensor) -> usize {
    tensor.shape().num_dims()
}

/// Whether the tensor is on one of Burn's GPU devices.
fn is_on_gpu(tensor: &Tensor) -> bool {
    #[cfg(feature = "wgpu")]
    return matches!(tensor.kind, burn::backend::DispatchTensorKind::Cube(_));
    #[cfg(not(feature = "wgpu"))]
    {
        let _ = tensor;
        false
    }
}

/// A tensor as kernels take it. Burn's GPU devices compute on rank 1 and more: a scalar there is a vector of one element
/// to the kernels, and a tensor of rank 0 to everything else. Neither way moves an element.
pub(crate) fn computable(tensor: Tensor) -> Tensor {
    match is_on_gpu(&tensor) && tensor.shape().rank() == 0 {
        true => by_kind!(tensor, float_reshape | int_reshape | bool_reshape, (tensor, Shape::new([1]))),
        false => tensor,
    }
}

/// What a kernel gave for a result of that rank, as everything else takes it: see [`computable`].
pub(crate) fn with_rank(tensor: Tensor, rank: usize) -> Tensor {
    match rank == 0 && is_on_gpu(&tensor) && tensor.shape().rank() == 1 {
        true => by_kind!(tensor, float_reshape | int_reshape | bool_reshape, (tensor, Shape::new([]))),
        false => tensor,
    }
}

/// The shape that a kernel gives to what has `shape` to everything else: see [`computable`].
fn computable_shape(tensor: &Tensor, shape: &[usize]) -> Shape {
    match shape.is_empty() && is_on_gpu(tensor) {
        true => Shape::new([1]),
        false => Shape::from(shape),
    }
}

/// The same elements in row-major order under another shape with as many.
pub(crate) fn reshape(tensor: Tensor, shape: &[usize]) -> Outcome {
    let tensor = computable(tensor);
    let shape = computable_shape(&tensor, shape);
    if tensor.shape() == shape {
        return Ok(tensor);
    }
    #[cfg(feature = "ndarray")]
    if shape.rank() == 0 && matches!(tensor.kind, burn::backend::DispatchTensorKind::NdArray(_)) {
        return as_scalar(tensor);
    }
    Ok(by_kind!(tensor, float_reshape | int_reshape | bool_reshape, (tensor, shape)))
}

/// The same elements under another shape, as everything else than kernels takes them: see [`computable`].
pub(crate) fn resized(tensor: Tensor, shape: &[usize]) -> Outcome {
    Ok(with_rank(reshape(tensor, shape)?, shape.len()))
}

/// Repetition to a shape of the same rank, where each axis is equal or 1.
pub(crate) fn expand(tensor: Tensor, shape: &[usize]) -> Tensor {
    let shape = computable_shape(&tensor, shape);
    if tensor.shape() == shape {
        return tensor;
    }
    by_kind!(tensor, float_expand | int_expand | bool_expand, (tensor, shape))
}

/// What is taken of each axis. There is a list for each row that a loop reads or writes, so it lies on the stack.
type Slices = SmallVec<[Slice; 6]>;

/// All axes whole, except `start, start+step, ..` below `limit` in one.
pub(crate) fn along(sizes: &[usize], axis: usize, start: usize, limit: usize, step: usize) -> Slices {
    let whole = |size: usize| Slice::new(0, Some(size as isize), 1);
    let part = Slice::new(start as isize, Some(limit as isize), step as isize);
    sizes.iter().enumerate().map(|(index, size)| if index == axis { part } else { whole(*size) }).collect()
}

/// The part of a tensor that `slices` name.
pub(crate) fn slice(tensor: Tensor, slices: &[Slice]) -> Tensor {
    by_kind!(tensor, float_slice | int_slice | bool_slice, (tensor, slices))
}

/// A tensor with the part that `slices` name replaced: in place if nothing else holds the buffer.
pub(crate) fn slice_assign(tensor: Tensor, slices: &[Slice], value: Tensor) -> Tensor {
    by_kind!(tensor, float_slice_assign | int_slice_assign | bool_slice_assign, (tensor, slices, value))
}

/// One tensor or more after one another along an axis.
pub(crate) fn join(tensors: Vec<Tensor>, axis: usize) -> Tensor {
    by_kind!(tensors[0], float_cat | int_cat | bool_cat, (tensors, axis))
}

/// `value` where `mask` is true, else `tensor`.
pub(crate) fn mask_where(tensor: Tensor, mask: Tensor, value: Tensor) -> Tensor {
    by_kind!(tensor, float_mask_where | int_mask_where | bool_mask_where, (tensor, mask, value))
}

/// The one element of a tensor as a scalar: Burn's ndarray device reshapes to the ranks 1 to 6 only.
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

/// A tensor of one number on a device that has every dtype.
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
    /// How many tensors this thread has read.
    pub(crate) static READS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The elements of a tensor, once the device has them.
pub(crate) fn read(tensor: Tensor) -> Outcome<TensorData> {
    #[cfg(test)]
    READS.with(|reads| reads.set(reads.get() + 1));
    let data = match kind(&tensor) {
        Kind::Float => try_read_sync(Dispatch::float_into_data(tensor)),
        Kind::Integer => try_read_sync(Dispatch::int_into_data(tensor)),
        Kind::Bool => try_read_sync(Dispatch::bool_into_data(tensor)),
    };
    data.ok_or("the device cannot be read without waiting")?.map_err(|error| format!("{error:?}").into())
}
