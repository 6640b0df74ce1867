//! What a kernel is given beside its operands, and what it may give back.

use funcify_core::error::{BackendError, Error, Place};
use funcify_core::types::{DType, Dim, Shape, SizeError, Sizes, TensorType};

use super::{Backend, Tensors};

/// What a kernel may ask about the call that it serves. `O` is the op's type.
pub struct KernelCall<'a, B: Backend, O> {
    /// The op with its attributes.
    pub op: &'a O,
    /// The device.
    pub backend: &'a B,
    /// The operands' types, with symbols.
    pub inputs: &'a [TensorType],
    /// The results' types, with symbols.
    pub outputs: &'a [TensorType],
    pub(crate) sizes: &'a Sizes,
    pub(crate) at: &'a Place,
}

impl<'a, B: Backend, O> KernelCall<'a, B, O> {
    /// The same call with the op as another type.
    pub fn with_op<P>(&self, op: &'a P) -> KernelCall<'a, B, P> {
        let KernelCall { backend, inputs, outputs, sizes, at, .. } = *self;
        KernelCall { op, backend, inputs, outputs, sizes, at }
    }

    /// A kernel's results as the device keeps them ([`Backend::normalize`]).
    pub fn normalize(&self, results: Tensors<B::Tensor>) -> Result<Tensors<B::Tensor>, BackendError> {
        let typed = results.into_iter().zip(self.outputs);
        typed.map(|(tensor, ty)| self.backend.normalize(tensor, ty.dtype)).collect()
    }

    /// The number that a dimension has in this call.
    pub fn dim(&self, dim: &Dim) -> Result<usize, BackendError> {
        let value = self.dim_value(dim)?;
        usize::try_from(value)
            .map_err(|_| funcify_core::ops::no_size(self.at, SizeError::Negative(dim.clone(), value)).into())
    }

    /// The value of a dimension in this call, which may be negative: no size then, but a number.
    pub fn dim_value(&self, dim: &Dim) -> Result<i64, BackendError> {
        dim.value(self.sizes).map_err(|error| funcify_core::ops::no_size(self.at, error).into())
    }

    /// The sizes that a shape has in this call.
    pub fn shape(&self, shape: &Shape) -> Result<Vec<usize>, BackendError> {
        shape.dims().iter().map(|dim| self.dim(dim)).collect()
    }

    /// The sizes of result `index`.
    pub fn output_shape(&self, index: usize) -> Result<Vec<usize>, BackendError> {
        self.shape(&self.outputs[index].shape)
    }

    /// The element type of operand `index`.
    pub fn dtype(&self, index: usize) -> DType {
        self.inputs[index].dtype
    }

    /// The sizes of the call.
    pub fn sizes(&self) -> &Sizes {
        self.sizes
    }

    /// The op and the user's line, for errors.
    pub fn place(&self) -> &Place {
        self.at
    }

    /// The error of something that the device does not support.
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

/// What a kernel's formula may give: one tensor, an array, or a list.
pub trait IntoTensors<T> {
    /// The tensors in order.
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
