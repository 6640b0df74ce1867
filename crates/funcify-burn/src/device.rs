//! The device handle, and what loops and calls need of it beside the kernels.

use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::{Dispatch, TensorMetadata};
use burn::tensor::{BoolDType, Device, Shape};
use funcify::dispatch::{Backend, Part, StackType};
use funcify::error::BackendError;
use funcify::{DType, HostTensor};

use crate::kinds::{self, Tensor};
use crate::{data, dtypes};

/// One of Burn's devices.
#[derive(Clone, Debug)]
pub struct Burn {
    device: Device,
    name: &'static str,
    /// How the device stores booleans.
    bool_dtype: BoolDType,
    abilities: Abilities,
}

/// In what the devices differ.
#[derive(Clone, Copy, Debug)]
struct Abilities {
    /// f16 and bf16.
    half_floats: bool,
    /// The largest rank that it can reshape.
    max_rank: Option<usize>,
    /// A sigmoid of its own. Burn's general one computes in f32.
    sigmoid: bool,
}

impl Burn {
    /// Burn's CPU device in plain Rust.
    #[cfg(feature = "flex")]
    pub fn flex() -> Self {
        Burn::new(Device::flex(), "burn-flex", Abilities { half_floats: true, max_rank: None, sigmoid: true })
    }

    /// Burn's CPU device on the `ndarray` crate.
    #[cfg(feature = "ndarray")]
    #[allow(deprecated, reason = "Burn deprecates its ndarray device; it is supported here as long as Burn has it")]
    pub fn ndarray() -> Self {
        Burn::new(
            Device::ndarray(),
            "burn-ndarray",
            Abilities { half_floats: false, max_rank: Some(6), sigmoid: false },
        )
    }

    #[cfg_attr(not(any(feature = "flex", feature = "ndarray")), allow(dead_code, reason = "no device is compiled in"))]
    fn new(device: Device, name: &'static str, abilities: Abilities) -> Self {
        let bool_dtype = device.settings().bool_dtype;
        Burn { device, name, bool_dtype, abilities }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn bool_dtype(&self) -> BoolDType {
        self.bool_dtype
    }

    /// Whether the device has a sigmoid that computes in the dtype of its operand.
    pub(crate) fn has_sigmoid(&self) -> bool {
        self.abilities.sigmoid
    }

    /// A tensor of zeros, `false` for booleans.
    pub(crate) fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Tensor, BackendError> {
        self.check(dtype, shape.len())?;
        let device = self.device.as_dispatch();
        let sizes = Shape::from(shape.to_vec());
        Ok(match dtype {
            DType::Bool => Dispatch::bool_zeros(sizes, device, self.bool_dtype),
            _ if dtype.is_float() => Dispatch::float_zeros(sizes, device, dtypes::float(dtype)?),
            _ => Dispatch::int_zeros(sizes, device, dtypes::integer(dtype)?),
        })
    }

    /// Fails if the device cannot hold such a tensor.
    pub(crate) fn check(&self, dtype: DType, rank: usize) -> Result<(), BackendError> {
        self.lacks(dtype, rank).map_or(Ok(()), |reason| Err(format!("{} {reason}", self.name).into()))
    }
}

#[cfg(feature = "flex")]
funcify::register_backend!("burn-flex", || funcify::Result::Ok(Burn::flex()));
#[cfg(feature = "ndarray")]
funcify::register_backend!("burn-ndarray", || funcify::Result::Ok(Burn::ndarray()));

impl Backend for Burn {
    type Tensor = Tensor;

    fn name(&self) -> &'static str {
        self.name
    }

    fn lacks(&self, dtype: DType, rank: usize) -> Option<String> {
        match self.abilities {
            Abilities { half_floats: false, .. } if matches!(dtype, DType::F16 | DType::BF16) => {
                Some(format!("has no storage for {dtype} tensors"))
            }
            Abilities { max_rank: Some(most), .. } if rank > most => {
                Some(format!("reshapes tensors of rank {most} at most, not of rank {rank}"))
            }
            _ => None,
        }
    }

