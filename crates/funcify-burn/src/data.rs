//! Moves elements between host memory and a device.

use burn::backend::Dispatch;
use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::tensor::{DType as BurnDType, TensorData};
use funcify_core::error::BackendError;
use funcify_core::{DType, HostTensor, Storage};

use crate::device::Burn;
use crate::kinds::{Tensor, read, sizes, to_kernel_form};

/// Uploads a host tensor, in the form that kernels accept: see [`crate::kinds::to_kernel_form`].
pub(crate) fn upload(burn: &Burn, tensor: &HostTensor) -> Tensor {
    let stored = burn.storage_dtype(tensor.dtype());
    if stored != tensor.dtype() {
        return upload(burn, &tensor.cast(stored));
    }
    let shape = tensor.shape();
    match tensor.storage() {
        Storage::Bool(elements) => from_elements(burn, elements.clone(), shape),
        Storage::U8(elements) => from_elements(burn, elements.clone(), shape),
        Storage::U32(elements) => from_elements(burn, elements.clone(), shape),
        Storage::I32(elements) => from_elements(burn, elements.clone(), shape),
        Storage::I64(elements) => from_elements(burn, elements.clone(), shape),
        Storage::F16(elements) => from_elements(burn, elements.clone(), shape),
        Storage::BF16(elements) => from_elements(burn, elements.clone(), shape),
        Storage::F32(elements) => from_elements(burn, elements.clone(), shape),
        Storage::F64(elements) => from_elements(burn, elements.clone(), shape),
    }
}

/// Downloads a tensor of type `dtype`, which the device may store as a different dtype.
pub(crate) fn download(burn: &Burn, tensor: &Tensor, dtype: DType) -> Result<HostTensor, BackendError> {
    let stored = burn.storage_dtype(dtype);
    if stored != dtype {
        return Ok(download(burn, tensor, stored)?.cast(dtype));
    }
    host(read(to_kernel_form(tensor.clone()))?, dtype, &sizes(tensor))
}

/// Converts Burn's tensor data to a host tensor.
pub(crate) fn host(data: TensorData, dtype: DType, shape: &[usize]) -> Result<HostTensor, BackendError> {
    let storage = match dtype {
        DType::Bool => Storage::Bool(data.iter::<bool>().collect()),
        DType::U8 => Storage::U8(data.try_into_vec()?),
        DType::U32 => Storage::U32(data.try_into_vec()?),
        DType::I32 => Storage::I32(data.try_into_vec()?),
        DType::I64 => Storage::I64(data.try_into_vec()?),
        DType::F16 => Storage::F16(data.try_into_vec()?),
        DType::BF16 => Storage::BF16(data.try_into_vec()?),
        DType::F32 => Storage::F32(data.try_into_vec()?),
        DType::F64 => Storage::F64(data.try_into_vec()?),
    };
    let found = storage.len();
    HostTensor::new(shape, storage)
        .ok_or_else(|| format!("Burn returned {found} elements, which does not match the shape").into())
}

/// Creates a tensor of this shape from its elements in row-major order.
pub(crate) fn from_elements<E: burn::tensor::Element>(burn: &Burn, elements: Vec<E>, shape: &[usize]) -> Tensor {
    let shape = if shape.is_empty() && !burn.in_host_memory() { &[1] } else { shape };
    let data = TensorData::new(elements, shape.to_vec());
    let device = burn.device().as_dispatch();
    match E::dtype() {
        BurnDType::Bool(_) => {
            let store = BurnDType::from(burn.bool_dtype());
            let data = if data.dtype() == store { data } else { data.convert_dtype(store) };
            Dispatch::bool_from_data(data, device)
        }
        BurnDType::U8 if burn.storage_dtype(DType::U8) != DType::U8 => {
            Dispatch::int_from_data(data.convert_dtype(BurnDType::U32), device)
        }
        dtype if dtype.is_float() => Dispatch::float_from_data(data, device),
        _ => Dispatch::int_from_data(data, device),
    }
}

/// Returns the elements of a tensor whose element type is `E`. An unshared buffer is moved instead of copied.
pub(crate) fn elements<E: burn::tensor::Element>(tensor: Tensor) -> Result<Vec<E>, BackendError> {
    let data = read(tensor)?;
    // A device may store booleans as integers, so convert them to `E`.
    let data = if data.dtype().is_bool() { data.convert_dtype(E::dtype()) } else { data };
    Ok(data.try_into_vec()?)
}

/// Reads an integer scalar from the device and returns its value.
pub(crate) fn integer_value(tensor: Tensor) -> Result<i64, BackendError> {
    let data = read(tensor)?;
    let value = data.iter::<i64>().next();
    value.ok_or_else(|| "an index tensor has no element".into())
}
