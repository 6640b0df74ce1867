//! The device handle, and what loops and calls need of it beside the kernels.

use std::sync::Arc;
#[cfg(feature = "wgpu")]
use std::sync::OnceLock;

use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::{Dispatch, DispatchDevice, TensorMetadata};
#[cfg(feature = "wgpu")]
use burn::tensor::wgpu::WgpuBackend;
use burn::tensor::{BoolDType, DType as BurnDType, Device, FloatDType, IntDType, Scalar, Shape};
use funcify::dispatch::{Backend, Call, Compiled, Compiles, Declined, Kernel, Part, StackType, Tensors, Whole};
use funcify::error::{BackendError, Place, Site};
use funcify::ops::Op;
use funcify::{DType, HostTensor, TensorType};
use funcify_cpu::{Division, Engine};
use half::{bf16, f16};

use crate::compiled::Loop;
use crate::kinds::{self, Tensor};
use crate::{data, dtypes, on_host};

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
#[derive(Clone, Debug)]
struct Abilities {
    /// The dtypes that it does not compute with, and why.
    lacking: Vec<(DType, &'static str)>,
    /// Storage for f16 and bf16. Without it they are f32 that is rounded after each kernel.
    half_floats: bool,
    /// The largest rank that it can reshape.
    max_rank: Option<usize>,
    /// A sigmoid of its own. Burn's general one computes in f32.
    sigmoid: bool,
    /// Whether elements lie in host memory, where a kernel can compute with them as well as anywhere.
    host_memory: bool,
    /// Bytes. Where they are lacking, u8 is stored as u32.
    bytes: bool,
}

impl Burn {
    /// Burn's CPU device in plain Rust.
    #[cfg(feature = "flex")]
    pub fn flex() -> Self {
        Burn::new(
            Device::flex(),
            "burn-flex",
            Abilities {
                lacking: Vec::new(),
                half_floats: true,
                max_rank: None,
                sigmoid: true,
                host_memory: true,
                bytes: true,
            },
        )
    }

    /// Burn's CPU device on the `ndarray` crate.
    #[cfg(feature = "ndarray")]
    #[allow(deprecated, reason = "Burn deprecates its ndarray device; it is supported here as long as Burn has it")]
    pub fn ndarray() -> Self {
        let abilities = Abilities {
            lacking: Vec::new(),
            half_floats: false,
            max_rank: Some(6),
            sigmoid: false,
            host_memory: true,
            bytes: true,
        };
        Burn::new(Device::ndarray(), "burn-ndarray", abilities)
    }

    /// Burn's wgpu device on Vulkan: a GPU if there is one, else a software adapter. The environment variable
    /// `CUBECL_WGPU_DEFAULT_DEVICE` names another one, say `IntegratedGpu(0)` or `Cpu`.
    ///
    /// A u8 tensor is one of u32 there, with elements below 256.
    ///
    /// # Errors
    /// `Absent` where Vulkan has no adapter.
    #[cfg(feature = "wgpu")]
    #[track_caller]
    pub fn wgpu() -> funcify::Result<Self> {
        let at = Place::new("Burn::wgpu", Site::caller());
        let device = vulkan_device().map_err(|reason| funcify::Error::Absent {
            at: at.boxed(),
            backend: "burn-wgpu".to_string(),
            reason,
            fix: "install a Vulkan driver: the GPU's, or the software one of Mesa (Debian and Ubuntu: \
                  `apt-get install mesa-vulkan-drivers`)"
                .into(),
        })?;
        Ok(Burn::on_gpu(device))
    }

