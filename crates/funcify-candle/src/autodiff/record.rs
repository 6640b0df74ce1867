//! Records an op in Candle's graph, together with a closure that computes the gradient of its input.

use candle_core::{CpuStorage, CudaStorage, CustomOp1, Layout, MetalStorage, Result, Shape, Tensor};

use super::storage::{DeviceStorage, Handover, zero_tokens};

/// The result of an op in the forward pass.
pub(super) enum ForwardResult {
    /// Tokens: a vector of zeros of this length.
    Tokens(usize),
    /// Elements that have already been computed.
    Elements(Handover),
}

impl ForwardResult {
    fn create_on<S: DeviceStorage>(&self, storage: &S) -> Result<(S, Shape)> {
        match self {
            ForwardResult::Tokens(count) => zero_tokens(storage, *count),
            ForwardResult::Elements(elements) => elements.take_storage(),
        }
    }
}

/// Records an op in Candle's graph, with one input and the given result. `gradient` computes the gradient of the
/// input from the input and the cotangent.
pub(super) fn record(
    input: &Tensor,
    name: &'static str,
    result: ForwardResult,
    gradient: impl Fn(&Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
) -> Result<Tensor> {
    input.apply_op1(Recorded { name, result, gradient })
}

struct Recorded<G> {
    name: &'static str,
    result: ForwardResult,
    gradient: G,
}

impl<G: Fn(&Tensor, &Tensor) -> Result<Option<Tensor>>> CustomOp1 for Recorded<G> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(&self, storage: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        self.result.create_on(storage)
    }

    fn cuda_fwd(&self, storage: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        self.result.create_on(storage)
    }

    fn metal_fwd(&self, storage: &MetalStorage, _: &Layout) -> Result<(MetalStorage, Shape)> {
        self.result.create_on(storage)
    }

    fn bwd(&self, input: &Tensor, _: &Tensor, cotangent: &Tensor) -> Result<Option<Tensor>> {
        (self.gradient)(input, cotangent)
    }
}
