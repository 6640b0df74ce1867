//! Runs compiled loops with the engine of `funcify-cpu`, on the memory of Candle's tensors.
//!
//! Contiguous operands of the engine's element type are borrowed, and all others are copied. Results of that type
//! are moved into tensors, and all others are converted.

use std::borrow::Cow;

use candle_core::{Device, Storage, StorageRef, Tensor, WithDType};
use funcify_core::DType;
use funcify_core::error::BackendError;
use funcify_cpu::{Elements, Engine};
use funcify_runtime::{Compiled, Outcome};
use smallvec::SmallVec;

use crate::autodiff::storage::storage_of;
use crate::device::{download, elements, upload};
use crate::errors::without_backtrace;

/// A compiled loop for Candle tensors in host memory.
#[derive(Debug)]
pub(crate) struct Loop(pub(crate) Engine);

impl Compiled<Tensor> for Loop {
    fn run(&self, operands: &[Tensor], stop: &(dyn Fn() -> bool + Sync)) -> Result<Outcome<Tensor>, BackendError> {
        let Loop(engine) = self;
        let in_order = operands.iter().enumerate().map(|(index, tensor)| match engine.reads(index) {
            Some(own) if own == engine.dtype() => Ok(Some(tensor.contiguous().map_err(without_backtrace)?)),
            _ => Ok(None),
        });
        let in_order = in_order.collect::<Result<SmallVec<[Option<Tensor>; 16]>, BackendError>>()?;
        let storages: SmallVec<[usize; 16]> = in_order.iter().flatten().map(storage_of).collect();
        // Read-lock each storage only once, even if several operands share it: a writer that waits between two read
        // locks would cause a deadlock.
        let mut held: SmallVec<[(usize, StorageRef<'_>); 16]> = SmallVec::new();
        for (tensor, storage) in in_order.iter().flatten().zip(&storages) {
            if held.iter().all(|(other, _)| other != storage) {
                held.push((*storage, tensor.storage_and_layout().0));
            }
        }
        let mut storages = storages.iter();
        let mut given: SmallVec<[Elements<'_>; 16]> = SmallVec::new();
        for (index, tensor) in operands.iter().enumerate() {
            given.push(match &in_order[index] {
                Some(tensor) => {
                    let memory = storages.next().and_then(|own| held.iter().find(|(storage, _)| storage == own));
                    let (_, storage) = memory.ok_or("a tensor has no host memory")?;
                    match engine.dtype() {
                        DType::F64 => Elements::F64(Cow::Borrowed(slice(storage, tensor)?)),
                        _ => Elements::F32(Cow::Borrowed(slice(storage, tensor)?)),
                    }
                }
                None => match engine.reads(index) {
                    Some(DType::Bool) => {
                        let (storage, _) = tensor.storage_and_layout();
                        let bytes = match slice::<u8>(&storage, tensor) {
                            Ok(bytes) => Cow::Borrowed(bytes),
                            Err(_) => Cow::Owned(elements(tensor)?),
                        };
                        Elements::of_numbers(bytes.iter().map(|byte| f64::from(u8::from(*byte != 0))), engine.dtype())
                    }
                    Some(own) => match engine.elements(index, &download(tensor, own)?) {
                        Some(numbers) => numbers.into_owned(),
                        None => return Ok(Outcome::Refused),
                    },
                    None => Elements::NONE,
                },
            });
        }
        engine.call(&given, stop)?.try_map(|results| {
            let typed = results.into_iter().zip(engine.results());
            typed.map(|(elements, (dtype, shape))| tensor(engine, elements, *dtype, shape)).collect()
        })
    }

    fn working_bytes(&self) -> usize {
        self.0.working_bytes()
    }
}

/// Returns the elements of a tensor, or an error if it is not contiguous in host memory.
fn slice<'s, E: WithDType>(storage: &'s Storage, tensor: &Tensor) -> Result<&'s [E], BackendError> {
    let range = tensor.layout().contiguous_offsets();
    match (storage, range) {
        (Storage::Cpu(storage), Some((start, end))) => {
            Ok(&storage.as_slice::<E>().map_err(without_backtrace)?[start..end])
        }
        _ => Err("a tensor is not contiguous in host memory".into()),
    }
}

fn tensor(engine: &Engine, elements: Elements<'static>, dtype: DType, shape: &[usize]) -> Result<Tensor, BackendError> {
    let tensor = match elements {
        booleans if dtype == DType::Bool => Tensor::from_vec(booleans.to_bools::<u8>(), shape, &Device::Cpu),
        others if others.dtype() != dtype => return upload(&engine.tensor(others, dtype, shape)?, &Device::Cpu),
        Elements::F32(numbers) => Tensor::from_vec(numbers.into_owned(), shape, &Device::Cpu),
        Elements::F64(numbers) => Tensor::from_vec(numbers.into_owned(), shape, &Device::Cpu),
        integers => return upload(&engine.tensor(integers, dtype, shape)?, &Device::Cpu),
    };
    Ok(tensor.map_err(without_backtrace)?)
}
