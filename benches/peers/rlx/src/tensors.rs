//! Reads and writes tensors in files. In memory, all tensors are f32, including indices, because rlx's `argmax` and
//! `gather` use f32 indices.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize_to_file};

/// A tensor in host memory.
pub(crate) struct Tensor {
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Vec<f32>,
    /// `true` if the tensor is stored as i64 in the file.
    pub(crate) is_integer: bool,
}

/// Reads the named tensors of a file.
pub(crate) fn read(path: &str) -> Result<BTreeMap<String, Tensor>> {
    let bytes = std::fs::read(path)?;
    let mut tensors = BTreeMap::new();
    for (name, view) in SafeTensors::deserialize(&bytes)?.iter() {
        let (data, shape) = (view.data(), view.shape().to_vec());
        let is_integer = view.dtype() == Dtype::I64;
        let numbers = match view.dtype() {
            Dtype::F32 => chunks(data).map(f32::from_le_bytes).collect(),
            Dtype::I64 => chunks(data).map(|bytes| i64::from_le_bytes(bytes) as f32).collect(),
            other => bail!("`{name}` is {other:?}"),
        };
        tensors.insert(name.to_string(), Tensor { shape, numbers, is_integer });
    }
    Ok(tensors)
}

/// Writes named tensors to a file.
pub(crate) fn write(path: &str, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    let bytes: Vec<Vec<u8>> = tensors.values().map(Tensor::bytes).collect();
    let mut views = Vec::new();
    for ((name, tensor), bytes) in tensors.iter().zip(&bytes) {
        let dtype = if tensor.is_integer { Dtype::I64 } else { Dtype::F32 };
        views.push((name, TensorView::new(dtype, tensor.shape.clone(), bytes)?));
    }
    Ok(serialize_to_file(views, None, path.as_ref())?)
}

impl Tensor {
    fn bytes(&self) -> Vec<u8> {
        if self.is_integer {
            return self.numbers.iter().flat_map(|&number| (number as i64).to_le_bytes()).collect();
        }
        self.numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }
}

fn chunks<const N: usize>(data: &[u8]) -> impl Iterator<Item = [u8; N]> {
    data.chunks_exact(N).map(|chunk| chunk.try_into().expect("a chunk has its length"))
}
