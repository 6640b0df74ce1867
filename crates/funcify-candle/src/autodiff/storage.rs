//! Moves the elements of a tensor into the result of a custom op.

use std::sync::{Mutex, PoisonError};

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::{CpuStorage, CudaStorage, Error, InplaceOp1, Layout, MetalStorage, Result, Shape, Storage, Tensor};

use smallvec::SmallVec;

use crate::errors::bail;

/// A tensor whose elements become the result of a custom op.
pub(crate) enum Elements {
    /// A tensor whose elements are moved, because its storage is not shared and the tensor is not read again.
    Fresh(Tensor),
    /// A tensor whose elements are copied, because its storage may be shared.
    Shared(Tensor),
}

impl Elements {
    /// Wraps the results of a program. A result is [`Fresh`](Elements::Fresh) if three conditions hold: it covers its
    /// whole storage; it shares the storage neither with another result nor with any of `others`; and it is larger than
    /// every constant of the program. A result that is no larger might itself be one of these constants.
    pub(crate) fn from_results<'t>(
        results: Vec<Tensor>,
        others: impl Iterator<Item = &'t Tensor> + Clone,
        largest_constant: usize,
    ) -> Vec<Elements> {
        let is_fresh = |tensor: &Tensor| {
            let storage = storage_of(tensor);
            let has_storage = |other: &&Tensor| storage_of(other) == storage;
            tensor.elem_count() > largest_constant.max(1)
                && covers_storage(tensor)
                && !others.clone().any(|other| has_storage(&other))
                && results.iter().filter(has_storage).count() == 1
        };
        let fresh: SmallVec<[bool; 8]> = results.iter().map(is_fresh).collect();
        let elements = results.into_iter().zip(fresh);
        elements.map(|(tensor, fresh)| if fresh { Elements::Fresh(tensor) } else { Elements::Shared(tensor) }).collect()
    }
}

/// Returns the address of a tensor's storage, which identifies the storage among live tensors.
pub(crate) fn storage_of(tensor: &Tensor) -> usize {
    std::ptr::from_ref(&*tensor.storage_and_layout().0).addr()
}

/// Returns whether a tensor contains all elements of its storage, in order. Always `false` on devices other than the
/// CPU.
fn covers_storage(tensor: &Tensor) -> bool {
    let (storage, layout) = tensor.storage_and_layout();
    let len = match &*storage {
        Storage::Cpu(CpuStorage::F32(elements)) => elements.len(),
        Storage::Cpu(CpuStorage::F64(elements)) => elements.len(),
        Storage::Cpu(CpuStorage::F16(elements)) => elements.len(),
        Storage::Cpu(CpuStorage::BF16(elements)) => elements.len(),
        _ => return false,
    };
    layout.is_contiguous() && layout.start_offset() == 0 && len == layout.shape().elem_count()
}

/// Holds the elements of a tensor until an op takes them as its result.
pub(super) struct Handover {
    storage: Mutex<Option<Storage>>,
    shape: Shape,
}

impl Handover {
    pub(super) fn new(elements: &Elements) -> Result<Self> {
        match elements {
            Elements::Fresh(tensor) if tensor.is_contiguous() => Self::take(tensor),
            Elements::Shared(tensor) if covers_storage(tensor) => Self::copy(tensor),
            Elements::Fresh(tensor) | Elements::Shared(tensor) => Self::take(&tensor.detach().force_contiguous()?),
        }
    }

    fn copy(tensor: &Tensor) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        Ok(Handover { storage: Mutex::new(Some(storage.try_clone(layout)?)), shape: tensor.shape().clone() })
    }

    /// Moves the elements out of the tensor, leaving it empty.
    fn take(tensor: &Tensor) -> Result<Self> {
        if tensor.elem_count() == 0 {
            return Self::copy(tensor);
        }
        let take = Take(Mutex::new(None));
        tensor.inplace_op1(&take)?;
        Ok(Handover { storage: take.0, shape: tensor.shape().clone() })
    }

    /// Takes the storage. Returns an error if the storage is on a different device or has already been taken.
    pub(super) fn take_storage<S: DeviceStorage>(&self) -> Result<(S, Shape)> {
        let storage = self.storage.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok((storage.and_then(S::from_any).ok_or_else(wrong_device_error)?, self.shape.clone()))
    }
}

/// A storage type of one of Candle's devices.
pub(super) trait DeviceStorage: BackendStorage<Device: BackendDevice<Storage = Self>> {
    /// Wraps this storage in Candle's `Storage` enum.
    fn into_any(self) -> Storage;
    /// Extracts a storage of this type, or returns `None` if `storage` belongs to another device.
    fn from_any(storage: Storage) -> Option<Self>;
}

macro_rules! device_storages {
    ($($storage:ident = $device:ident),*) => {$(
        impl DeviceStorage for $storage {
            fn into_any(self) -> Storage {
                Storage::$device(self)
            }

            fn from_any(storage: Storage) -> Option<Self> {
                if let Storage::$device(storage) = storage { Some(storage) } else { None }
            }
        }
    )*};
}

device_storages!(CpuStorage = Cpu, CudaStorage = Cuda, MetalStorage = Metal);

fn wrong_device_error() -> Error {
    Error::Msg("a result is on another device than the tracked inputs: move them to one device".into())
}

/// An in-place op that moves the storage out of a tensor, leaving an empty storage behind.
struct Take(Mutex<Option<Storage>>);

impl Take {
    fn put<S: DeviceStorage>(&self, storage: &mut S) -> Result<()> {
        let empty = storage.device().zeros_impl(&Shape::from(0), storage.dtype())?;
        let storage = std::mem::replace(storage, empty);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(storage.into_any());
        Ok(())
    }
}

impl InplaceOp1 for Take {
    fn name(&self) -> &'static str {
        "funcify-take"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> Result<()> {
        self.put(storage)
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, _: &Layout) -> Result<()> {
        self.put(storage)
    }

    fn metal_fwd(&self, storage: &mut MetalStorage, _: &Layout) -> Result<()> {
        self.put(storage)
    }
}

/// Creates `len` f32 zeros on the device of `like`, to be used as tokens.
pub(super) fn zero_tokens<S: DeviceStorage>(like: &S, len: usize) -> Result<(S, Shape)> {
    let shape = Shape::from(len);
    Ok((like.device().zeros_impl(&shape, candle_core::DType::F32)?, shape))
}

/// Converts the gradient of a token to a ticket. Returns an error unless the gradient is an integer from 0 to
/// [`MAX_TICKET`] - 1.
pub(super) fn parse_ticket(value: f32) -> Result<u32> {
    if value < 0.0 || value.fract() != 0.0 || value >= MAX_TICKET as f32 {
        bail!("a token of funcify's node was changed during the backward pass (it holds {value})");
    }
    Ok(value as u32)
}

/// The exclusive upper bound of ticket numbers. All integers below it are exact in f32.
pub(super) const MAX_TICKET: u32 = 1 << 24;
