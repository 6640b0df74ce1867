//! Defines the handle to a Burn device, and the capabilities that differ between devices.

#[cfg(feature = "wgpu")]
use std::sync::OnceLock;

use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::{Dispatch, DispatchDevice};
#[cfg(feature = "wgpu")]
use burn::tensor::DType as BurnDType;
#[cfg(feature = "wgpu")]
use burn::tensor::wgpu::WgpuBackend;
use burn::tensor::{BoolDType, Device, IntDType, Shape};
use funcify_core::DType;
use funcify_core::error::{Error, Place, Site};
use funcify_runtime::KernelCall;

use crate::dtypes;
use crate::kinds::{Outcome, filled};

/// A kernel call on a Burn device.
pub(crate) type Call<'a, O> = KernelCall<'a, Burn, O>;

/// A handle to one of Burn's devices, as a backend of funcify.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use funcify::dispatch::Function;
/// use funcify::{Graph, HostTensor};
/// use funcify_burn::Burn;
///
/// let square = Graph::build("square", |g| g.input("x", "f32[N]").square())?;
/// let square = Function::compile(&square, &Burn::flex())?;
/// assert_eq!(square.call_host(&[[2f32, 3.0].into()])?, [HostTensor::from([4f32, 9.0])]);
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Burn {
    device: Device,
    name: &'static str,
    /// The type in which the device stores booleans.
    bool_dtype: BoolDType,
    abilities: Abilities,
}

/// The capabilities that differ between devices.
#[derive(Clone, Debug)]
struct Abilities {
    /// The dtypes that the device does not support, each with the reason.
    unsupported_dtypes: Vec<(DType, &'static str)>,
    /// `true` if the device can store f16 and bf16. Otherwise, they are stored as f32, and rounded after each kernel.
    half_floats: bool,
    /// The maximum rank of a tensor that the device can reshape, or `None` if the rank is not limited.
    max_rank: Option<usize>,
    /// `true` if the device has its own sigmoid kernel. Burn's generic sigmoid always computes in f32.
    sigmoid: bool,
    /// `true` if elements are in host memory, where Rust code can compute on them directly.
    host_memory: bool,
    /// `true` if the device can store bytes. Otherwise, u8 is stored as u32.
    bytes: bool,
}

/// Defaults to the capabilities of a device that supports everything.
impl Default for Abilities {
    fn default() -> Self {
        Abilities {
            unsupported_dtypes: Vec::new(),
            half_floats: true,
            max_rank: None,
            sigmoid: true,
            host_memory: true,
            bytes: true,
        }
    }
}

impl Burn {
    /// Returns the backend for `flex`, Burn's CPU device in pure Rust.
    #[cfg(feature = "flex")]
    pub fn flex() -> Self {
        Burn::new(Device::flex(), "burn-flex", Abilities::default())
    }

    /// Returns the backend for `ndarray`, Burn's CPU device based on the `ndarray` crate.
    #[cfg(feature = "ndarray")]
    #[allow(deprecated, reason = "Burn deprecates its ndarray device; it is supported here as long as Burn has it")]
    pub fn ndarray() -> Self {
        let abilities = Abilities { half_floats: false, max_rank: Some(6), sigmoid: false, ..Abilities::default() };
        Burn::new(Device::ndarray(), "burn-ndarray", abilities)
    }

