//! Defines [`KernelCall`], the context that a kernel receives, and [`IntoTensors`], the trait for types that a kernel
//! may return.

use funcify_core::error::{BackendError, Error, Place};
use funcify_core::types::{DType, Dim, Shape, SizeError, Sizes, TensorType};

use super::{Backend, Tensors};

/// A kernel's view of one call: the op with its attributes, the device, the types of the operands and results, and the
/// sizes. `O` is the op's type.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::dispatch::{Backend, Reference, run_op, tensors_of};
/// use funcify::{HostTensor, funcify, ops};
///
/// # #[derive(Clone)]
/// # struct Mine;
/// # impl Backend for Mine {
/// #     tensors_of!(Reference);
/// #     fn name(&self) -> &'static str {
/// #         "mine"
/// #     }
/// # }
///
/// // `call.op` has the attributes of the op, and `call` the sizes.
/// funcify!(Mine, ops::Reshape, |call, [x]| {
///     let sizes = call.shape(&call.op.shape)?;
///     (*x).clone().reshaped(sizes).map(Arc::new).ok_or("another number of elements")
/// });
///
/// let reshape = ops::Op::from(ops::Reshape { shape: [2usize, 1].into() });
/// let column = run_op(&Mine, &reshape, &[HostTensor::from([1f32, 2.0])])?;
/// assert_eq!(column, [HostTensor::from([[1f32], [2.0]])]);
/// # Ok::<(), funcify::Error>(())
/// ```
pub struct KernelCall<'a, B: Backend, O> {
    /// The op with its attributes.
    pub op: &'a O,
    /// The backend, which represents the device.
    pub backend: &'a B,
    /// The types of the operands. Their shapes may contain symbols.
    pub inputs: &'a [TensorType],
    /// The types of the results. Their shapes may contain symbols.
    pub outputs: &'a [TensorType],
    pub(crate) sizes: &'a Sizes,
    pub(crate) at: &'a Place,
}

impl<'a, B: Backend, O> KernelCall<'a, B, O> {
    /// Returns a copy of this call with its op replaced by `op`.
    pub fn with_op<P>(&self, op: &'a P) -> KernelCall<'a, B, P> {
        let KernelCall { backend, inputs, outputs, sizes, at, .. } = *self;
        KernelCall { op, backend, inputs, outputs, sizes, at }
    }

    /// Normalizes a kernel's results to the declared dtypes with [`Backend::normalize`].
    pub fn normalize(&self, mut results: Tensors<B::Tensor>) -> Result<Tensors<B::Tensor>, BackendError> {
        for (tensor, ty) in results.iter_mut().zip(self.outputs) {
            self.backend.normalize(tensor, ty.dtype)?;
        }
        Ok(results)
    }

    /// Returns the value of a dimension in this call. Returns an error if the value is negative.
    pub fn dim(&self, dim: &Dim) -> Result<usize, BackendError> {
        let value = self.dim_value(dim)?;
        usize::try_from(value)
            .map_err(|_| funcify_core::ops::no_size(self.at, SizeError::Negative(dim.clone(), value)).into())
    }

    /// Returns the value of a dimension in this call. Unlike [`dim`](KernelCall::dim), allows negative values.
    pub fn dim_value(&self, dim: &Dim) -> Result<i64, BackendError> {
        dim.value(self.sizes).map_err(|error| funcify_core::ops::no_size(self.at, error).into())
    }

    /// Returns the sizes of a shape in this call.
    pub fn shape(&self, shape: &Shape) -> Result<Vec<usize>, BackendError> {
        shape.dims().iter().map(|dim| self.dim(dim)).collect()
    }

    /// Returns the sizes of result `index` in this call.
    pub fn output_shape(&self, index: usize) -> Result<Vec<usize>, BackendError> {
        self.shape(&self.outputs[index].shape)
    }

    /// Returns the element type of operand `index`.
    pub fn dtype(&self, index: usize) -> DType {
        self.inputs[index].dtype
    }

    /// Returns the values of the symbols in this call.
    pub fn sizes(&self) -> &Sizes {
        self.sizes
    }

    /// Returns the op and the user's source line, for error messages.
    pub fn place(&self) -> &Place {
        self.at
    }

    /// Builds an [`Error::Unsupported`] for a feature `what` that the device does not support, with the reason and the
    /// fix.
    pub fn unsupported(
        &self,
        what: impl Into<String>,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) -> BackendError {
        Box::new(Error::Unsupported {
            at: self.at.boxed(),
            backend: self.backend.name().to_string(),
            what: what.into(),
            reason: reason.into(),
            fix: fix.into(),
        })
    }
}

/// A type that a kernel may return: a tensor, an array of tensors, or a list of tensors.
///
/// ```
/// use funcify::dispatch::IntoTensors;
///
/// assert_eq!(IntoTensors::<f32>::into_tensors([1.0, 2.0]).len(), 2);
/// assert_eq!(IntoTensors::<f32>::into_tensors(1.0).len(), 1);
/// ```
pub trait IntoTensors<T> {
    /// Converts the value to a list of its tensors, in order.
    fn into_tensors(self) -> Tensors<T>;
}

impl<T> IntoTensors<T> for Tensors<T> {
    fn into_tensors(self) -> Tensors<T> {
        self
    }
}

impl<T, const N: usize> IntoTensors<T> for [T; N] {
    fn into_tensors(self) -> Tensors<T> {
        self.into_iter().collect()
    }
}

impl<T> IntoTensors<T> for T {
    fn into_tensors(self) -> Tensors<T> {
        smallvec::smallvec![self]
    }
}
