//! Backends by name on tensors in host memory, the reference backend, and files.

pub(crate) mod eager;
pub(crate) mod executor;
pub mod files;
pub(crate) mod needs;
pub(crate) mod reference;
