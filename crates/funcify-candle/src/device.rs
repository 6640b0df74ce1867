//! Defines the Candle backend on a device, and functions that create and read its tensors.

use candle_core::{DType as CandleDType, Device, Tensor, WithDType};
use funcify_core::error::BackendError;
use funcify_core::{DType, HostTensor, Storage};
use funcify_runtime::KernelCall;

use crate::errors::without_backtrace;

/// A kernel call on the Candle backend.
pub(crate) type Call<'a, O> = KernelCall<'a, Candle, O>;

/// The result of a kernel (a tensor by default), or its error.
pub(crate) type Outcome<T = Tensor> = Result<T, BackendError>;

/// The largest rank that Candle's strided kernels support.
pub(crate) const MAX_RANK: usize = candle_core::nditer::MAX_DIMS;

/// The Candle backend on one device.
///
/// ```
/// use candle_core::Device;
/// use funcify::dispatch::{Backend, Function};
/// use funcify::{Graph, HostTensor};
/// use funcify_candle::Candle;
///
/// let candle = Candle::new(Device::Cpu); // the same as `Candle::cpu()`
/// assert_eq!(candle.name(), "candle");
/// let square = Graph::build("square", |g| g.input("x", "f32[]").square())?;
/// assert_eq!(Function::compile(&square, &candle)?.call_host(&[3f32.into()])?, [HostTensor::scalar(9f32)]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Candle {
    device: Device,
}

impl Candle {
    /// Returns the Candle backend on the CPU.
    ///
    /// Set `RAYON_NUM_THREADS` before the process starts (to 1 for small tensors). Otherwise, Candle queries the number
    /// of cores for each of its own matrix products. The query takes longer than a small product (see the crate
    /// documentation).
    pub fn cpu() -> Self {
        Candle { device: Device::Cpu }
    }

    /// Returns the Candle backend on a device. Ops that need this crate's own kernels are supported only on the CPU,
    /// and return an error on other devices.
    pub fn new(device: Device) -> Self {
        Candle { device }
    }

    /// Returns the device on which programs run.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Creates a tensor of zeros (`false` for booleans).
    pub(crate) fn zeros(&self, shape: &[usize], dtype: DType) -> Outcome {
        Ok(Tensor::zeros(shape, storage_dtype(dtype), &self.device).map_err(without_backtrace)?)
    }
}

/// Returns the Candle dtype that stores elements of `dtype`.
pub(crate) fn storage_dtype(dtype: DType) -> CandleDType {
    match dtype {
        DType::Bool | DType::U8 => CandleDType::U8,
        DType::U32 => CandleDType::U32,
        DType::I32 => CandleDType::I32,
        DType::I64 => CandleDType::I64,
        DType::F16 => CandleDType::F16,
        DType::BF16 => CandleDType::BF16,
        DType::F32 => CandleDType::F32,
        DType::F64 => CandleDType::F64,
    }
}

/// Returns the shape of the only result of a call. Returns an error if Candle does not support its rank.
pub(crate) fn output_shape<O>(call: &Call<'_, O>) -> Outcome<Vec<usize>> {
    let shape = call.output_shape(0)?;
    if shape.len() > MAX_RANK {
        let what = format!("tensors of rank {}", shape.len());
        return Err(call.unsupported(what, rank_reason(), "merge axes with a reshape"));
    }
    Ok(shape)
}

/// Returns the text that explains the rank limit to the user.
pub(crate) fn rank_reason() -> String {
    format!("Candle's strided kernels support at most {MAX_RANK} axes")
}

/// Uploads a host tensor to a device.
pub(crate) fn upload(tensor: &HostTensor, device: &Device) -> Outcome {
    let shape = tensor.shape();
    if shape.len() > MAX_RANK {
        return Err(rank_reason().into());
    }
    let uploaded = match tensor.storage() {
        Storage::Bool(elements) => {
            Tensor::from_vec(elements.iter().map(|e| u8::from(*e)).collect::<Vec<_>>(), shape, device)
        }
        Storage::U8(elements) => Tensor::from_slice(elements, shape, device),
        Storage::U32(elements) => Tensor::from_slice(elements, shape, device),
        Storage::I32(elements) => Tensor::from_slice(elements, shape, device),
        Storage::I64(elements) => Tensor::from_slice(elements, shape, device),
        Storage::F16(elements) => Tensor::from_slice(elements, shape, device),
        Storage::BF16(elements) => Tensor::from_slice(elements, shape, device),
        Storage::F32(elements) => Tensor::from_slice(elements, shape, device),
        Storage::F64(elements) => Tensor::from_slice(elements, shape, device),
    };
    Ok(uploaded.map_err(without_backtrace)?)
}

/// Downloads a tensor as a host tensor of type `dtype`. Candle may store the tensor as a different dtype.
pub(crate) fn download(tensor: &Tensor, dtype: DType) -> Outcome<HostTensor> {
    let storage = match dtype {
        DType::Bool => Storage::Bool(elements::<u8>(tensor)?.into_iter().map(|e| e != 0).collect()),
        DType::U8 => Storage::U8(elements(tensor)?),
        DType::U32 => Storage::U32(elements(tensor)?),
        DType::I32 => Storage::I32(elements(tensor)?),
        DType::I64 => Storage::I64(elements(tensor)?),
        DType::F16 => Storage::F16(elements(tensor)?),
        DType::BF16 => Storage::BF16(elements(tensor)?),
        DType::F32 => Storage::F32(elements(tensor)?),
        DType::F64 => Storage::F64(elements(tensor)?),
    };
    HostTensor::new(tensor.dims(), storage).ok_or_else(|| "Candle returned another number of elements".into())
}

/// Returns the elements of a tensor in row-major order.
pub(crate) fn elements<E: WithDType>(tensor: &Tensor) -> Outcome<Vec<E>> {
    if tensor.dtype() != E::DTYPE {
        return Err(format!("a tensor of {:?} was read as {:?}", tensor.dtype(), E::DTYPE).into());
    }
    if tensor.elem_count() == 0 {
        return Ok(Vec::new());
    }
    Ok(tensor.flatten_all().and_then(|flat| flat.to_vec1()).map_err(without_backtrace)?)
}