    /// Returns the backend for `wgpu`, Burn's device on Vulkan: a GPU if available, otherwise a software adapter. To
    /// select an adapter, set the environment variable `CUBECL_WGPU_DEFAULT_DEVICE`, for example to `IntegratedGpu(0)`
    /// or `Cpu`.
    ///
    /// This device stores u8 as u32, with values below 256.
    ///
    /// ```no_run
    /// # #[cfg(feature = "wgpu")] {
    /// use funcify_burn::Burn;
    ///
    /// let wgpu = Burn::wgpu()?;
    /// println!("{:?}", wgpu.device());
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns `Unavailable` if Vulkan has no adapter.
    #[cfg(feature = "wgpu")]
    #[track_caller]
    pub fn wgpu() -> funcify_core::Result<Self> {
        let at = Place::new("Burn::wgpu", Site::caller());
        let device = vulkan_device().map_err(|reason| funcify_core::Error::Unavailable {
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
        let mut unsupported_dtypes = vec![
            (DType::F64, "computes functions of f64 in f32 precision, or incorrectly"),
            (DType::BF16, "has no arithmetic for bf16"),
        ];
        let optional = [
            (DType::F16, BurnDType::F16, "has no f16: its Vulkan driver does not offer it"),
            (DType::I64, BurnDType::I64, "has no i64: its Vulkan driver does not offer it"),
        ];
        let missing = optional.iter().filter(|(_, dtype, _)| !device.supports_dtype(*dtype));
        unsupported_dtypes.extend(missing.map(|(dtype, _, reason)| (*dtype, *reason)));
        let abilities = Abilities {
            unsupported_dtypes,
            max_rank: Some(8),
            host_memory: false,
            bytes: false,
            ..Abilities::default()
        };
        Burn::new(device, "burn-wgpu", abilities)
    }

    /// Returns the backend for one of Burn's devices. The device may have autodiff.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Tensor};
    /// use funcify::dispatch::Backend;
    /// use funcify_burn::Burn;
    ///
    /// let x = Tensor::<1>::ones([2], &Device::flex().autodiff());
    /// assert_eq!(Burn::of(&x.device())?.name(), "burn-flex");
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns `Unsupported` for a device that this crate does not support, or whose Cargo feature is not enabled.
    #[track_caller]
    pub fn of(device: &Device) -> funcify_core::Result<Self> {
        let inner = device.clone().inner();
        let site = Site::caller();
        match inner.as_dispatch() {
            #[cfg(feature = "flex")]
            DispatchDevice::Flex(_) => Ok(Burn { device: inner, ..Burn::flex() }),
            #[cfg(feature = "ndarray")]
            DispatchDevice::NdArray(_) => Ok(Burn { device: inner, ..Burn::ndarray() }),
            #[cfg(feature = "wgpu")]
            DispatchDevice::Cube(_) => Ok(Burn::on_gpu(inner)),
            DispatchDevice::Capture(_) => Err(unsupported(
                &Place::new("Burn::of", site),
                "burn-capture",
                "a function inside a recorded closure",
                "the device of the closure's tensors only records Burn's ops, and runs nothing",
                "use Burn's ops, and `funcify_burn::scan` for a loop; or write all of it in funcify",
            )),
            other => Err(unsupported(
                &Place::new("Burn::of", site),
                "burn",
                &format!("the device {other:?}"),
                "funcify-burn supports Burn's devices flex, ndarray and wgpu, each behind a feature of that name",
                "enable the feature of the device, or move the tensors to another one",
            )),
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

    /// Returns the backend's name.
    pub(crate) fn backend_name(&self) -> &'static str {
        self.name
    }

    /// Returns Burn's own handle to the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn bool_dtype(&self) -> BoolDType {
        self.bool_dtype
    }

    /// Returns whether the device has a sigmoid kernel that computes in the dtype of its operand.
    pub(crate) fn has_sigmoid(&self) -> bool {
        self.abilities.sigmoid
    }

    /// Returns the dtype in which the device stores elements of `dtype`.
    pub(crate) fn storage_dtype(&self, dtype: DType) -> DType {
        match dtype {
            DType::U8 if !self.abilities.bytes => DType::U32,
            DType::F16 | DType::BF16 if !self.abilities.half_floats => DType::F32,
            _ => dtype,
        }
    }

    /// Returns whether this device keeps its tensors in host memory. On other devices, kernels cannot compute on
    /// tensors of rank 0.
    pub(crate) fn in_host_memory(&self) -> bool {
        self.abilities.host_memory
    }

    /// Returns the Burn integer type in which this device stores `dtype`.
    pub(crate) fn integer(&self, dtype: DType) -> Outcome<IntDType> {
        dtypes::integer(self.storage_dtype(dtype))
    }

    /// Returns the integer type that this device uses for indices.
    pub(crate) fn index_dtype(&self) -> IntDType {
        if self.in_host_memory() { IntDType::I64 } else { IntDType::I32 }
    }

    /// Creates a tensor of zeros, or of `false` if `dtype` is boolean.
    pub(crate) fn zeros(&self, dtype: DType, shape: &[usize]) -> Outcome {
        self.check(dtype, shape.len())?;
        if self.in_host_memory() && dtype != DType::Bool {
            // Allocate memory that the operating system has already zeroed. Burn's `zeros` would write the zeros again.
            return Ok(filled(&self.device, self.storage_dtype(dtype), shape, 0.0));
        }
        let device = self.device.as_dispatch();
        let shape = if shape.is_empty() && !self.in_host_memory() { &[1] } else { shape };
        let sizes = Shape::from(shape.to_vec());
        Ok(match dtype {
            DType::Bool => Dispatch::bool_zeros(sizes, device, self.bool_dtype),
            _ if dtype.is_float() => Dispatch::float_zeros(sizes, device, dtypes::float(self.storage_dtype(dtype))?),
            _ => Dispatch::int_zeros(sizes, device, self.integer(dtype)?),
        })
    }

    /// Returns the reason why the device cannot hold a tensor of this dtype and rank, or `None` if it can.
    pub(crate) fn unsupported_reason(&self, dtype: DType, rank: usize) -> Option<String> {
        let lacking = self.abilities.unsupported_dtypes.iter().find(|(lacking, _)| *lacking == dtype);
        match (lacking, self.abilities.max_rank) {
            (Some((_, reason)), _) => Some(reason.to_string()),
            (None, Some(most)) if rank > most => {
                Some(format!("reshapes tensors of at most rank {most}, not rank {rank}"))
            }
            _ => None,
        }
    }

    /// Checks that the device can hold a tensor of this dtype and rank; see [`Burn::unsupported_reason`].
    pub(crate) fn check(&self, dtype: DType, rank: usize) -> Outcome<()> {
        self.unsupported_reason(dtype, rank).map_or(Ok(()), |reason| Err(format!("{} {reason}", self.name).into()))
    }
}

/// Returns the Vulkan device. Burn opens it only once per process.
#[cfg(feature = "wgpu")]
fn vulkan_device() -> Result<Device, String> {
    static DEVICE: OnceLock<Result<Device, String>> = OnceLock::new();
    let open = || Device::wgpu_options().graphics_api(WgpuBackend::Vulkan).init().map_err(|error| error.to_string());
    DEVICE.get_or_init(open).clone()
}

/// Returns the error for a request that a Burn device or the capture device does not support.
pub(crate) fn unsupported(at: &Place, backend: &str, what: &str, reason: &str, fix: &str) -> Error {
    let (backend, what, reason, fix) = (backend.into(), what.into(), reason.into(), fix.into());
    Error::Unsupported { at: at.boxed(), backend, what, reason, fix }
}
