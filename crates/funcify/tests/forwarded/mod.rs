//! What backends of tests take from another backend, so that each says only in what it differs.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test program uses a part")]

use std::sync::Arc;

use funcify::HostTensor;
use funcify::dispatch::{Backend, Compiled, KernelCall, Outcome, Tensors};
use funcify::error::BackendError;
use funcify::ops::{EvalContext, Op, OpRules};

/// `tensors_of!(Reference)`, in an `impl Backend`: the tensors of another backend, and what it does with their rows.
macro_rules! tensors_of {
    ($backend:ident) => {
        type Tensor = <$backend as funcify::dispatch::Backend>::Tensor;
        type Tracked = ();

        fn unsupported(&self, dtype: funcify::DType, rank: usize) -> Option<String> {
            funcify::dispatch::Backend::unsupported(&$backend, dtype, rank)
        }

        fn upload(&self, tensor: &funcify::HostTensor) -> Result<Self::Tensor, funcify::error::BackendError> {
            $backend.upload(tensor)
        }

        fn download(
            &self,
            tensor: &Self::Tensor,
            dtype: funcify::DType,
        ) -> Result<funcify::HostTensor, funcify::error::BackendError> {
            $backend.download(tensor, dtype)
        }

        fn shape(&self, tensor: &Self::Tensor) -> Vec<usize> {
            $backend.shape(tensor)
        }

        fn has_dtype(&self, tensor: &Self::Tensor, dtype: funcify::DType) -> bool {
            $backend.has_dtype(tensor, dtype)
        }

        fn rows(
            &self,
            tensor: &Self::Tensor,
            start: usize,
            count: usize,
        ) -> Result<Self::Tensor, funcify::error::BackendError> {
            $backend.rows(tensor, start, count)
        }

        fn row(&self, tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, funcify::error::BackendError> {
            $backend.row(tensor, row)
        }

        fn stack(
            &self,
            parts: Vec<funcify::dispatch::Part<Self::Tensor>>,
            ty: &funcify::dispatch::StackType,
        ) -> Result<Self::Tensor, funcify::error::BackendError> {
            $backend.stack(parts, ty)
        }
    };
}
pub(crate) use tensors_of;

/// A tensor of the reference backend.
type OnHost = Arc<HostTensor>;

/// Runs any op by its reference evaluation: the fallback of a backend on the reference's tensors.
pub(crate) fn evaluated<B: Backend<Tensor = OnHost>>(
    call: &KernelCall<'_, B, Op>,
    operands: Tensors<OnHost>,
) -> Result<Tensors<OnHost>, BackendError> {
    let mut sizes = call.sizes().clone();
    let mut context = EvalContext { at: call.place().clone(), sizes: &mut sizes };
    let inputs: Vec<HostTensor> = operands.iter().map(|tensor| (**tensor).clone()).collect();
    let results = call.op.eval(&mut context, &inputs, call.outputs)?;
    Ok(results.into_iter().map(Arc::new).collect())
}

/// Something compiled that refuses all operands.
pub(crate) struct Refuses;

impl Compiled<OnHost> for Refuses {
    fn run(&self, _: &[OnHost], _: &(dyn Fn() -> bool + Sync)) -> Result<Outcome<OnHost>, BackendError> {
        Ok(Outcome::Refused)
    }
}
