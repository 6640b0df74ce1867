//! Errors from compiling and running routines.

/// The reason why a routine cannot be compiled or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Cranelift cannot generate code for this processor, or for an operation of the loop.
    #[error("no machine code for this processor: {0}")]
    Processor(String),
    /// This number of lanes is not supported.
    #[error("unsupported vector of {0} elements: machine code has vectors of one element or of 16 bytes")]
    Lanes(usize),
    /// The stream with this index has no span or no buffer, accesses elements outside its buffer, or writes to a
    /// read-only buffer.
    #[error("stream {0} is out of bounds, or writes to a read-only buffer")]
    Bounds(usize),
}
