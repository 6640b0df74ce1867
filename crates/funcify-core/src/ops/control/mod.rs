//! Control flow: ops that run bodies, and the op that gives a size a number.

pub mod associative;
pub(in crate::ops) mod bind_size;
pub mod call;
pub mod scan;
pub mod switch;
pub mod while_loop;

pub use associative::{AssociativeScan, Sweeps};
pub use bind_size::BindSize;
pub use call::{Call, Rule};
pub use scan::Scan;
pub use switch::Switch;
pub use while_loop::While;
