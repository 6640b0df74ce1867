//! The types of values: element types, dimensions and shapes.

mod dim;
mod dtype;
pub(crate) mod grammar;
mod halves;
pub(crate) mod lexer;
pub(crate) mod nearest;
mod shape;
mod sizes;

pub use dim::{Dim, Replacements, Symbol};
pub use dtype::DType;
pub use halves::{nearest_bf16, nearest_f16, round_integer_to_odd};
pub use shape::{Shape, TensorType};
pub use sizes::{SizeError, Sizes};

macro_rules! debug_as_display {
    ($($ty:ident),*) => {
        $(impl std::fmt::Debug for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        })*
    };
}

debug_as_display!(Symbol, Dim, Shape, TensorType);
