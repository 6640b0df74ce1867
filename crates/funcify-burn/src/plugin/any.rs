//! Defines [`AnyTensor`], a Burn tensor of any rank and kind.

use burn::backend::{AutodiffBackend, Dispatch, DispatchAutodiffContext, TensorMetadata};
use burn::tensor::kind::Basic;
use burn::tensor::{Bool, DType as BurnDType, Device, Float, Int, Tensor as BurnTensor};
use funcify_core::error::{Place, Result, Site};
use funcify_core::{DType, HostTensor};
use funcify_runtime::Backend;

use super::{device_error, misfit};
use crate::device::Burn;
use crate::dtypes;
use crate::kinds::{self, Tensor};

/// A Burn tensor whose rank and kind are known only at run time. Use it if the Rust type of an argument or result of a
/// [`Differentiable`](super::Differentiable) cannot specify the rank and the kind.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Int, Tensor};
/// use funcify_burn::AnyTensor;
///
/// let x = AnyTensor::from(Tensor::<2, Int>::from_data([[1, 2, 3]], &Device::flex()));
/// assert_eq!(x.shape(), [1, 3]);
/// assert!(x.clone().into_tensor::<2, Int>().is_ok());
/// assert!(x.into_tensor::<1, Int>().is_err());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AnyTensor(Tensor);

/// A kind of Burn tensor: `Float`, `Int` or `Bool`.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Int, Tensor};
/// use funcify_burn::{AnyTensor, TensorKind};
///
/// fn rank<K: TensorKind>(tensor: Tensor<2, K>) -> usize {
///     AnyTensor::from(tensor).shape().len()
/// }
/// assert_eq!(rank(Tensor::<2, Int>::from_data([[1, 2]], &burn::tensor::Device::flex())), 2);
/// assert_eq!(<Int as TensorKind>::NAME, "Int");
/// # }
/// ```
pub trait TensorKind: Basic + Clone + 'static {
    /// Burn's name for the kind.
    const NAME: &'static str;

    /// Returns whether tensors of this kind can have elements of type `dtype`.
    fn has(dtype: BurnDType) -> bool;
}

impl TensorKind for Float {
    const NAME: &'static str = "Float";

    fn has(dtype: BurnDType) -> bool {
        dtype.is_float()
    }
}

impl TensorKind for Int {
    const NAME: &'static str = "Int";

    fn has(dtype: BurnDType) -> bool {
        dtype.is_int() || dtype.is_uint()
    }
}

impl TensorKind for Bool {
    const NAME: &'static str = "Bool";

    fn has(dtype: BurnDType) -> bool {
        dtype.is_bool()
    }
}

impl<const D: usize, K: TensorKind> From<BurnTensor<D, K>> for AnyTensor {
    fn from(tensor: BurnTensor<D, K>) -> Self {
        AnyTensor(tensor.into_dispatch())
    }
}

impl AnyTensor {
    pub(crate) fn new(tensor: Tensor) -> Self {
        AnyTensor(tensor)
    }

    pub(crate) fn as_dispatch(&self) -> &Tensor {
        &self.0
    }

    pub(crate) fn into_dispatch(self) -> Tensor {
        self.0
    }

    /// Returns the shape of the tensor: the size of each axis.
    pub fn shape(&self) -> Vec<usize> {
        kinds::sizes(&self.0)
    }

    /// Returns the dtype of the elements, or `None` if funcify does not support it.
    pub fn dtype(&self) -> Option<DType> {
        dtypes::of(&self.0)
    }

    /// Returns the device of the tensor. Autodiff is enabled on the returned device if it is enabled for the tensor.
    pub fn device(&self) -> Device {
        Device::new(self.0.device())
    }

    /// Converts this tensor to a Burn tensor of rank `D` and kind `K`. A scalar becomes a vector of one element,
    /// because Burn has no scalars.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Float, Tensor};
    /// use funcify_burn::AnyTensor;
    ///
    /// let x = AnyTensor::from(Tensor::<2>::ones([2, 3], &Device::flex()));
    /// assert_eq!(x.into_tensor::<2, Float>()?.dims(), [2, 3]);
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns `Call` if the tensor has a different rank or kind.
    #[track_caller]
    pub fn into_tensor<const D: usize, K: TensorKind>(self) -> Result<BurnTensor<D, K>> {
        let site = Site::caller();
        let at = || Place::new("into_tensor", site);
        if !self.is::<D, K>() {
            let (expected, fix) = (format!("a Tensor<{D}, {}>", K::NAME), "request the tensor's rank and kind");
            return Err(misfit(&at(), "the tensor", expected, self.describe(), fix));
        }
        if kinds::rank(&self.0) == D {
            return Ok(BurnTensor::from_dispatch(self.0));
        }
        kinds::resized(self.0, &[1])
            .map(BurnTensor::from_dispatch)
            .map_err(|source| device_error(&at(), "burn", source))
    }

    /// Returns whether the tensor can become a Burn tensor of rank `D` and kind `K`. Its dtype must belong to the kind,
    /// and its rank must be `D`, or 0 if `D` is 1.
    pub(crate) fn is<const D: usize, K: TensorKind>(&self) -> bool {
        let rank = kinds::rank(&self.0);
        K::has(self.0.dtype()) && (rank == D || (rank == 0 && D == 1))
    }

    /// Copies the tensor to host memory.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Tensor};
    /// use funcify::HostTensor;
    /// use funcify_burn::AnyTensor;
    ///
    /// let x = AnyTensor::from(Tensor::<1>::from_data([1.0, 2.0], &Device::flex()));
    /// assert_eq!(x.into_host()?, HostTensor::from([1f32, 2.0]));
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns `Execution` if reading from the device fails or funcify does not support the dtype, and `Unsupported` if
    /// funcify does not support the device.
    #[track_caller]
    pub fn into_host(self) -> Result<HostTensor> {
        let at = Place::new("into_host", Site::caller());
        let burn = Burn::of(&self.device())?;
        let to_error = |source| device_error(&at, burn.name(), source);
        let dtype =
            self.dtype().ok_or_else(|| to_error(format!("funcify has no dtype {:?}", self.0.dtype()).into()))?;
        burn.download(&without_autodiff(self.0), dtype).map_err(to_error)
    }

    /// Returns the dtype and shape as text, for error messages.
    pub(crate) fn describe(&self) -> String {
        let shape: Vec<String> = self.shape().iter().map(usize::to_string).collect();
        match self.dtype() {
            Some(dtype) => format!("{dtype}[{}]", shape.join(",")),
            None => format!("{:?}[{}]", self.0.dtype(), shape.join(",")),
        }
    }
}

/// Returns the tensor without autodiff.
pub(crate) fn without_autodiff(tensor: Tensor) -> Tensor {
    match tensor.autodiff {
        DispatchAutodiffContext::Disabled => tensor,
        DispatchAutodiffContext::Enabled(_) => by_kind!(tensor, inner | int_inner | bool_inner, (tensor)),
    }
}
