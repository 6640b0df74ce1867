//! `Toy`: a backend that is defined outside of funcify. Its tensors have f64 elements, and it supports only a few ops.

mod ops;
mod tensor;

use funcify::dispatch::{Backend, Part, StackType};
use funcify::error::BackendError;
use funcify::{DType, HostTensor, register_backend};
pub use tensor::ToyTensor;

/// The toy backend, which has a single device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Toy;

register_backend!("toy", || funcify::Result::Ok(Toy));

impl Backend for Toy {
    type Tensor = ToyTensor;
    type Tracked = ();

    fn name(&self) -> &'static str {
        "toy"
    }

    fn unsupported(&self, dtype: DType, _: usize) -> Option<String> {
        (dtype != DType::F64).then(|| "its tensors hold f64 only".to_string())
    }

    fn upload(&self, tensor: &HostTensor) -> Result<ToyTensor, BackendError> {
        let elements = tensor.as_slice::<f64>().ok_or("its tensors hold f64 only")?;
        ToyTensor::new(tensor.shape(), elements.to_vec())
    }

    fn download(&self, tensor: &ToyTensor, dtype: DType) -> Result<HostTensor, BackendError> {
        let host = HostTensor::from_vec(tensor.elements().to_vec(), tensor.shape());
        Ok(host.ok_or("the elements do not fill the shape")?.cast(dtype))
    }

    fn shape(&self, tensor: &ToyTensor) -> Vec<usize> {
        tensor.shape().to_vec()
    }

    fn has_dtype(&self, _: &ToyTensor, dtype: DType) -> bool {
        dtype == DType::F64
    }

    fn rows(&self, tensor: &ToyTensor, start: usize, count: usize) -> Result<ToyTensor, BackendError> {
        tensor.rows(start, count)
    }

    fn row(&self, tensor: &ToyTensor, row: usize) -> Result<ToyTensor, BackendError> {
        let block = tensor.rows(row, 1)?;
        ToyTensor::new(&block.shape()[1..], block.elements().to_vec())
    }

    fn stack(&self, parts: Vec<Part<ToyTensor>>, ty: &StackType) -> Result<ToyTensor, BackendError> {
        let elements = parts.iter().flat_map(|part| {
            let (Part::Row(tensor) | Part::Block(tensor)) = part;
            tensor.elements().iter().copied()
        });
        ToyTensor::new(&ty.shape(), elements.collect())
    }
}
