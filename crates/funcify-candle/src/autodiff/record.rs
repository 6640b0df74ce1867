//! An op that Candle records, with a closure as its gradient.

use candle_core::{CpuStorage, CudaStorage, CustomOp1, Layout, MetalStorage, Result, Shape, Tensor};

use super::storage::{Handover, OnDevice, token};

/// The forward result of an op.
pub(super) enum Given {
    /// This many tokens.
    Tokens(usize),
    /// Elements that are already computed.
    Elements(Handover),
}

impl Given {
    fn like<S: OnDevice>(&self, storage: &S) -> Result<(S, Shape)> {
        match self {
            Given::Tokens(count) => token(storage, *count),
            Given::Elements(elements) => elements.on_device(),
        }
    }
}

/// Records an op on a tensor, with its result, and its gradient as a function of the tensor and the cotangent.
pub(super) fn record(
    input: &Tensor,
    name: &'static str,
    given: Given,
    gradient: impl Fn(&Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
) -> Result<Tensor> {
    input.apply_op1(Recorded { name, given, gradient })
}

struct Recorded<G> {
    name: &'static str,
    given: Given,
    gradient: G,
}

impl<G: Fn(&Tensor, &Tensor) -> Result<Option<Tensor>>> CustomOp1 for Recorded<G> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(&self, storage: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        self.given.like(storage)
    }

    fn cuda_fwd(&self, storage: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        self.given.like(storage)
    }

    fn metal_fwd(&self, storage: &MetalStorage, _: &Layout) -> Result<(MetalStorage, Shape)> {
        self.given.like(storage)
    }

    fn bwd(&self, input: &Tensor, _: &Tensor, cotangent: &Tensor) -> Result<Option<Tensor>> {
        (self.gradient)(input, cotangent)
    }
}
