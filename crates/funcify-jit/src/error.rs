//! Errors from compiling and running routines.

/// The reason why a routine cannot be compiled or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Cranelift cannot generate code for this processor, or for an operation of the loop.
    #[error("no machine code for this processor: {0}")]
    Processor(String),
    /// The number of lanes is not supported. Contains this number.
    #[error("unsupported vector of {0} elements: machine code has vectors of one element or of 16 bytes")]
    Lanes(usize),
    /// A stream reads or writes past the end of its buffer, or writes to a read-only buffer. Contains the stream's
    /// index.
    #[error("stream {0} is out of bounds, or writes to a read-only buffer")]
    Bounds(usize),
}
