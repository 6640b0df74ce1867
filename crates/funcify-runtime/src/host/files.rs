//! Reads and writes named tensors in safetensors files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use funcify_core::error::{Error, Place, Result, Site};
use funcify_core::types::DType;
use funcify_core::{HostTensor, Storage};
use safetensors::tensor::{Dtype, SafeTensors, View};

/// Reads all tensors of a safetensors file.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use funcify::HostTensor;
/// use funcify::files::{read_safetensors, write_safetensors};
///
/// let path = std::env::temp_dir().join("funcify-read.safetensors");
/// write_safetensors(&path, &BTreeMap::from([("w".to_string(), HostTensor::from([1f32, 2.0]))]))?;
/// assert_eq!(read_safetensors(&path)?["w"], HostTensor::from([1f32, 2.0]));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn read_safetensors(path: impl AsRef<Path>) -> Result<BTreeMap<String, HostTensor>> {
    read("read_safetensors", Site::caller(), path.as_ref(), |_| true)
}

/// Reads the tensors of a safetensors file and skips those with an unsupported element type. Returns an error if a
/// skipped tensor is in `needed`.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use funcify::HostTensor;
/// use funcify::files::{read_safetensors_needed, write_safetensors};
///
/// let path = std::env::temp_dir().join("funcify-needed.safetensors");
/// write_safetensors(&path, &BTreeMap::from([("w".to_string(), HostTensor::from([1f32, 2.0]))]))?;
/// assert_eq!(read_safetensors_needed(&path, &["w"])?["w"], HostTensor::from([1f32, 2.0]));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn read_safetensors_needed(path: impl AsRef<Path>, needed: &[&str]) -> Result<BTreeMap<String, HostTensor>> {
    read("read_safetensors_needed", Site::caller(), path.as_ref(), |name| needed.contains(&name))
}

fn read(function: &str, site: Site, path: &Path, needs: impl Fn(&str) -> bool) -> Result<BTreeMap<String, HostTensor>> {
    let failed = |problem: Problem| file_error(function, site, path, problem);
    let bytes = fs::read(path).map_err(|error| failed(error.to_string().into()))?;
    parse(&bytes, needs).map_err(failed)
}

/// Parses the contents of a safetensors file and returns all its tensors. The error is a description of the problem.
///
/// ```
/// assert!(funcify::files::parse_safetensors(b"no such file").is_err());
/// ```
pub fn parse_safetensors(bytes: &[u8]) -> Result<BTreeMap<String, HostTensor>, String> {
    parse(bytes, |_| true).map_err(|problem| match problem.fix.as_str() {
        "" => problem.reason,
        fix => format!("{}; {fix}", problem.reason),
    })
}

fn parse(bytes: &[u8], needs: impl Fn(&str) -> bool) -> Result<BTreeMap<String, HostTensor>, Problem> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.tensors() {
        let dtype = match DType::ALL.into_iter().find(|dtype| file_dtype(*dtype) == view.dtype()) {
            Some(dtype) => dtype,
            None if !needs(&name) => continue,
            None => {
                let reason = format!("tensor `{name}` has the dtype {:?}, which is not supported", view.dtype());
                return Err(Problem { reason, fix: storage_advice(view.dtype()).to_string() });
            }
        };
        let storage = Storage::from_le_bytes(dtype, view.data());
        let tensor = HostTensor::new(view.shape(), storage)
            .ok_or_else(|| format!("tensor `{name}` does not have as many elements as its shape says"))?;
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}

/// Writes tensors to a safetensors file. Writes to a temporary file first, so that a failed write leaves an existing
/// file unchanged.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use funcify::HostTensor;
/// use funcify::files::{parse_safetensors, write_safetensors};
///
/// let path = std::env::temp_dir().join("funcify-written.safetensors");
/// let weights = BTreeMap::from([("w".to_string(), HostTensor::from([1f32, 2.0]))]);
/// write_safetensors(&path, &weights)?;
/// assert_eq!(parse_safetensors(&std::fs::read(&path).unwrap()).unwrap(), weights);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn write_safetensors(path: impl AsRef<Path>, tensors: &BTreeMap<String, HostTensor>) -> Result<()> {
    let (path, site) = (path.as_ref(), Site::caller());
    let views = tensors.iter().map(|(name, tensor)| (name, TensorView(tensor)));
    let write = |path: &Path| safetensors::serialize_to_file(views, None, path).map_err(|error| error.to_string());
    replace(path, write).map_err(|reason| file_error("write_safetensors", site, path, reason.into()))
}

/// Replaces a file with the output of `write`, once the output is complete. Preserves the file's permissions and
/// follows symbolic links. Pipes, devices and other paths that are not regular files are written directly.
fn replace(path: &Path, write: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let old = fs::metadata(&path).ok();
    if old.as_ref().is_some_and(|old| !old.is_file() && !old.is_dir()) {
        return write(&path);
    }
    let name = path.file_name().ok_or("the path has no file name")?.to_string_lossy().into_owned();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let temporary = TemporaryFile(path.with_file_name(format!(".{name}.{}-{number}.part", std::process::id())));
    let text = |error: std::io::Error| error.to_string();
    fs::File::create_new(&temporary.0).map_err(text)?;
    write(&temporary.0)?;
    if let Some(old) = old.filter(fs::Metadata::is_file) {
        fs::set_permissions(&temporary.0, old.permissions()).map_err(text)?;
    }
    // Flush the new file to disk before it replaces the old one.
    fs::File::open(&temporary.0).and_then(|file| file.sync_all()).map_err(text)?;
    fs::rename(&temporary.0, &path).map_err(text)
}

