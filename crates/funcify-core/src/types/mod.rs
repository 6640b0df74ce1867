//! What a value is before it has numbers: its element type, its dimensions, its shape.

mod dim;
mod dtype;
pub(crate) mod grammar;
mod halves;
pub(crate) mod lexer;
pub(crate) mod nearest;
mod shape;
mod sizes;

pub use dim::Replacements;
pub use dim::{Dim, Symbol};
pub use dtype::DType;
pub use halves::{integer_to_odd, nearest_bf16, nearest_f16};
pub use shape::{Shape, TensorType};
pub use sizes::{SizeError, Sizes};