    #[cfg(feature = "wgpu")]
    fn on_gpu(device: Device) -> Self {
        let mut lacking = vec![
            (DType::F64, "computes functions of f64 with the precision of f32, or wrongly"),
            (DType::BF16, "has no arithmetic for bf16"),
        ];
        let optional = [
            (DType::F16, BurnDType::F16, "has no f16: its Vulkan driver does not offer it"),
            (DType::I64, BurnDType::I64, "has no i64: its Vulkan driver does not offer it"),
        ];
        let missing = optional.iter().filter(|(_, dtype, _)| !device.supports_dtype(*dtype));
        lacking.extend(missing.map(|(dtype, _, reason)| (*dtype, *reason)));
        let abilities = Abilities {
            lacking,
            half_floats: true,
            max_rank: Some(8),
            sigmoid: true,
            host_memory: false,
            bytes: false,
        };
        Burn::new(device, "burn-wgpu", abilities)
    }

    /// The backend of a device of Burn, whether it has autodiff or not.
    ///
    /// # Errors
    /// `Unsupported` for devices that this crate does not have, or is compiled without: see its features.
    #[track_caller]
    pub fn of(device: &Device) -> funcify::Result<Self> {
        let inner = device.clone().inner();
        match inner.as_dispatch() {
            #[cfg(feature = "flex")]
            DispatchDevice::Flex(_) => Ok(Burn { device: inner, ..Burn::flex() }),
            #[cfg(feature = "ndarray")]
            DispatchDevice::NdArray(_) => Ok(Burn { device: inner, ..Burn::ndarray() }),
            #[cfg(feature = "wgpu")]
            DispatchDevice::Cube(_) => Ok(Burn::on_gpu(inner)),
            DispatchDevice::Capture(_) => Err(funcify::Error::Unsupported {
                at: Place::new("Burn::of", Site::caller()).boxed(),
                backend: "burn-capture".into(),
                what: "a function inside a closure that is recorded".into(),
                reason: "the device of the closure's tensors writes Burn's ops down, and runs nothing".into(),
                fix: "write it in Burn's ops, and a loop with `funcify_burn::scan`; or all of it with funcify's own"
                    .into(),
            }),
            other => Err(funcify::Error::Unsupported {
                at: Place::new("Burn::of", Site::caller()).boxed(),
                backend: "burn".into(),
                what: format!("the device {other:?}"),
                reason: "funcify-burn has Burn's devices flex, ndarray and wgpu, each with a feature of that name"
                    .into(),
                fix: "switch on the feature of the device, or move the tensors to another one".into(),
            }),
        }
    }

    #[cfg_attr(
        not(any(feature = "flex", feature = "ndarray", feature = "wgpu")),
        allow(dead_code, reason = "no device is compiled in")
    )]
    fn new(device: Device, name: &'static str, abilities: Abilities) -> Self {
        let bool_dtype = device.settings().bool_dtype;
        Burn { device, name, bool_dtype, abilities }
    }

    /// The device as Burn names it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn bool_dtype(&self) -> BoolDType {
        self.bool_dtype
    }

    /// Whether the device has a sigmoid that computes in the dtype of its operand.
    pub(crate) fn has_sigmoid(&self) -> bool {
        self.abilities.sigmoid
    }

    /// The dtype that the device stores elements of `dtype` as.
    pub(crate) fn stored(&self, dtype: DType) -> DType {
        match dtype {
            DType::U8 if !self.abilities.bytes => DType::U32,
            DType::F16 | DType::BF16 if !self.abilities.half_floats => DType::F32,
            _ => dtype,
        }
    }

    /// Whether the elements of a tensor lie in host memory.
    pub(crate) fn in_host_memory(&self) -> bool {
        self.abilities.host_memory
    }

    /// Whether the device computes on tensors of rank 0.
    pub(crate) fn has_rank_0(&self) -> bool {
        self.abilities.host_memory
    }

    /// Burn's integer type that stores an integer dtype.
    pub(crate) fn integer(&self, dtype: DType) -> Result<IntDType, BackendError> {
        dtypes::integer(self.stored(dtype))
    }

    /// The integer type of indices.
    pub(crate) fn index_dtype(&self) -> IntDType {
        if self.in_host_memory() { IntDType::I64 } else { IntDType::I32 }
    }

    /// A tensor of zeros, `false` for booleans.
    pub(crate) fn zeros(&self, dtype: DType, shape: &[usize]) -> Result<Tensor, BackendError> {
        self.check(dtype, shape.len())?;
        let device = self.device.as_dispatch();
        let shape = if shape.is_empty() && !self.has_rank_0() { &[1] } else { shape };
        let sizes = Shape::from(shape.to_vec());
        Ok(match dtype {
            DType::Bool => Dispatch::bool_zeros(sizes, device, self.bool_dtype),
            _ if dtype.is_float() => Dispatch::float_zeros(sizes, device, dtypes::float(self.stored(dtype))?),
            _ => Dispatch::int_zeros(sizes, device, self.integer(dtype)?),
        })
    }

    /// Fails if the device cannot hold such a tensor.
    pub(crate) fn check(&self, dtype: DType, rank: usize) -> Result<(), BackendError> {
        self.lacks(dtype, rank).map_or(Ok(()), |reason| Err(format!("{} {reason}", self.name).into()))
    }
}

