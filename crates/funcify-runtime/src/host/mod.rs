//! Opens backends by name, runs graphs on host tensors, and reads and writes safetensors files. Includes the reference
//! backend.

pub(crate) mod eager;
pub(crate) mod executor;
pub mod files;
pub(crate) mod needs;
pub(crate) mod reference;
