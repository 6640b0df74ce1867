//! A backend that has lowering rules of loops and one op.

use std::sync::Arc;

use funcify::dispatch::{Backend, Part, Reference, StackType};
use funcify::error::BackendError;
use funcify::{DType, HostTensor, funcify, ops};

/// The reference backend without its fallback.
#[derive(Clone)]
pub(crate) struct OneOp;

funcify!(OneOp, ops::Scan, native_loop);
funcify!(OneOp, ops::Tanh, |_call, [x]| Ok::<Arc<HostTensor>, BackendError>(x));

impl Backend for OneOp {
    type Tensor = Arc<HostTensor>;
    type Tracked = ();

    fn name(&self) -> &'static str {
        "one-op"
    }

    fn unsupported(&self, dtype: DType, rank: usize) -> Option<String> {
        Reference.unsupported(dtype, rank)
    }

    fn upload(&self, tensor: &HostTensor) -> Result<Self::Tensor, BackendError> {
        Reference.upload(tensor)
    }

    fn download(&self, tensor: &Self::Tensor, dtype: DType) -> Result<HostTensor, BackendError> {
        Reference.download(tensor, dtype)
    }

    fn shape(&self, tensor: &Self::Tensor) -> Vec<usize> {
        Reference.shape(tensor)
    }

    fn has_dtype(&self, tensor: &Self::Tensor, dtype: DType) -> bool {
        Reference.has_dtype(tensor, dtype)
    }

    fn rows(&self, tensor: &Self::Tensor, start: usize, count: usize) -> Result<Self::Tensor, BackendError> {
        Reference.rows(tensor, start, count)
    }

    fn row(&self, tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, BackendError> {
        Reference.row(tensor, row)
    }

    fn stack(&self, parts: Vec<Part<Self::Tensor>>, ty: &StackType) -> Result<Self::Tensor, BackendError> {
        Reference.stack(parts, ty)
    }
}
