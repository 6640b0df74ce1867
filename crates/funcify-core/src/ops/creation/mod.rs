//! Ops whose results depend only on attributes and sizes, and the op that computes random bits.

pub(in crate::ops) mod constant;
pub(in crate::ops) mod iota;
pub(in crate::ops) mod size;
pub(in crate::ops) mod threefry;

pub use constant::Constant;
pub use iota::Iota;
pub use size::Size;
pub use threefry::{Threefry, Words, threefry_bits, threefry_words};
