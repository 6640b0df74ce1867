//! The reference backend: each op by its own reference evaluation, through the same programs and loops as any
//! other backend.

use std::sync::Arc;

use funcify_core::error::BackendError;
use funcify_core::ops::{EvalContext, OpRules, Scan};
use funcify_core::types::DType;
use funcify_core::{HostTensor, Scalar, Storage};

use crate::backend::registry::Kernel;
use crate::backend::{Backend, Part, StackType, Tensors};

/// Slow and obvious, on host tensors, for every op and every type.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

crate::funcify!(Reference, Scan, native_loop);
crate::register_backend!("reference", || funcify_core::error::Result::Ok(Reference));

impl Backend for Reference {
    type Tensor = Arc<HostTensor>;
    type Tracked = ();

    fn name(&self) -> &'static str {
        "reference"
    }

    fn unsupported(&self, _: DType, _: usize) -> Option<String> {
        None
    }

    fn upload(&self, tensor: &HostTensor) -> Result<Self::Tensor, BackendError> {
        Ok(Arc::new(tensor.clone()))
    }

    fn download(&self, tensor: &Self::Tensor, dtype: DType) -> Result<HostTensor, BackendError> {
        Ok(if tensor.dtype() == dtype { (**tensor).clone() } else { tensor.cast(dtype) })
    }

    fn shape(&self, tensor: &Self::Tensor) -> Vec<usize> {
        tensor.shape().to_vec()
    }

    fn has_dtype(&self, tensor: &Self::Tensor, dtype: DType) -> bool {
        tensor.dtype() == dtype
    }

    fn rows(&self, tensor: &Self::Tensor, start: usize, count: usize) -> Result<Self::Tensor, BackendError> {
        let rows: Vec<Scalar> =
            (start..start + count).flat_map(|row| tensor.row(row).scalars().collect::<Vec<_>>()).collect();
        assemble(tensor.dtype(), [&[count], &tensor.shape()[1..]].concat(), rows)
    }

    fn row(&self, tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, BackendError> {
        Ok(Arc::new(tensor.row(row)))
    }

    fn stack(&self, parts: Vec<Part<Self::Tensor>>, ty: &StackType) -> Result<Self::Tensor, BackendError> {
        let scalars = parts.iter().flat_map(|part| {
            let (Part::Row(tensor) | Part::Block(tensor)) = part;
            tensor.scalars()
        });
        assemble(ty.dtype, ty.shape(), scalars)
    }

    fn element_bytes(&self, dtype: DType) -> usize {
        funcify_core::memory::while_made(dtype)
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(|call, operands| {
            let mut sizes = call.sizes().clone();
            let mut context = EvalContext { at: call.place().clone(), sizes: &mut sizes };
            let inputs: Vec<HostTensor> = operands.iter().map(|tensor| (**tensor).clone()).collect();
            let results = call.op.eval(&mut context, &inputs, call.outputs)?;
            Ok(results.into_iter().map(Arc::new).collect::<Tensors<_>>())
        })
    }
}

fn assemble(
    dtype: DType,
    shape: Vec<usize>,
    scalars: impl IntoIterator<Item = Scalar>,
) -> Result<Arc<HostTensor>, BackendError> {
    let tensor = HostTensor::new(shape, Storage::from_scalars(dtype, scalars));
    tensor.map(Arc::new).ok_or_else(|| "rows of different sizes cannot be stacked".into())
}
