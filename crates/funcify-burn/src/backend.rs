//! Implements funcify's `Backend` for Burn: transfers, row access, and helpers for loops and calls.

use std::sync::Arc;

use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::{Dispatch, TensorMetadata};
use burn::tensor::{BoolDType, DType as BurnDType, FloatDType, IntDType, Scalar};
use funcify_core::error::BackendError;
use funcify_core::ops::{Movement, Op, OpClass};
use funcify_core::{DType, HostTensor, TensorType};
use funcify_cpu::{Division, Engine, Machine};
use funcify_runtime::{
    Backend, Compiled, Compiles, Declined, Kernel, Parallel, Part, StackType, Tensors, WholeRequest,
};
use half::{bf16, f16};

use crate::compiled::Loop;
use crate::device::{Burn, Call};
use crate::kinds::{self, Outcome, Tensor};
use crate::{data, dtypes, on_host};

#[cfg(feature = "flex")]
funcify_runtime::register_backend!("burn-flex", || funcify_core::Result::Ok(Burn::flex()));
#[cfg(feature = "ndarray")]
funcify_runtime::register_backend!("burn-ndarray", || funcify_core::Result::Ok(Burn::ndarray()));
#[cfg(feature = "wgpu")]
funcify_runtime::register_backend!("burn-wgpu", || Burn::wgpu());

impl Backend for Burn {
    type Tensor = Tensor;
    type Tracked = ();

    fn name(&self) -> &'static str {
        self.backend_name()
    }

    fn wait(&self) {
        // Ignore the error here: if the device has failed, reading a result returns an error.
        let _ = self.device().sync();
    }

    fn unsupported(&self, dtype: DType, rank: usize) -> Option<String> {
        self.unsupported_reason(dtype, rank)
    }

    fn upload(&self, tensor: &HostTensor) -> Outcome {
        let rank = tensor.shape().len();
        self.check(tensor.dtype(), rank)?;
        Ok(kinds::with_rank(data::upload(self, tensor), rank))
    }

    fn download(&self, tensor: &Tensor, dtype: DType) -> Outcome<HostTensor> {
        data::download(self, tensor, dtype)
    }

    fn shape(&self, tensor: &Tensor) -> Vec<usize> {
        kinds::sizes(tensor)
    }

    fn has_shape(&self, tensor: &Tensor, sizes: &[usize]) -> bool {
        tensor.shape().as_slice() == sizes
    }

    fn has_dtype(&self, tensor: &Tensor, dtype: DType) -> bool {
        dtypes::of(tensor) == Some(self.storage_dtype(dtype))
    }

    /// Makes the elements of an argument valid for `dtype`. In booleans that are stored as numbers, replaces every
    /// nonzero element with 1.
    fn admit(&self, mut tensor: Tensor, dtype: DType) -> Outcome {
        match (dtype, tensor.dtype()) {
            (DType::Bool, BurnDType::Bool(store))
                if store != BoolDType::Native && !kinds::sizes(&tensor).contains(&0) =>
            {
                // Normalise 32-bit booleans on the host: Burn's kernels for them, including comparisons, read only the
                // lowest bit.
                if store == BoolDType::U32 {
                    return self.upload(&self.download(&tensor, dtype)?);
                }
                let rank = kinds::sizes(&tensor).len();
                let numbers = Dispatch::bool_into_int(kinds::to_kernel_form(tensor), IntDType::I32);
                let flags = Dispatch::int_not_equal_elem(numbers, Scalar::from(0i64), self.bool_dtype());
                Ok(kinds::with_rank(flags, rank))
            }
            _ => {
                self.normalize(&mut tensor, dtype)?;
                Ok(tensor)
            }
        }
    }

    fn is_admitted(&self, tensor: &Tensor, dtype: DType) -> bool {
        match dtype {
            DType::Bool => tensor.dtype() == BurnDType::Bool(BoolDType::Native),
            _ => self.storage_dtype(dtype) == dtype,
        }
    }

    fn normalize(&self, tensor: &mut Tensor, dtype: DType) -> Result<(), BackendError> {
        *tensor = match dtype {
            DType::U8 if self.storage_dtype(dtype) != dtype && !kinds::sizes(tensor).contains(&0) => {
                Dispatch::bitwise_and_scalar(tensor.clone(), Scalar::from(255i64))
            }
            DType::F16 if self.storage_dtype(dtype) != dtype => {
                on_host::map(self, tensor.clone(), |x: f32| f16::from_f32(x).to_f32())?
            }
            DType::BF16 if self.storage_dtype(dtype) != dtype => {
                on_host::map(self, tensor.clone(), |x: f32| bf16::from_f32(x).to_f32())?
            }
            DType::F16 if dtypes::of(tensor) == Some(DType::F32) => {
                Dispatch::float_cast(tensor.clone(), FloatDType::F16)
            }
            _ => return Ok(()),
        };
        Ok(())
    }

    fn compiles(&self) -> Compiles {
        if self.in_host_memory() { Compiles::Loops } else { Compiles::Nothing }
    }

    fn compile_whole(&self, whole: WholeRequest<'_>) -> Result<Arc<dyn Compiled<Tensor>>, Declined> {
        match self.in_host_memory() {
            true => {
                let engine = Engine::compile(whole, Division::BesideLibrary, Machine::detect())?;
                Ok(Arc::new(Loop { engine, burn: self.clone() }))
            }
            false => Err(Declined::new(self.backend_name(), "its tensors are not in host memory")),
        }
    }

    fn parallel(&self) -> Parallel {
        if self.in_host_memory() { Parallel::Avoid } else { Parallel::Prefer }
    }

    fn run_kernel(
        &self,
        kernel: Kernel<Self>,
        call: &Call<'_, Op>,
        operands: Tensors<Tensor>,
    ) -> Outcome<Tensors<Tensor>> {
        if self.in_host_memory() {
            return match call.outputs.iter().all(|ty| is_always_normal(ty.dtype)) {
                true => kernel(call, operands),
                false => call.normalize(kernel(call, operands)?),
            };
        }
        let operands = operands.into_iter().map(kinds::to_kernel_form);
        let results = match call.op {
            op if is_elementwise(op) && call.outputs.iter().all(|ty| is_empty(call, ty)) => {
                let empty = call.outputs.iter().map(|ty| self.zeros(ty.dtype, &call.shape(&ty.shape)?));
                empty.collect::<Result<_, _>>()?
            }
            op if op.loses_precision_in_half() && call.dtype(0) == DType::F16 => {
                kernel(call, operands.map(|x| Dispatch::float_cast(x, FloatDType::F32)).collect())?
            }
            _ => kernel(call, operands.collect())?,
        };
        let results = call.normalize(results.into_iter().map(kinds::to_kernel_form).collect())?;
        let ranked = results.into_iter().zip(call.outputs);
        Ok(ranked.map(|(tensor, ty)| kinds::with_rank(tensor, ty.rank())).collect())
    }

    fn rows(&self, tensor: &Tensor, start: usize, count: usize) -> Outcome {
        rows(tensor, &tensor.shape(), start, count)
    }

    fn row(&self, tensor: &Tensor, row: usize) -> Outcome {
        let sizes = tensor.shape();
        let row = kinds::reshape(rows(tensor, &sizes, row, 1)?, &sizes[1..])?;
        Ok(kinds::with_rank(row, sizes.len() - 1))
    }

    fn stack(&self, parts: Vec<Part<Tensor>>, ty: &StackType) -> Outcome {
        let one_row = [&[1], ty.row.as_slice()].concat();
        self.check(ty.dtype, one_row.len())?;
        let blocks = parts.into_iter().map(|part| match part {
            Part::Row(row) if kinds::sizes(&row) == ty.row => kinds::reshape(row, &one_row),
            Part::Block(block) if kinds::sizes(&block).get(1..) == Some(&ty.row) => Ok(block),
            Part::Row(part) | Part::Block(part) => Err(misfit(&part, &ty.row)),
        });
        let blocks = blocks.collect::<Result<Vec<Tensor>, _>>()?;
        if let Some(part) = blocks.iter().find(|block| !self.has_dtype(block, ty.dtype)) {
            return Err(format!("a {:?} tensor cannot be part of a stack of {}", part.dtype(), ty.dtype).into());
        }
        match blocks.is_empty() {
            true => self.zeros(ty.dtype, &ty.shape()),
            false => Ok(kinds::join(blocks, 0)),
        }
    }

    fn allocate(&self, ty: &StackType) -> Outcome<Option<Tensor>> {
        self.zeros(ty.dtype, &ty.shape()).map(Some)
    }

    fn write_row(&self, trace: Tensor, row: usize, value: Tensor) -> Outcome {
        let sizes = trace.shape();
        match sizes.split_first() {
            Some((rows, _)) if row >= *rows => return Err(format!("a trace of {rows} rows has no row {row}").into()),
            Some((_, tail)) if trace.dtype() == value.dtype() && value.shape().as_slice() == tail => {}
            Some((_, tail)) => return Err(misfit(&value, tail)),
            None => return Err("a trace needs an axis of rows".into()),
        }
        if sizes[1..].contains(&0) {
            // A row without elements needs no write, and Burn's flex device panics on an empty range that does not
            // start at 0.
            return Ok(trace);
        }
        let slices = kinds::slices_along(&sizes, 0, row, row + 1, 1);
        let mut one_row = sizes;
        one_row[0] = 1;
        Ok(kinds::slice_assign(trace, &slices, kinds::reshape(value, &one_row)?))
    }
}

