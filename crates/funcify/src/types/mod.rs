//! What a value is before it has numbers: its element type, its dimensions, its shape.

mod dim;
mod dtype;
mod shape;
mod sizes;

pub use dim::{Dim, Symbol};
pub use dtype::DType;
pub use shape::{Shape, TensorType};
pub use sizes::{SizeError, Sizes};