/// The Vulkan device, which Burn opens once in a program.
#[cfg(feature = "wgpu")]
fn vulkan_device() -> Result<Device, String> {
    static DEVICE: OnceLock<Result<Device, String>> = OnceLock::new();
    let open = || Device::wgpu_options().graphics_api(WgpuBackend::Vulkan).init().map_err(|error| error.to_string());
    DEVICE.get_or_init(open).clone()
}

#[cfg(feature = "flex")]
funcify::register_backend!("burn-flex", || funcify::Result::Ok(Burn::flex()));
#[cfg(feature = "ndarray")]
funcify::register_backend!("burn-ndarray", || funcify::Result::Ok(Burn::ndarray()));
#[cfg(feature = "wgpu")]
funcify::register_backend!("burn-wgpu", || Burn::wgpu());

impl Backend for Burn {
    type Tensor = Tensor;

    fn name(&self) -> &'static str {
        self.name
    }

    fn wait(&self) {
        // What the device could not do is an error of the result that is read.
        let _ = self.device.sync();
    }

    fn lacks(&self, dtype: DType, rank: usize) -> Option<String> {
        let lacking = self.abilities.lacking.iter().find(|(lacking, _)| *lacking == dtype);
        match (lacking, self.abilities.max_rank) {
            (Some((_, reason)), _) => Some(reason.to_string()),
            (None, Some(most)) if rank > most => {
                Some(format!("reshapes tensors of rank {most} at most, not of rank {rank}"))
            }
            _ => None,
        }
    }

    fn upload(&self, tensor: &HostTensor) -> Result<Tensor, BackendError> {
        let rank = tensor.shape().len();
        self.check(tensor.dtype(), rank)?;
        Ok(kinds::with_rank(data::upload(self, tensor), rank))
    }

    fn download(&self, tensor: &Tensor, dtype: DType) -> Result<HostTensor, BackendError> {
        data::download(self, tensor, dtype)
    }

    fn shape(&self, tensor: &Tensor) -> Vec<usize> {
        kinds::sizes(tensor)
    }

    fn stores(&self, tensor: &Tensor, dtype: DType) -> bool {
        dtypes::of(tensor) == Some(self.stored(dtype))
    }

    /// A boolean that is stored as a number is true where that is not 0, and becomes 1.
    fn admit(&self, tensor: Tensor, dtype: DType) -> Result<Tensor, BackendError> {
        match (dtype, tensor.dtype()) {
            (DType::Bool, BurnDType::Bool(store))
                if store != BoolDType::Native && !kinds::sizes(&tensor).contains(&0) =>
            {
                // Kernels for booleans of 32 bits look at the lowest bit alone, also those that would compare.
                if store == BoolDType::U32 {
                    return self.upload(&self.download(&tensor, dtype)?);
                }
                let rank = kinds::sizes(&tensor).len();
                let numbers = Dispatch::bool_into_int(kinds::computable(tensor), IntDType::I32);
                let flags = Dispatch::int_not_equal_elem(numbers, Scalar::from(0i64), self.bool_dtype);
                Ok(kinds::with_rank(flags, rank))
            }
            _ => self.settle(tensor, dtype),
        }
    }

    fn settle(&self, tensor: Tensor, dtype: DType) -> Result<Tensor, BackendError> {
        match dtype {
            DType::U8 if self.stored(dtype) != dtype && !kinds::sizes(&tensor).contains(&0) => {
                Ok(Dispatch::bitwise_and_scalar(tensor, Scalar::from(255i64)))
            }
            DType::F16 if self.stored(dtype) != dtype => on_host::map(self, tensor, |x: f32| f16::from_f32(x).to_f32()),
            DType::BF16 if self.stored(dtype) != dtype => {
                on_host::map(self, tensor, |x: f32| bf16::from_f32(x).to_f32())
            }
            DType::F16 if dtypes::of(&tensor) == Some(DType::F32) => Ok(Dispatch::float_cast(tensor, FloatDType::F16)),
            _ => Ok(tensor),
        }
    }

    fn compiles(&self) -> Compiles {
        if self.in_host_memory() { Compiles::Loops } else { Compiles::Nothing }
    }

    fn compile(&self, whole: Whole<'_>) -> Result<Arc<dyn Compiled<Tensor>>, Declined> {
        match self.in_host_memory() {
            true => {
                let engine = Engine::compile(whole, Division::default())?;
                Ok(Arc::new(Loop { engine, burn: self.clone() }))
            }
            false => Err(Declined::new(self.name, "its tensors do not lie in host memory")),
        }
    }

    fn run_kernel(
        &self,
        kernel: Kernel<Self>,
        call: &Call<'_, Self, Op>,
        operands: Tensors<Tensor>,
    ) -> Result<Tensors<Tensor>, BackendError> {
        if self.in_host_memory() {
            return call.settle(kernel(call, operands)?);
        }
        let operands = operands.into_iter().map(kinds::computable);
        let results = match call.op {
            // Burn's elementwise ops on scalars panic on a wgpu device if there are no elements.
            Op::Unary(_)
            | Op::Polygamma(_)
            | Op::Binary(_)
            | Op::Bits(_)
            | Op::Compare(_)
            | Op::Predicate(_)
            | Op::Cast(_)
            | Op::Bitcast(_)
            | Op::NextAfter(_)
            | Op::Select(_)
            | Op::Custom(_)
                if call.outputs.iter().all(|ty| is_empty(call, ty)) =>
            {
                let empty = call.outputs.iter().map(|ty| self.zeros(ty.dtype, &call.shape(&ty.shape)?));
                empty.collect::<Result<_, _>>()?
            }
            // These lose digits where they are computed in f16.
            Op::Unary(_) | Op::Polygamma(_) | Op::Binary(_) | Op::Cumulative(_) | Op::Conv(_)
                if call.dtype(0) == DType::F16 =>
            {
                kernel(call, operands.map(|x| Dispatch::float_cast(x, FloatDType::F32)).collect())?
            }
            _ => kernel(call, operands.collect())?,
        };
        let results = call.settle(results.into_iter().map(kinds::computable).collect())?;
        let ranked = results.into_iter().zip(call.outputs);
        Ok(ranked.map(|(tensor, ty)| kinds::with_rank(tensor, ty.rank())).collect())
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
        let row = kinds::reshape(self.rows(tensor, row, 1)?, &sizes[1..])?;
        Ok(kinds::with_rank(row, sizes.len() - 1))
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

fn is_empty(call: &Call<'_, Burn, Op>, ty: &TensorType) -> bool {
    call.shape(&ty.shape).is_ok_and(|sizes| sizes.contains(&0))
}

fn misfit(part: &Tensor, row: &[usize]) -> BackendError {
    let found = kinds::sizes(part);
    format!("a {:?} tensor of sizes {found:?} does not fit rows of sizes {row:?}", part.dtype()).into()
}
