//! A backend that supports only loops and a single op.

use std::sync::Arc;

use funcify::dispatch::{Backend, Kernel, KernelCall, Reference, Tensors, run_op, tensors_of};
use funcify::error::BackendError;
use funcify::prelude::*;
use funcify::{HostTensor, funcify, ops};

/// The reference backend without its fallback kernel. It supports only loops and `tanh`.
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

/// A backend whose kernel for `tanh` returns two tensors.
#[derive(Clone)]
struct ExtraResult;

funcify!(ExtraResult, ops::Tanh, |_call, [x]| Ok::<[Arc<HostTensor>; 2], BackendError>([x.clone(), x]));

impl Backend for ExtraResult {
    tensors_of!(Reference);

    fn name(&self) -> &'static str {
        "extra-result"
    }

    fn run_kernel(
        &self,
        kernel: Kernel<Self>,
        call: &KernelCall<'_, Self, ops::Op>,
        operands: Tensors<Arc<HostTensor>>,
    ) -> Result<Tensors<Arc<HostTensor>>, BackendError> {
        kernel(call, operands)
    }
}

#[test]
fn a_kernel_with_another_number_of_results_is_an_error() {
    let error = run_op(&ExtraResult, &ops::Unary::Tanh.into(), &[HostTensor::from([0.5f32])]).unwrap_err().to_string();
    assert!(error.contains("the kernel returned 2 results, and the op declares 1"), "{error}");

    let x = HostTensor::from([0.5f32]);
    let graph = Graph::build("model", |g| g.input("x", x.ty()).tanh()).unwrap();
    let error = Function::compile(&graph, &ExtraResult).unwrap().call_host(&[x]).unwrap_err().to_string();
    assert!(error.contains("the kernel returned 2 results, and the op declares 1"), "{error}");
}