    fn upload(&self, tensor: &HostTensor) -> Result<Tensor, BackendError> {
        self.check(tensor.dtype(), tensor.shape().len())?;
        Ok(data::upload(self, tensor))
    }

    fn download(&self, tensor: &Tensor, dtype: DType) -> Result<HostTensor, BackendError> {
        data::download(tensor, dtype)
    }

    fn shape(&self, tensor: &Tensor) -> Vec<usize> {
        kinds::sizes(tensor)
    }

    fn stores(&self, tensor: &Tensor, dtype: DType) -> bool {
        dtypes::of(tensor) == Some(dtype)
    }

    fn rows(&self, tensor: &Tensor, start: usize, count: usize) -> Result<Tensor, BackendError> {
        let sizes = kinds::sizes(tensor);
        match sizes.first() {
            Some(rows) if start.checked_add(count).is_some_and(|limit| limit <= *rows) => {}
            _ => return Err(format!("a tensor of sizes {sizes:?} has no rows {start}..{start}+{count}").into()),
        }
        // Rows without elements are all alike: Flex panics at an offset into nothing.
        let start = if sizes.contains(&0) { 0 } else { start };
        Ok(kinds::slice(tensor.clone(), &kinds::along(&sizes, 0, start, start + count, 1)))
    }

    fn row(&self, tensor: &Tensor, row: usize) -> Result<Tensor, BackendError> {
        let sizes = kinds::sizes(tensor);
        kinds::reshape(self.rows(tensor, row, 1)?, &sizes[1..])
    }

    fn stack(&self, parts: Vec<Part<Tensor>>, ty: &StackType) -> Result<Tensor, BackendError> {
        let one_row = [&[1], ty.row.as_slice()].concat();
        self.check(ty.dtype, one_row.len())?;
        let blocks = parts.into_iter().map(|part| match part {
            Part::Row(row) if kinds::sizes(&row) == ty.row => kinds::reshape(row, &one_row),
            Part::Block(block) if kinds::sizes(&block).get(1..) == Some(&ty.row) => Ok(block),
            Part::Row(part) | Part::Block(part) => Err(misfit(&part, &ty.row)),
        });
        let blocks = blocks.collect::<Result<Vec<Tensor>, _>>()?;
        if let Some(part) = blocks.iter().find(|block| !self.stores(block, ty.dtype)) {
            return Err(format!("a {:?} tensor cannot be a part of a stack of {}", part.dtype(), ty.dtype).into());
        }
        match blocks.is_empty() {
            true => self.zeros(ty.dtype, &ty.shape()),
            false => Ok(kinds::join(blocks, 0)),
        }
    }

    fn allocate(&self, ty: &StackType) -> Result<Option<Tensor>, BackendError> {
        self.zeros(ty.dtype, &ty.shape()).map(Some)
    }

    fn write_row(&self, trace: Tensor, row: usize, value: Tensor) -> Result<Tensor, BackendError> {
        let sizes = kinds::sizes(&trace);
        match sizes.split_first() {
            Some((rows, _)) if row >= *rows => return Err(format!("a trace of {rows} rows has no row {row}").into()),
            Some((_, tail)) if trace.dtype() == value.dtype() && kinds::sizes(&value) == tail => {}
            _ => return Err(misfit(&value, sizes.get(1..).unwrap_or_default())),
        }
        if sizes[1..].contains(&0) {
            // A row without elements: Flex panics at a range of nothing that does not begin at 0.
            return Ok(trace);
        }
        let one_row = [&[1], &sizes[1..]].concat();
        Ok(kinds::slice_assign(trace, &kinds::along(&sizes, 0, row, row + 1, 1), kinds::reshape(value, &one_row)?))
    }
}

fn misfit(part: &Tensor, row: &[usize]) -> BackendError {
    let found = kinds::sizes(part);
    format!("a {:?} tensor of sizes {found:?} does not fit rows of sizes {row:?}", part.dtype()).into()
}
