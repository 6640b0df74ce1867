//! A backend that supports only loops and a single op.

use std::sync::Arc;

use funcify::dispatch::{Backend, Reference, tensors_of};
use funcify::error::BackendError;
use funcify::{HostTensor, funcify, ops};

/// The reference backend without its fallback kernel.
#[derive(Clone)]
pub(crate) struct OneOp;

funcify!(OneOp, ops::Scan, native_loop);
funcify!(OneOp, ops::Tanh, |_call, [x]| Ok::<Arc<HostTensor>, BackendError>(x));

impl Backend for OneOp {
    tensors_of!(Reference);

    fn name(&self) -> &'static str {
        "one-op"
    }
}
