//! What may be refused.

/// Why there is no routine, or why it does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Cranelift has no code for this processor, or for what the loop asks of it.
    #[error("no machine code for this processor: {0}")]
    Processor(String),
    /// A vector of so many elements.
    #[error("a vector of {0} elements: machine code has vectors of one element or of 16 bytes")]
    Lanes(usize),
    /// What a stream reaches is not in its buffer, or is written though the buffer is only read.
    #[error("stream {0} leaves its buffer")]
    Bounds(usize),
}
