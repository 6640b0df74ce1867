//! Implements funcify's `Backend` for Candle: uploads, splits and stacks tensors, and compiles loops.

use std::sync::Arc;

use candle_core::Tensor;
use funcify_core::error::BackendError;
use funcify_core::ops::Op;
use funcify_core::{DType, HostTensor, Result};
use funcify_cpu::{Division, Engine, Machine};
use funcify_runtime::{
    Backend, Compiled, Compiles, Declined, Kernel, KernelCall, Parallel, Part, StackType, Tensors, TrackedCall,
    WholeRequest,
};

use crate::compiled::Loop;
use crate::device::{Candle, MAX_RANK, download, rank_reason, storage_dtype, upload};
use crate::differentiable::{TrackedPrograms, call_tracked, is_tracked};
use crate::errors::{kernel_without_backtrace, without_backtrace};

funcify_runtime::register_backend!("candle", || Result::Ok(Candle::cpu()));

impl Backend for Candle {
    type Tensor = Tensor;
    type Tracked = TrackedPrograms;

    fn name(&self) -> &'static str {
        "candle"
    }

    fn unsupported(&self, _: DType, rank: usize) -> Option<String> {
        (rank > MAX_RANK).then(rank_reason)
    }

    fn upload(&self, tensor: &HostTensor) -> Result<Tensor, BackendError> {
        upload(tensor, self.device())
    }

    fn download(&self, tensor: &Tensor, dtype: DType) -> Result<HostTensor, BackendError> {
        download(tensor, dtype)
    }

    fn shape(&self, tensor: &Tensor) -> Vec<usize> {
        tensor.dims().to_vec()
    }

    fn has_shape(&self, tensor: &Tensor, sizes: &[usize]) -> bool {
        tensor.dims() == sizes
    }

    fn has_dtype(&self, tensor: &Tensor, dtype: DType) -> bool {
        tensor.dtype() == storage_dtype(dtype)
    }

    fn rows(&self, tensor: &Tensor, start: usize, count: usize) -> Result<Tensor, BackendError> {
        Ok(tensor.narrow(0, start, count).map_err(without_backtrace)?)
    }

    fn row(&self, tensor: &Tensor, row: usize) -> Result<Tensor, BackendError> {
        Ok(tensor.narrow(0, row, 1).and_then(|row| row.squeeze(0)).map_err(without_backtrace)?)
    }

    fn stack(&self, parts: Vec<Part<Tensor>>, ty: &StackType) -> Result<Tensor, BackendError> {
        let mut blocks = Vec::with_capacity(parts.len());
        let mut rows = 0;
        for part in parts {
            let block = match part {
                Part::Row(row) => row.unsqueeze(0).map_err(without_backtrace)?,
                Part::Block(block) => block,
            };
            rows += block.dim(0).map_err(without_backtrace)?;
            if block.elem_count() > 0 {
                blocks.push(block);
            }
        }
        if rows != ty.rows {
            return Err(format!("{rows} rows were stacked instead of {}", ty.rows).into());
        }
        if blocks.is_empty() {
            return self.zeros(&ty.shape(), ty.dtype);
        }
        Ok(Tensor::cat(&blocks, 0).map_err(without_backtrace)?)
    }

    fn allocate(&self, ty: &StackType) -> Result<Option<Tensor>, BackendError> {
        self.zeros(&ty.shape(), ty.dtype).map(Some)
    }

    /// Writes a row into the trace in place. No other tensor shares the trace's storage, so the write is safe.
    /// `slice_set` requires a contiguous row.
    fn write_row(&self, trace: Tensor, row: usize, value: Tensor) -> Result<Tensor, BackendError> {
        if value.elem_count() > 0 {
            let row_of_trace = value.contiguous().and_then(|value| value.unsqueeze(0)).map_err(without_backtrace)?;
            trace.slice_set(&row_of_trace, 0, row).map_err(without_backtrace)?;
        }
        Ok(trace)
    }

    /// Detaches the tensor from any Candle graph. Replaces each nonzero byte of a boolean tensor with 1. Callers may
    /// pass other nonzero bytes, because Candle's `where_cond` treats them as true. The replacement costs one kernel
    /// per boolean input. Rejecting bytes other than 0 and 1 would require reading the elements back.
    fn admit(&self, tensor: Tensor, dtype: DType) -> Result<Tensor, BackendError> {
        let tensor = tensor.detach();
        match dtype {
            DType::Bool if tensor.elem_count() > 0 => Ok(tensor.ne(0u8).map_err(without_backtrace)?),
            _ => Ok(tensor),
        }
    }

    /// Always returns `true`, because compiled programs treat any nonzero byte as true.
    fn is_admitted(&self, _: &Tensor, _: DType) -> bool {
        true
    }

    fn compiles(&self) -> Compiles {
        if self.device().is_cpu() { Compiles::Loops } else { Compiles::Nothing }
    }

    fn compile_whole(&self, whole: WholeRequest<'_>) -> Result<Arc<dyn Compiled<Tensor>>, Declined> {
        match self.device().is_cpu() {
            true => Ok(Arc::new(Loop(Engine::compile(whole, Division::BesideLibrary, Machine::detect())?))),
            false => Err(Declined::new(self.name(), "the device is not the CPU")),
        }
    }

    fn parallel(&self) -> Parallel {
        if self.device().is_cpu() { Parallel::Avoid } else { Parallel::Prefer }
    }

    fn is_tracked(&self, tensor: &Tensor) -> bool {
        is_tracked(tensor)
    }

    fn call_tracked(&self, call: &TrackedCall<'_, Self>, arguments: &[Tensor]) -> Option<Result<Vec<Tensor>>> {
        call_tracked(call, self, arguments)
    }

    fn run_kernel(
        &self,
        kernel: Kernel<Self>,
        call: &KernelCall<'_, Self, Op>,
        operands: Tensors<Tensor>,
    ) -> Result<Tensors<Tensor>, BackendError> {
        call.normalize(kernel(call, operands).map_err(kernel_without_backtrace)?)
    }
}
