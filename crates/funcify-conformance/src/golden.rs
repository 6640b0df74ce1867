//! Reads the golden values: inputs and results computed independently of funcify, in one file per case.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use funcify::{DType, HostTensor, TensorType};
use serde::Deserialize;

/// The manifest, which lists every case with its tensors, tolerances and flags. `golden/README.md` describes its
/// format.
#[derive(Clone, Debug, Deserialize)]
pub struct Manifest {
    /// The golden cases.
    pub cases: Vec<GoldenCase>,
}

/// A case in the manifest.
#[derive(Clone, Debug, Deserialize)]
pub struct GoldenCase {
    /// The case's name, which is unique.
    pub name: String,
    /// The name of the safetensors file with the case's tensors.
    pub file: String,
    /// The case's category, such as `scan` or `taps`.
    pub category: String,
    /// The float dtype of the program.
    pub dtype: String,
    /// The mathematical definition of the program.
    pub definition: String,
    /// The case's flags. The top of the manifest explains each flag.
    pub flags: Vec<String>,
    /// The tensors in the file.
    pub tensors: Vec<GoldenTensor>,
    /// The tolerances, keyed by the dtype of the computation.
    pub tolerance: BTreeMap<String, Tolerance>,
}

/// A tensor of a case.
#[derive(Clone, Debug, Deserialize)]
pub struct GoldenTensor {
    /// The tensor's key in the file: `in.xs`, `out.ys`, `grad.xs`, ...
    pub key: String,
    /// The tensor's dtype in the program.
    pub dtype: String,
    /// The tensor's shape.
    pub shape: Vec<usize>,
}

/// A tolerance: `|got - expected| <= atol + rtol * |expected|`.
#[derive(Clone, Debug, Deserialize)]
pub struct Tolerance {
    /// The tolerance relative to the expected value.
    pub rtol: f64,
    /// The absolute tolerances, keyed by [`GoldenTensor::key`].
    pub atol: BTreeMap<String, f64>,
}

/// Returns the folder with the golden values.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

impl Manifest {
    /// Reads the manifest. The error says why the manifest is missing or invalid.
    pub fn load() -> Result<Manifest, String> {
        let path = folder().join("manifest.json");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl GoldenCase {
    /// Reads the tensors of the case from its file, keyed by [`GoldenTensor::key`]. Floats keep the dtype that they
    /// have in the file.
    pub fn tensors(&self) -> Result<BTreeMap<String, HostTensor>, String> {
        funcify::files::read_safetensors(folder().join(&self.file)).map_err(|error| error.to_string())
    }

    /// Returns the names and types of the tensors in a group, such as `in`, `out` or `ct`.
    pub fn group(&self, group: &str) -> Vec<(String, TensorType)> {
        let prefix = format!("{group}.");
        let of_group = self.tensors.iter().filter_map(|tensor| {
            let name = tensor.key.strip_prefix(&prefix)?;
            let dtype = DType::from_name(&tensor.dtype)?;
            Some((name.to_string(), TensorType::new(dtype, tensor.shape.as_slice())))
        });
        of_group.collect()
    }

    /// Returns the type that the tensor with this key has in the program, or `None` if the manifest does not list the
    /// tensor.
    pub fn ty(&self, key: &str) -> Option<TensorType> {
        let tensor = self.tensors.iter().find(|tensor| tensor.key == key)?;
        Some(TensorType::new(DType::from_name(&tensor.dtype)?, tensor.shape.as_slice()))
    }

    /// Returns `true` if the case has the flag.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }
}