/// A temporary file that is removed on drop unless it was renamed.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // The removal fails if the file was already renamed. This failure can be ignored.
        let _ = fs::remove_file(&self.0);
    }
}

/// A problem with a file, and the fix, which is empty if none is known.
struct Problem {
    reason: String,
    fix: String,
}

impl From<String> for Problem {
    fn from(reason: String) -> Self {
        Problem { reason, fix: String::new() }
    }
}

fn file_error(function: &str, site: Site, path: &Path, problem: Problem) -> Error {
    let Problem { reason, fix } = problem;
    Error::File { at: Place::new(function, site).boxed(), path: path.display().to_string(), reason, fix }
}

struct TensorView<'a>(&'a HostTensor);

impl View for TensorView<'_> {
    fn dtype(&self) -> Dtype {
        file_dtype(self.0.dtype())
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

/// Returns the safetensors dtype that corresponds to a dtype.
fn file_dtype(dtype: DType) -> Dtype {
    match dtype {
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

/// Returns advice on converting a tensor of this dtype to a supported dtype, for an error message.
fn storage_advice(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::I8 | Dtype::I16 => "store it as I32, which represents all of its values exactly",
        Dtype::U16 => "store it as U32, which represents all of its values exactly",
        Dtype::U64 => "store it as I64 if its values are below 2^63, or else as two tensors of U32",
        Dtype::C64 => "store its real and imaginary parts as two tensors of F32",
        Dtype::F4 | Dtype::F6_E2M3 | Dtype::F6_E3M2 | Dtype::F8_E5M2 | Dtype::F8_E4M3 => {
            "store it as F16, which represents all of its values exactly"
        }
        Dtype::F8_E8M0 => "store it as BF16, which represents all of its values exactly",
        _ => "store it as F32, F64, I32 or I64",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("funcify-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn tensors(number: f32) -> BTreeMap<String, HostTensor> {
        [("x".to_string(), HostTensor::scalar(number))].into()
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file() {
        let folder = folder("fails");
        let file = folder.join("t.safetensors");
        write_safetensors(&file, &tensors(1.0)).unwrap();
        let failed = replace(&file, |part| {
            fs::write(part, "half of it").unwrap();
            Err("the disk is full".into())
        });
        assert_eq!(failed, Err("the disk is full".to_string()));
        assert_eq!(read_safetensors(&file).unwrap(), tensors(1.0));
        assert_eq!(names(&folder), ["t.safetensors"]);

        let panicked = std::panic::catch_unwind(|| replace(&file, |_| panic!("in the middle")));
        assert!(panicked.is_err());
        assert_eq!(names(&folder), ["t.safetensors"]);

        write_safetensors(&file, &tensors(2.0)).unwrap();
        assert_eq!((read_safetensors(&file).unwrap(), names(&folder).len()), (tensors(2.0), 1));
        // The first path is a folder. The second one is in a folder that does not exist.
        for path in [folder.clone(), folder.join("none").join("t.safetensors")] {
            assert_eq!(write_safetensors(path, &tensors(3.0)).unwrap_err().kind(), "File");
        }
        assert_eq!(names(&folder), ["t.safetensors"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn permissions_links_and_devices_stay_what_they_are() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("modes");
        let (file, link) = (folder.join("t.safetensors"), folder.join("link"));
        write_safetensors(&file, &tensors(1.0)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_safetensors(&link, &tensors(2.0)).unwrap();
        assert_eq!(read_safetensors(&file).unwrap(), tensors(2.0));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(&folder), ["link", "t.safetensors"]);
        write_safetensors("/dev/null", &tensors(1.0)).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        fs::remove_dir_all(folder).unwrap();
    }

    /// Returns the contents of a safetensors file with a single tensor of this dtype, whose data consists of `bytes`
    /// zero bytes.
    fn file_of(dtype: &str, bytes: usize) -> Vec<u8> {
        let header = format!("{{\"odd\":{{\"dtype\":\"{dtype}\",\"shape\":[2],\"data_offsets\":[0,{bytes}]}}}}");
        [(header.len() as u64).to_le_bytes().as_slice(), header.as_bytes(), &vec![0; bytes]].concat()
    }

    #[test]
    fn types_that_are_not_supported_have_a_fix_and_are_left_out_where_nothing_needs_them() {
        let folder = folder("types");
        let file = folder.join("t.safetensors");
        let unsupported = [
            ("I8", 2),
            ("I16", 4),
            ("U16", 4),
            ("U64", 16),
            ("C64", 16),
            ("F8_E5M2", 2),
            ("F8_E4M3", 2),
            ("F8_E8M0", 2),
            ("F4", 1),
        ];
        for (dtype, bytes) in unsupported {
            let bytes = file_of(dtype, bytes);
            let problem = parse_safetensors(&bytes).unwrap_err();
            assert!(problem.contains("tensor `odd`") && problem.contains("; store it"), "{dtype}: {problem}");
            fs::write(&file, bytes).unwrap();
            let error = read_safetensors(&file).unwrap_err().to_string();
            assert!(error.contains("fix:      store it"), "{error}");
            assert!(read_safetensors_needed(&file, &["other"]).unwrap().is_empty());
            assert!(read_safetensors_needed(&file, &["odd"]).is_err());
        }
        assert_eq!(parse_safetensors(&file_of("F32", 8)).unwrap()["odd"], HostTensor::from([0f32; 2]));
        fs::remove_dir_all(folder).unwrap();
    }
}
