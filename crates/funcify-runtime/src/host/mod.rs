//! Opens backends by name, runs them on host tensors, and reads and writes files. Includes the reference backend.

pub(crate) mod eager;
pub(crate) mod executor;
pub mod files;
pub(crate) mod needs;
pub(crate) mod reference;
