//! What a value is before it has numbers: its element type, its dimensions, its shape.

mod dim;
mod dtype;
mod shape;

pub use dim::{Dim, Sizes, Symbol};
pub use dtype::DType;
pub use shape::{Shape, TensorType};
