//! Runs compiled loops with the engine of `funcify-cpu`, on Burn's tensors in host memory.
//!
//! Contiguous float tensors are borrowed, and all others are copied once. The f32 and f64 results become tensors
//! without a copy.

use std::borrow::Cow;

#[cfg(any(feature = "flex", feature = "ndarray"))]
use burn::backend::{BackendTensor, DispatchTensorKind};
use funcify_core::DType;
use funcify_core::error::BackendError;
use funcify_cpu::{Elements, Engine};
use funcify_runtime::{Compiled, Outcome};
use smallvec::SmallVec;

use crate::data::{download, elements, from_elements, upload};
use crate::device::Burn;
use crate::kinds::Tensor;

/// A compiled loop that runs on Burn's tensors in host memory.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) engine: Engine,
    pub(crate) burn: Burn,
}

impl Compiled<Tensor> for Loop {
    fn run(&self, operands: &[Tensor], stop: &(dyn Fn() -> bool + Sync)) -> Result<Outcome<Tensor>, BackendError> {
        let engine = &self.engine;
        let given = operands.iter().enumerate().map(|(index, tensor)| match (engine.reads(index), engine.dtype()) {
            (None, _) => Ok(Some(Elements::NONE)),
            (Some(own), dtype) if own != dtype => {
                Ok(engine.elements(index, &download(&self.burn, tensor, own)?).map(Elements::into_owned))
            }
            (Some(_), DType::F64) => Ok(Some(Elements::F64(numbers(tensor)?))),
            (Some(_), _) => Ok(Some(Elements::F32(numbers(tensor)?))),
        });
        let Some(given) = given.collect::<Result<Option<SmallVec<[Elements<'_>; 16]>>, BackendError>>()? else {
            return Ok(Outcome::Refused);
        };
        engine.call(&given, stop)?.try_map(|results| {
            let typed = results.into_iter().zip(engine.results());
            let tensors = typed.map(|(elements, (dtype, shape))| match elements {
                booleans if *dtype == DType::Bool => Ok(from_elements(&self.burn, booleans.to_bools::<bool>(), shape)),
                others if others.dtype() != *dtype => Ok(upload(&self.burn, &engine.tensor(others, *dtype, shape)?)),
                Elements::F32(numbers) => Ok(from_elements(&self.burn, numbers.into_owned(), shape)),
                Elements::F64(numbers) => Ok(from_elements(&self.burn, numbers.into_owned(), shape)),
                integers => Ok(upload(&self.burn, &engine.tensor(integers, *dtype, shape)?)),
            });
            tensors.collect()
        })
    }

    fn working_bytes(&self) -> usize {
        self.engine.working_bytes()
    }
}

/// Returns the elements of a float tensor, borrowed if possible.
fn numbers<E: burn::tensor::Element + bytemuck::Pod>(tensor: &Tensor) -> Result<Cow<'_, [E]>, BackendError> {
    #[cfg(feature = "flex")]
    if let DispatchTensorKind::Flex(BackendTensor::Float(tensor)) = &tensor.kind
        && let Some(numbers) = tensor.as_slice()
    {
        return Ok(Cow::Borrowed(numbers));
    }
    #[cfg(feature = "ndarray")]
    if let DispatchTensorKind::NdArray(BackendTensor::Float(tensor)) = &tensor.kind
        && let Some(numbers) = contiguous_floats(tensor)
    {
        return Ok(Cow::Borrowed(numbers));
    }
    Ok(Cow::Owned(elements(tensor.clone())?))
}

/// Borrows the elements of an ndarray tensor. Returns `None` unless they are contiguous floats of type `E`.
#[cfg(feature = "ndarray")]
#[allow(deprecated, reason = "Burn deprecates its ndarray device; it is supported here")]
fn contiguous_floats<E: burn::tensor::Element + bytemuck::Pod>(tensor: &burn_ndarray::NdArrayTensor) -> Option<&[E]> {
    use burn_ndarray::NdArrayTensor;

    match (tensor, E::dtype()) {
        (NdArrayTensor::F32(storage), burn::tensor::DType::F32) => storage.view().to_slice().map(bytemuck::cast_slice),
        (NdArrayTensor::F64(storage), burn::tensor::DType::F64) => storage.view().to_slice().map(bytemuck::cast_slice),
        _ => None,
    }
}
