//! Tensors in files: safetensors, by name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, View};

use crate::error::{Error, Place, Result, Site};
use crate::host::{HostTensor, Storage};
use crate::types::DType;

/// Reads every tensor of a safetensors file.
#[track_caller]
pub fn read_safetensors(path: impl AsRef<Path>) -> Result<BTreeMap<String, HostTensor>> {
    let (path, site) = (path.as_ref(), Site::caller());
    let failed = |reason| file_error("read_safetensors", site, path, reason);
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    parse_safetensors(&bytes).map_err(failed)
}

/// Reads every tensor of a safetensors file that is in memory. The error is what is wrong with it.
pub fn parse_safetensors(bytes: &[u8]) -> Result<BTreeMap<String, HostTensor>, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.tensors() {
        let dtype =
            dtype_of(view.dtype()).ok_or_else(|| format!("tensor `{name}` has the dtype {:?}", view.dtype()))?;
        let storage = Storage::from_le_bytes(dtype, view.data());
        let tensor = HostTensor::new(view.shape(), storage)
            .ok_or_else(|| format!("tensor `{name}` has fewer elements than its shape"))?;
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}

/// Writes tensors to a safetensors file.
#[track_caller]
pub fn write_safetensors(path: impl AsRef<Path>, tensors: &BTreeMap<String, HostTensor>) -> Result<()> {
    let (path, site) = (path.as_ref(), Site::caller());
    let views = tensors.iter().map(|(name, tensor)| (name, TensorView(tensor)));
    safetensors::serialize_to_file(views, None, path)
        .map_err(|error| file_error("write_safetensors", site, path, error.to_string()))
}

fn file_error(function: &str, site: Site, path: &Path, reason: String) -> Error {
    let at = Box::new(Place::new(function, site));
    Error::File { at, path: path.display().to_string(), reason }
}

struct TensorView<'a>(&'a HostTensor);

impl View for TensorView<'_> {
    fn dtype(&self) -> Dtype {
        match self.0.dtype() {
            DType::Bool => Dtype::BOOL,
            DType::U8 => Dtype::U8,
            DType::U32 => Dtype::U32,
            DType::I32 => Dtype::I32,
            DType::I64 => Dtype::I64,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            DType::F32 => Dtype::F32,
            DType::F64 => Dtype::F64,
        }
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.0.storage().to_le_bytes())
    }

    fn data_len(&self) -> usize {
        self.0.len() * self.0.dtype().size()
    }
}

fn dtype_of(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::BOOL => DType::Bool,
        Dtype::U8 => DType::U8,
        Dtype::U32 => DType::U32,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        _ => return None,
    })
}