/// Returns whether [`normalize`](Backend::normalize) leaves tensors of this dtype unchanged on every device. Skipping
/// `normalize` for such dtypes avoids copies of large tensors.
fn is_always_normal(dtype: DType) -> bool {
    !matches!(dtype, DType::U8 | DType::F16 | DType::BF16)
}

/// Returns the rows `start..start + count` of a tensor with these sizes.
fn rows(tensor: &Tensor, sizes: &[usize], start: usize, count: usize) -> Outcome {
    match sizes.first() {
        Some(rows) if start.checked_add(count).is_some_and(|limit| limit <= *rows) => {}
        _ => return Err(format!("a tensor of sizes {sizes:?} has no rows {start}..{start}+{count}").into()),
    }
    // Burn's flex device panics if a slice of an empty tensor does not start at 0. No row of such a tensor has
    // elements, so the slice can start at 0.
    let start = if sizes.contains(&0) { 0 } else { start };
    Ok(kinds::slice(tensor.clone(), &kinds::slices_along(sizes, 0, start, start + count, 1)))
}

/// Returns whether the kernel of `op` may call Burn's elementwise ops. On a wgpu device, those ops panic if one operand
/// is a scalar and the other is empty.
fn is_elementwise(op: &Op) -> bool {
    match op.class() {
        OpClass::Elementwise(_) | OpClass::Movement(Movement::Bitcast(_)) | OpClass::Custom(_) => true,
        OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) | OpClass::Along(_) => false,
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) | OpClass::Control(_) => false,
    }
}

fn is_empty(call: &Call<'_, Op>, ty: &TensorType) -> bool {
    call.shape(&ty.shape).is_ok_and(|sizes| sizes.contains(&0))
}

fn misfit(part: &Tensor, row: &[usize]) -> BackendError {
    let found = kinds::sizes(part);
    format!("a {:?} tensor of sizes {found:?} does not fit rows of sizes {row:?}", part.dtype()).into()
}
